#include "thresholds/rules/contradiction.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/utc.hpp"

namespace shakedown {
namespace {

// The families of a run are measured one after the other. A file that began much earlier or later than another is from
// another launch.
constexpr double max_seconds_apart = 24 * 3600;

const auto differ = [](const auto& one, const auto& other) { return one && other && *one != *other; };

/// Returns the settings of NCCL, without those of its log, which is only on for families that use NCCL.
std::map<std::string, std::string> settings_of(const Context& context) {
  auto settings = context.environment;
  std::erase_if(settings, [](const auto& setting) {
    return !setting.first.starts_with("NCCL_") || setting.first.starts_with("NCCL_DEBUG");
  });
  return settings;
}

std::string other_gpus(std::size_t rank) { return "name different GPUs for rank " + std::to_string(rank); }

// Returns a fact that differs between two files of one run; empty if they agree. judge_hosts checks the names of hosts.
std::string contradiction(const Context& a, const Context& b) {
  const SuiteFacts &build = a.suite, &other_build = b.suite;
  if (build.version != other_build.version || build.git != other_build.git || build.dirty != other_build.dirty ||
      build.build_type != other_build.build_type) {
    return "were written by different builds";
  }
  if (a.backend != b.backend) return "are of different backends";
  if (a.plan != b.plan || a.tier != b.tier) return "were measured by different plans";
  if (differ(a.nccl.nvls, b.nccl.nvls)) return "disagree about NVLS";
  if (settings_of(a) != settings_of(b)) return "have different settings of NCCL";
  const auto began = seconds_of(a.started), began_too = seconds_of(b.started);
  if (began && began_too && std::abs(*began - *began_too) > max_seconds_apart) return "began more than a day apart";
  for (const auto& [name, version] : a.versions) {
    const auto other = b.versions.find(name);
    if (other != b.versions.end() && differ(version, other->second)) return "name different versions of " + name;
  }
  for (std::size_t rank = 0; rank < std::min(a.ranks.size(), b.ranks.size()); ++rank) {
    const RankFacts &one = a.ranks[rank], &other = b.ranks[rank];
    if (differ(one.uuid, other.uuid) || differ(one.serial, other.serial) || differ(one.pci, other.pci) ||
        differ(one.memory_bytes, other.memory_bytes) || one.device != other.device ||
        one.local_rank != other.local_rank) {
      return other_gpus(rank);
    }
    if (differ(one.power_limit_w, other.power_limit_w) || differ(one.sm_mhz_max, other.sm_mhz_max))
      return "name different limits of power or clock for rank " + std::to_string(rank);
  }
  return "";
}

// Returns a contradiction between the state of NVLS and the setting that turns it off; empty if there is none.
std::string contradiction(const Context& context) {
  const auto setting = context.environment.find("NCCL_NVLS_ENABLE");
  const bool off = setting != context.environment.end() && setting->second == "0";
  return off && context.nccl.nvls == "on" ? "reports NVLS on, with NCCL_NVLS_ENABLE=0" : "";
}

// Compares a file with its own pre-flight row, for which the driver was asked again, and with its inventory.
std::string contradiction(const Row& row, const Context& context) {
  if (row.key.family() != "preflight") return "";
  for (const auto& [name, fact] :
       {std::pair{"uuid", &RankFacts::uuid}, {"serial", &RankFacts::serial}, {"pci", &RankFacts::pci}}) {
    const auto told = row.text_by_rank.find(name);
    if (told == row.text_by_rank.end()) continue;
    for (std::size_t rank = 0; rank < std::min(told->second.size(), context.ranks.size()); ++rank) {
      if (differ(told->second[rank], context.ranks[rank].*fact)) return other_gpus(rank);
    }
  }
  return "";
}

}  // namespace

std::optional<std::string> contradiction(const std::vector<Results>& files) {
  const auto file_name = [](const Results& file) { return file.file.filename().string(); };
  std::map<std::string_view, const Results*> first;                              // by run: its first file
  std::map<std::pair<std::string_view, std::string_view>, const Results*> keys;  // by run and key: the file
  for (const Results& file : files) {
    const std::string& run = file.context.run_id;
    const Results* other = first.emplace(run, &file).first->second;
    if (const auto own = contradiction(file.context); !own.empty()) {
      return file_name(file) + " of run " + run + " " + own;
    }
    std::string what = other == &file ? "" : contradiction(other->context, file.context);
    for (const Row& row : file.rows) {
      if (const auto own = contradiction(row, file.context); !own.empty() && what.empty()) {
        return file_name(file) + " of run " + run + ": " + row.key.text() + " and its inventory " + own;
      }
      const Results* owner =
          keys.emplace(std::pair<std::string_view, std::string_view>(run, row.key), &file).first->second;
      if (owner == &file || !what.empty()) continue;
      other = owner;
      what = "both have " + row.key.text();
    }
    if (!what.empty()) return file_name(*other) + " and " + file_name(file) + " of run " + run + " " + what;
  }
  return std::nullopt;
}

}  // namespace shakedown
