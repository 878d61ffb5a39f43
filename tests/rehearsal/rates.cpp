// A table of how often the judge is right over made fleets:
//
//   rehearsal_rates --gpus=8 --noise=calm,mixed --faults=none,gemm:0.05,hbm:0.04+link:0.2 --n=100 [--seed=1]
//   [--threads=2]
//     [--no-repeats] [--leaf-hosts=16] [--pair-samples=10] [--list] [--gate [--own-runs=1]]
//   rehearsal_rates --gpus=16 --noise=calm --faults=nic:0.5 --seed=3 --write=DIR     # one fleet, for shakedown report
#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "base/files.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "report/rehearsal_outcome.hpp"
#include "tests/rehearsal/judge_gate.hpp"

namespace shakedown::rehearsal {

namespace {

constexpr int gpus_of_a_host = 8;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct Flags {
  std::vector<int> gpus{8};
  std::vector<std::string> noises{"calm"}, faults{"none"};
  int n = 20, threads = 2, leaf_hosts = 16, pair_samples = 0, own_runs = 0;
  std::uint64_t seed = 1;
  bool repeats = true, list = false, gate = false;
  std::string folder;
};

int number(const std::string& flag, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw InputError(fmt::format("{}: \"{}\" is no number from 1 on; write one, as in {}=100", flag, text, flag));
  }
  return value;
}

Flags parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    const std::string flag = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (flag == "--gpus") {
      flags.gpus.clear();
      for (const auto& text : split(value)) flags.gpus.push_back(number(flag, text));
    } else if (flag == "--noise") {
      flags.noises = split(value);
    } else if (flag == "--faults") {
      flags.faults = split(value);
    } else if (flag == "--n") {
      flags.n = number(flag, value);
    } else if (flag == "--seed") {
      flags.seed = static_cast<std::uint64_t>(number(flag, value));
    } else if (flag == "--threads") {
      flags.threads = number(flag, value);
    } else if (flag == "--leaf-hosts") {
      flags.leaf_hosts = number(flag, value);
    } else if (flag == "--pair-samples") {
      flags.pair_samples = number(flag, value);
    } else if (flag == "--no-repeats") {
      flags.repeats = false;
    } else if (flag == "--gate") {
      flags.gate = true;
    } else if (flag == "--own-runs") {
      flags.own_runs = number(flag, value);
    } else if (flag == "--list") {
      flags.list = true;
    } else if (flag == "--write") {
      flags.folder = value;
    } else {
      throw InputError(word + ": is unknown; see the head of tests/rehearsal/rates.cpp");
    }
  }
  return flags;
}

struct Cell {
  const Noise* noise;
  int gpus;
  std::string faults;
};

Order order_of(const Flags& flags, const Cell& cell, std::uint64_t seed, const std::vector<Profile>& limits) {
  Order order;
  order.shape.hosts = (cell.gpus + gpus_of_a_host - 1) / gpus_of_a_host;
  order.shape.gpus = std::min(cell.gpus, gpus_of_a_host);
  order.shape.leaf_hosts = flags.leaf_hosts;
  order.noise = *cell.noise;
  order.seed = seed;
  order.repeats = flags.repeats;
  order.limits = &limits;
  order.tier = flags.gate ? Tier::gate : Tier::quick;
  order.pair_samples = flags.pair_samples;
  if (cell.faults != "none") order.faults = placed(parse_faults(cell.faults), order.shape, seed);
  return order;
}

std::string rate(int k, int n) { return fmt::format("{}/{} (<= {:.1f} %)", k, n, 100 * binomial_upper_bound(k, n)); }

/// Lists the culprits and the failing findings of one fleet.
std::string list_of(const Fleet& fleet, const Verdict& verdict, std::uint64_t seed) {
  std::string text = fmt::format("  seed {}: {}\n", seed, verdict_line(verdict));
  for (const Fault& fault : fleet.order().faults) {
    text += fmt::format("    planted: {} {} of rank {} on {}\n", name(fault.what), fault.part,
                        fault.host * fleet.machine().shape.gpus + fault.local,
                        fleet.machine().hosts[static_cast<std::size_t>(fault.host)].name);
  }
  for (const Diagnosis& diagnosis : verdict.culprits) {
    text += fmt::format("    {}{}: {} place(s), first {} rank {}: {}\n", diagnosis.fails ? "" : "(no failure) ",
                        causes_text(diagnosis), diagnosis.place_count,
                        diagnosis.places.empty() ? "none" : diagnosis.places.front().host,
                        diagnosis.places.empty() ? -1 : diagnosis.places.front().rank.value_or(-1), diagnosis.detail);
  }
  for (const Finding& finding : verdict.findings) {
    if (finding.good() || !finding.counts()) continue;
    text += fmt::format("    {} {} {}: {}: {} {}\n", name(finding.judgement), finding.key, finding.metric,
                        name(finding.status), finding.value.value_or(0), finding.detail);
  }
  return text;
}

void measure(const Flags& flags, const Cell& cell, const std::vector<Profile>& profiles) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(flags.n));
  std::map<std::uint64_t, std::string> lists;
  std::mutex lock;
  std::atomic<int> next = 0;
  const auto work = [&] {
    for (int i = next++; i < flags.n; i = next++) {
      const std::uint64_t seed = flags.seed + static_cast<std::uint64_t>(i);
      const Fleet fleet(order_of(flags, cell, seed, profiles));
      const Verdict verdict =
          flags.own_runs > 0 ? judge_gate(fleet, profiles, flags.own_runs) : judge_fleet(fleet, profiles);
      outcomes[static_cast<std::size_t>(i)] = outcome_of(fleet, verdict);
      if (!flags.list) continue;
      const std::lock_guard guard(lock);
      lists[seed] = list_of(fleet, verdict, seed);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < flags.threads; ++i) threads.emplace_back(work);
  }
  std::map<State, int> states;
  int first = 0, named = 0, located = 0, hinted = 0, innocent = 0;
  for (const Outcome& outcome : outcomes) {
    ++states[outcome.state];
    first += outcome.first;
    named += outcome.named;
    located += outcome.located;
    hinted += outcome.hinted;
    innocent += outcome.innocent;
  }
  std::string counts;
  for (const auto& [state, count] : states)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", name(state), count);
  const bool planted = cell.faults != "none";
  fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", cell.noise->name, cell.gpus, cell.faults, flags.n,
             counts, planted ? rate(first, flags.n) : "-", planted ? rate(named, flags.n) : "-",
             planted ? rate(located, flags.n) : "-", planted ? rate(hinted, flags.n) : "-", rate(innocent, flags.n));
  for (const auto& [seed, text] : lists) fmt::print("{}", text);
  std::fflush(stdout);
}

int run(const Flags& flags) {
  const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;
  std::vector<Noise> noises;
  for (const auto& name : flags.noises)
    noises.push_back(read_noise(source / "thresholds/rehearsal/noise" / (name + ".yaml")));
  const auto profiles = load_profiles(source / "thresholds");
  if (!flags.folder.empty()) {
    const Cell cell{&noises.front(), flags.gpus.front(), flags.faults.front()};
    write(Fleet(order_of(flags, cell, flags.seed, profiles)).results(), flags.folder);
    return 0;
  }
  fmt::print(
      "| noise | GPUs | fault | n | verdicts | named first | named | at least its host | named or hinted | innocent "
      "named |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Noise& noise : noises) {
    for (const int gpus : flags.gpus) {
      for (const auto& faults : flags.faults) measure(flags, {&noise, gpus, faults}, profiles);
    }
  }
  return 0;
}

}  // namespace

}  // namespace shakedown::rehearsal

int main(int argc, char** argv) {
  try {
    return shakedown::rehearsal::run(shakedown::rehearsal::parse(argc, argv));
  } catch (const shakedown::InputError& error) {
    fmt::print(stderr, "rehearsal_rates: {}\n", error.what());
    return 2;
  }
}
