#include "thresholds/history/machine_facts.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

// Recorded since 2026-11-26, so older baselines do not have them. Results of families without pre-flight do not have
// the VBIOS.
constexpr std::array younger_fields{"power_limit_w", "vbios", "plan", "version"};

constexpr std::array fields_of_gpus{"power_limit_w", "vbios"};

template <std::size_t n>
bool is_one_of(const std::array<const char*, n>& fields, const std::string& field) {
  return std::any_of(fields.begin(), fields.end(), [&](const char* known) { return field == known; });
}

/// True if the variable affects figures. On GPUs, variables of MPI do not, because MPI only starts the ranks and moves
/// no measured data.
bool decides(const std::string& variable, const Context& context) {
  const bool of_mpi = variable.starts_with("OMPI_MCA_") || variable.starts_with("UCX_");
  return !(of_mpi && context.backend == Backend::cuda) && !is_one_of(variables_of_place, variable);
}

// Adds values that are known. A version or state that one family did not need, and so did not record, is not a
// difference.
void add_known(MachineFacts& facts, const std::map<std::string, std::optional<std::string>>& recorded,
               const char* name) {
  const auto found = recorded.find(name);
  if (found != recorded.end() && found->second) facts[name].insert(*found->second);
}

}  // namespace

MachineFacts machine_facts_of(const std::vector<Results>& results) {
  MachineFacts facts;
  for (const char* field : machine_fields) facts[field];
  std::set<std::string> variables;
  for (const Results& file : results) {
    const Context& c = file.context;
    for (const RankFacts& rank : c.ranks) facts["device"].insert(rank.device);
    facts["backend"].insert(std::string(name(c.backend)));
    facts["tier"].insert(std::string(name(c.tier)));
    facts["ranks"].insert(std::to_string(c.world_size));
    facts["hosts"].insert(std::to_string(c.hosts));
    facts["build_type"].insert(c.suite.build_type);
    facts["plan"].insert(std::to_string(c.plan));
    facts["version"].insert(c.suite.version);
    for (const RankFacts& rank : c.ranks) {
      if (rank.power_limit_w) facts["power_limit_w"].insert(number_text(*rank.power_limit_w));
    }
    for (const Row& row : file.rows) {
      const auto vbios = row.text_by_rank.find("vbios");
      if (vbios == row.text_by_rank.end()) continue;
      for (const auto& text : vbios->second) {
        if (text) facts["vbios"].insert(*text);
      }
    }
    for (const char* name : {"driver", "cuda", "cublaslt", "nccl"}) add_known(facts, c.versions, name);
    if (c.nccl.nvls) facts["nvls"].insert(*c.nccl.nvls);
    for (const auto& [variable, value] : c.environment) {
      if (decides(variable, c)) variables.insert(variable);
    }
  }
  for (const Results& file : results) {
    for (const std::string& variable : variables) {
      const auto found = file.context.environment.find(variable);
      facts[variable].insert(found == file.context.environment.end() ? "unset" : found->second);
    }
  }
  return facts;
}

bool is_tuning(const std::string& field) { return !is_one_of(machine_fields, field) && !is_younger_fact(field); }

bool is_fact_of_gpus(const std::string& field) { return is_one_of(fields_of_gpus, field); }

bool is_younger_fact(const std::string& field) { return is_one_of(younger_fields, field); }

std::vector<std::string> differences(const MachineFacts& current, const MachineFacts& other, const std::string& of) {
  std::vector<std::string> result;
  std::set<std::string> fields;
  for (const auto& [field, values] : current) fields.insert(field);
  for (const auto& [field, values] : other) fields.insert(field);
  const auto known = [](const std::set<std::string>& values) { return values.empty() ? "unknown" : joined(values); };
  const auto values_of = [](const MachineFacts& facts, const std::string& field) {
    const auto found = facts.find(field);
    if (found != facts.end()) return found->second;
    return is_tuning(field) ? std::set<std::string>{"unset"} : std::set<std::string>{};
  };
  for (const std::string& field : fields) {
    const auto now = values_of(current, field), before = values_of(other, field);
    if (is_younger_fact(field) && (now.empty() || before.empty())) continue;
    if (now != before) result.push_back(field + " is " + known(now) + ", " + of + " has " + known(before));
  }
  return result;
}

}  // namespace shakedown
