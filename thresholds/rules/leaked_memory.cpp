#include "thresholds/rules/leaked_memory.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "base/key.hpp"
#include "thresholds/catalogue/families.hpp"

namespace shakedown {
namespace {

constexpr double max_kept_mib = 64;

bool has_own_memory(std::string_view family) {
  const FamilyRow* const row = family_row(family);
  return row != nullptr && row->own_memory;
}

}  // namespace

std::vector<Finding> judge_leaked_memory(const std::vector<Results>& files, const FamilySet& families) {
  std::map<int, Finding> worst;  // by rank: its largest leak
  for (const Results& file : files) {
    const auto own = file.rows.empty() ? std::string() : file.rows.front().key.family();
    if (!has_own_memory(own) || !families.contains(own)) continue;
    for (const RankFacts& facts : file.context.ranks) {
      const double kept = facts.memory_kept_mib.value_or(0);
      const auto known = worst.find(facts.rank);
      if (kept <= max_kept_mib || (known != worst.end() && *known->second.value >= kept)) continue;
      Finding f;
      classify(f, Code::memory);
      f.key = machine_key(Code::memory).set("rank", facts.rank);
      f.part = gpu_part(facts);
      f.status = Status::fail;
      f.severity = Severity::warn;
      f.value = kept;
      f.limit = {LimitKind::max, max_kept_mib};
      f.unit = "MiB";
      f.worst = culprit(facts);
      f.offenders = {*f.worst};
      f.offender_count = 1;
      f.detail = fmt::format(
          "{:.0f} MiB more GPU memory are in use after {} than before: kept by the program, or used by "
          "another",
          kept, own);
      f.source = "memory in use, as reported by the driver";
      f.next = on_host(facts.host, "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv");
      worst.insert_or_assign(facts.rank, std::move(f));
    }
  }
  std::vector<Finding> findings;
  for (auto& [rank, finding] : worst) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace shakedown
