#include "thresholds/rules/applicability.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "thresholds/catalogue/majority.hpp"

namespace shakedown {
namespace {

bool is_for_any_gpu(const Profile& profile) {
  return profile.match.backend == Backend::cuda && profile.match.devices.empty();
}

/// Returns the backend whose profiles are used for results of `backend`.
Backend profiles_of(Backend backend) { return backend == Backend::virtual_gpu ? Backend::cuda : backend; }

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "\"" : ", \"") + word + "\"";
  return text;
}

/// Returns the devices with their ranks, beginning with the device that the fewest ranks have.
std::string kinds_of(const std::vector<Results>& results) {
  std::vector<Holder> holders;
  for (const RankFacts& rank : results.front().context.ranks) {
    holders.push_back({"rank " + std::to_string(rank.rank) + " " + rank.host, rank.device});
  }
  return odd_ones_out(holders).text;
}

bool has_mig(const std::vector<Results>& results) {
  for (const Results& file : results) {
    for (const RankFacts& rank : file.context.ranks) {
      if (rank.device.find("MIG") != std::string::npos || rank.uuid.value_or("").rfind("MIG", 0) == 0) return true;
    }
  }
  return false;
}

std::string range_text(const char* noun, const Range& range) {
  const std::string low = std::to_string(range.low);
  if (range.low == range.high) return std::string(noun) + " " + low;
  if (range.high == Range{}.high) return std::string(noun) + " " + low + " or more";
  return std::string(noun) + " " + low + " to " + std::to_string(range.high);
}

/// Hosts are compared only where the host changes, because most ranks follow one of their own host.
std::unordered_map<std::string_view, int> ranks_per_host(const Context& context) {
  std::unordered_map<std::string_view, int> counts;
  std::pair<const std::string_view, int>* last = nullptr;
  for (const RankFacts& rank : context.ranks) {
    if (last == nullptr || last->first != rank.host) last = &*counts.emplace(rank.host, 0).first;
    ++last->second;
  }
  return counts;
}

}  // namespace

bool fits(const Profile& profile, Backend backend, const std::vector<std::string>& devices) {
  const auto& known = profile.match.devices;
  return profile.match.backend == backend && !is_for_any_gpu(profile) &&
         (known.empty() || std::all_of(devices.begin(), devices.end(), [&](const std::string& device) {
            return std::find(known.begin(), known.end(), device) != known.end();
          }));
}

Scale scale_of(const Context& context) {
  // The first rank represents all, because all have the same kind of device. Reading all ranks would be slow, because
  // each of 10,000 values calls this function.
  const double highest = context.ranks.empty() ? 0 : context.ranks.front().sm_mhz_max.value_or(0);
  return {context.world_size, context.hosts, context.nccl.nvls != "off", highest};
}

std::vector<std::string> devices_of(const std::vector<Results>& results) {
  std::set<std::string> devices, without;
  for (const Results& file : results) {
    for (const RankFacts& rank : file.context.ranks) {
      (rank.device.rfind(no_device, 0) == 0 ? without : devices).insert(rank.device);
    }
  }
  // Ignores ranks without a device, because they have findings of their own.
  if (devices.empty()) devices = without;
  return {devices.begin(), devices.end()};
}

Selection select_profile(const std::vector<Results>& results, const std::vector<Profile>& profiles) {
  auto devices = devices_of(results);
  for (const Results& file : results) {
    if (file.context.backend != results.front().context.backend) return {nullptr, "files of several backends"};
  }
  const Backend backend = profiles_of(results.front().context.backend);
  for (std::string& device : devices) {
    if (device.starts_with(virtual_device)) device.erase(0, virtual_device.size());
  }
  if (backend == Backend::cuda && has_mig(results)) {
    return {nullptr, "a MIG instance has no reference: " + quoted(devices)};
  }
  const auto any = std::find_if(profiles.begin(), profiles.end(), is_for_any_gpu);
  const Profile* const fallback = backend == Backend::cuda && any != profiles.end() ? &*any : nullptr;
  if (backend == Backend::cuda && devices.size() > 1) {
    const std::string kinds = kinds_of(results);
    return {fallback, "GPUs of different kinds: " + quoted(devices) + (kinds.empty() ? "" : "; " + kinds)};
  }
  Selection selection;
  std::string names;
  for (const Profile& profile : profiles) {
    if (!fits(profile, backend, devices)) continue;
    names += (names.empty() ? "" : " and ") + profile.name;
    if (selection.profile != nullptr) selection.reason = "several profiles match " + quoted(devices) + ": ";
    selection.profile = &profile;
  }
  if (!selection.reason.empty()) return {nullptr, selection.reason + names};
  if (selection.profile != nullptr) return selection;
  return {fallback, "no profile matches backend " + std::string(name(backend)) + ", " + quoted(devices)};
}

Applicability applicability(const Conditions& conditions, const Context& context) {
  if (!conditions.ranks.contains(context.world_size)) {
    return {Applies::no,
            "for " + range_text("ranks", conditions.ranks) + ", the run has " + std::to_string(context.world_size)};
  }
  if (!conditions.hosts.contains(context.hosts)) {
    return {Applies::no,
            "for " + range_text("hosts", conditions.hosts) + ", the run has " + std::to_string(context.hosts)};
  }
  if (conditions.tier && *conditions.tier != context.tier) {
    return {Applies::no,
            "for tier " + std::string(name(*conditions.tier)) + ", the run is " + std::string(name(context.tier))};
  }
  if (context.plan < conditions.since) {
    return {Applies::no, "for plan " + std::to_string(conditions.since) + " and later, the run has plan " +
                             std::to_string(context.plan)};
  }
  if (!conditions.nvls) return {};
  const std::string wanted = *conditions.nvls ? "on" : "off";
  const std::string state = context.nccl.nvls.value_or("");
  if (state != "on" && state != "off") {
    return {Applies::unknown_nvls,
            "the rule is for nvls " + wanted + ", and the run did not record whether NVLS was on"};
  }
  if (state != wanted) return {Applies::no, "for nvls " + wanted + ", the run has it " + state};
  return {};
}

std::string text(const Conditions& conditions) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  const auto add_range = [&](const char* noun, const Range& range) {
    if (range.low != Range{}.low || range.high != Range{}.high) add(range_text(noun, range));
  };
  add_range("ranks", conditions.ranks);
  add_range("hosts", conditions.hosts);
  if (conditions.nvls) add(*conditions.nvls ? "nvls on" : "nvls off");
  if (conditions.tier) add("tier " + std::string(name(*conditions.tier)));
  if (conditions.since > 1) add("since plan " + std::to_string(conditions.since));
  return words;
}

Expansion expand(const Rule& rule, const Context& context) {
  if (!rule.wildcard()) return {{rule.benchmark}, false};
  int largest = 0;
  for (const auto& [host, count] : ranks_per_host(context)) largest = std::max(largest, count);
  const auto has = [&](const char* name) { return rule.benchmark.part(name) == "*"; };
  Expansion expansion;
  const auto add = [&](std::initializer_list<std::pair<std::string_view, std::string>> numbers) {
    expansion.keys.emplace_back(rule.benchmark).set_all(numbers);
  };
  const auto word = [](int number) { return std::to_string(number); };
  if (has("shift")) {
    for (int shift = 1; shift < largest; ++shift) add({{"shift", word(shift)}});
  } else if (has("rank")) {
    // Matrix products are always local, so keys of bench_gemm have no part that says so.
    const bool said = largest > 1 || rule.benchmark.family() != "gemm";
    for (int rank = 0; said && rank < largest; ++rank) add({{"rank", word(rank)}});
  } else if (largest < 2) {
    add({{"src", "0"}, {"dst", "1"}});
    expansion.no_pair = true;
  } else {
    const bool both_ways = rule.benchmark.part("dir") == "both";  // counts each pair once
    for (int src = 0; src < largest; ++src) {
      for (int dst = both_ways ? src + 1 : 0; dst < largest; ++dst) {
        if (src != dst) add({{"src", word(src)}, {"dst", word(dst)}});
      }
    }
  }
  return expansion;
}

std::vector<int> required_ranks(const Key& key, const Context& context) {
  // Returns the ranks that have the value. The figure of a pair is at its destination, or at both ends if it has both
  // directions, on every host that has both ranks. The figure of a rank that works alone is on every host that has this
  // rank.
  const bool pair = !key.part("src").empty() && !key.part("dst").empty();
  const bool alone = !key.part("active").empty(), shift = !key.part("shift").empty();
  const bool even = key.part("ranks") == "even", both_ends = pair && key.part("dir") == "both";
  const auto counts = pair || shift ? ranks_per_host(context) : std::unordered_map<std::string_view, int>{};
  const auto local = [&](const char* name) { return key.number(name).value_or(0); };
  const auto last = pair ? std::max(local("src"), local("dst")) : local("shift");
  const auto at = pair ? local("dst") : local("rank");
  std::vector<int> required;
  for (const RankFacts& rank : context.ranks) {
    const bool works =
        even ? rank.local_rank % 2 == 0
             : !(pair || alone) || rank.local_rank == at || (both_ends && rank.local_rank == local("src"));
    if (works && (!(pair || shift) || counts.at(rank.host) > last)) required.push_back(rank.rank);
  }
  return required;
}

}  // namespace shakedown
