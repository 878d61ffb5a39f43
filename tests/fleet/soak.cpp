// fleet_soak: makes days of rounds of a made-up fleet, judges each round and each day as `shakedown accept --for`
// does, and counts alarms of healthy days, and who is named, and when, for what is planted.
//
//   build/tests/fleet/fleet_soak --days=1..20 -j4
//   build/tests/fleet/fleet_soak --days=1..20 --plant=drift
//
// A day is a fleet of its own (--days are seeds, of the same two kinds as those of fleet_rate), a round a launch of it.
// --plant, on rank 3: drift (3 % over 10 hours from hour 5), corruption (wrong bits of one product in one round of the
// day), xid (79, at hour 7), reboot (at hour 10, nine minutes), neighbour (half of its rate for ten minutes of hour 9);
// none. --cycle=P: all are P % slower at noon than at midnight. --minutes: of a round.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <numbers>

#include "tests/fleet/flags.hpp"
#include "tests/fleet/seeds.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/soak/soak.hpp"

namespace shakedown::fleet {
namespace {

constexpr int guilty_rank = 3;
constexpr double hour = 3600;

struct Day {
  Plan plan;
  std::string plant;
  double hours = 24, minutes = 3, cycle = 0;
  std::vector<Profile> profiles;
};

/// What is planted at this hour; nothing: a healthy round.
std::optional<std::string> planted(const Day& day, double at, std::size_t round, std::size_t rounds) {
  const std::string rank = "rank=" + std::to_string(guilty_rank);
  if (day.plant == "drift" && at > 5) {
    return "gpu:" + rank + ",percent=" + std::to_string(std::min(3.0, 3 * (at - 5) / 10));
  }
  if (day.plant == "corruption" && round == 2 * rounds / 3) return "sdc:" + rank + ",in=gemm/dtype:bf16/m:8192";
  if (day.plant == "xid" && round == static_cast<std::size_t>(7 * 60 / day.minutes))
    return "errors:" + rank + ",what=xid_79";
  if (day.plant == "neighbour" && at >= 9 && at < 9.17) return "gpu:" + rank + ",percent=50";
  return std::nullopt;
}

Soak soak_of(const Day& day, std::uint64_t seed) {
  std::string name = (std::filesystem::temp_directory_path() / "watch-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  const auto rounds = static_cast<std::size_t>(day.hours * 60 / day.minutes);
  Soak soak;
  soak.plan = {"day-" + std::to_string(seed), "2026-11-22T00:00:00Z", day.hours * hour, seed, {}, "full"};
  double gap = 0;
  for (std::size_t i = 0; i < rounds; ++i) {
    const double at = static_cast<double>(i) * day.minutes / 60;
    Plan plan = day.plan;
    plan.seed = seed;
    plan.launch = i + 1;
    if (day.cycle > 0) {
      const double now = day.cycle / 2 * (1 - std::cos(2 * std::numbers::pi * at / 24));
      if (now > 0) plan.faults.push_back(parse_fault("fleet:percent=" + std::to_string(now)));
    }
    if (const auto fault = planted(day, at, i, rounds)) plan.faults.push_back(parse_fault(*fault));
    Fleet(plan).write(std::filesystem::path(name));
    const Measured measured(read_results(std::vector<std::filesystem::path>{name}));
    SoakRound round;
    summarize(measured, judge(measured, References(day.profiles), {}), round);
    const bool rebooted = day.plant == "reboot" && at >= 10;
    if (rebooted && gap == 0) round.unwatched_s = gap = 540;
    round.number = static_cast<int>(i) + 1;
    round.started = "round " + std::to_string(round.number);
    round.begin_s = at * hour + gap;
    round.length_s = day.minutes * 60;
    round.boots = {measured.files.front().context.ranks.front().host + (rebooted ? " second" : " first")};
    if (i > 0) round.ranks.clear();
    soak.rounds.push_back(std::move(round));
  }
  std::filesystem::remove_all(name);
  return soak;
}

struct Outcome {
  bool alarm = false, named = false, innocent = false, at_once = false;
  std::string said;
};

bool counts(const Finding& finding) { return finding.counts() && !finding.good(); }

/// Whether it says the guilty and the time at which he became it.
bool names(const Finding& finding, const Day& day, const Soak& soak) {
  const auto is = [&](const char* what) { return finding.key.text().find(what) != std::string::npos; };
  const auto says = [&](double at) {
    const auto& round = soak.rounds.at(static_cast<std::size_t>(at * 60 / day.minutes));
    return finding.detail.find(soak.when(round)) != std::string::npos;
  };
  if (day.plant == "reboot") return is("watch/restart") && says(10);
  const bool guilty = !finding.offenders.empty() && finding.offenders.front().rank == guilty_rank;
  if (!guilty) return false;
  if (day.plant == "corruption")
    return is("data") && says(std::floor(static_cast<double>(soak.rounds.size()) * 2 / 3) * day.minutes / 60);
  if (day.plant == "xid") return is("errors") && says(7);
  if (day.plant == "neighbour") return is("slow") && says(9);
  const auto from = finding.detail.find("low from hour ");
  if (!is("drift") || from == std::string::npos) return false;
  const double began = std::stod(finding.detail.substr(from + 14));
  return began >= 5 && began <= 15.1;
}

Outcome outcome_of(const Day& day, const Soak& soak) {
  Outcome outcome;
  for (const Finding& finding : judge_soak(soak).verdict.findings) {
    if (!counts(finding)) continue;
    outcome.alarm = true;
    const bool guilty = names(finding, day, soak);
    outcome.named = outcome.named || guilty;
    for (const auto& offender : finding.offenders) {
      outcome.innocent = outcome.innocent || (offender.rank ? offender.rank != guilty_rank : !guilty);
    }
    outcome.said += "\n    " + finding.key.text() + ": " + finding.detail;
  }
  Soak first = soak;
  first.rounds.resize(1);
  first.plan.duration_s = 1;
  for (const Finding& finding : judge_soak(first).verdict.findings)
    outcome.at_once = outcome.at_once || counts(finding);
  return outcome;
}

int run(int argc, char** argv) {
  int workers = 2;
  std::vector<char*> words;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    word.compare(0, 2, "-j") == 0 ? void(workers = static_cast<int>(Flags::whole("-j", word.substr(2))))
                                  : words.push_back(argv[i]);
  }
  const Flags flags(static_cast<int>(words.size()), words.data(),
                    Flags::of_plan({"--days", "--plant", "--cycle", "--minutes", "--hours"}));
  Day day;
  day.plan = flags.plan();
  day.plant = flags.text("--plant", "none");
  day.cycle = std::stod(flags.text("--cycle", "0"));
  day.minutes = static_cast<double>(flags.number("--minutes", 3));
  day.hours = static_cast<double>(flags.number("--hours", 24));
  day.profiles = load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds");
  const Seeds days = seeds_of("--days", flags.text("--days", "1..10"));
  int alarms = 0, named = 0, innocent = 0, at_once = 0;
  each_seed(
      days, workers, [&](std::uint64_t seed) { return outcome_of(day, soak_of(day, seed)); },
      [&](std::uint64_t seed, const auto& outcome) {
        alarms += outcome.alarm ? 1 : 0;
        named += outcome.named ? 1 : 0;
        innocent += outcome.innocent ? 1 : 0;
        at_once += outcome.at_once ? 1 : 0;
        const bool wrong = day.plant == "none" ? outcome.alarm : outcome.innocent || !outcome.named;
        if (wrong) std::printf("  day %llu:%s\n", static_cast<unsigned long long>(seed), outcome.said.c_str());
      });
  std::printf(
      "%s: %llu days, %d with alarms (%d by the first round alone), %d named with the hour, %d with an innocent\n",
      day.plant.c_str(), static_cast<unsigned long long>(days.last - days.first + 1), alarms, at_once, named, innocent);
  return 0;
}

}  // namespace
}  // namespace shakedown::fleet

int main(int argc, char** argv) try { return shakedown::fleet::run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "fleet_soak: %s\n", error.what());
  return 2;
}
