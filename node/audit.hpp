// Settings of a host that cost speed or hide faults. They are advice: none of them fails a run.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "node/fact.hpp"
#include "node/inventory.hpp"

namespace shakedown {

struct CostlySetting {
  std::string_view name;     // "numa_balancing"
  std::string found;         // "kernel.numa_balancing is 1"
  std::string_view cost;     // "the kernel moves pages of running jobs"
  std::string_view command;  // what shows or changes it
  std::string_view source;
};

/// A host, and what was read of it before the audit.
struct AuditedHost {
  std::filesystem::path root;
  PciBus bus;
  Facts facts;  // of the host (node/host_facts.hpp), and its driver
};

/// Returns the settings that cost something on this host, in the order of the table in audit.cpp. A setting that cannot
/// be read is left out.
std::vector<CostlySetting> audit_settings(const AuditedHost&, const Environment&);

/// Returns the members as facts, for display or for programs.
Facts setting_facts(const CostlySetting&);

/// Returns faulty_versions: the number of known faults of this version of "driver" or "nccl", with their meaning and
/// source.
Fact faulty_versions_fact(std::string_view component, std::string_view version);

/// Returns costly_settings, a fact of a host: their number and names.
Fact audit_fact(const std::vector<CostlySetting>&);

}  // namespace shakedown
