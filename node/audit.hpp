// Settings of a host that cost speed or hide faults. These settings are advice, and none of them fails a run.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "node/fact.hpp"
#include "node/inventory.hpp"

namespace shakedown {

struct CostlySetting {
  std::string_view name;     // name, such as "numa_balancing"
  std::string found;         // such as "kernel.numa_balancing is 1"
  std::string_view cost;     // what it costs, such as "the kernel moves pages of running jobs"
  std::string_view command;  // command that shows or changes it
  std::string_view source;
};

/// A host, with the facts that were read before the audit.
struct AuditedHost {
  std::filesystem::path root;
  PciBus bus;
  Facts facts;  // facts of the host (node/host_facts.hpp) and of its driver
};

/// Returns the costly settings of this host, in the order of the table in audit.cpp. Omits settings that cannot be
/// read.
std::vector<CostlySetting> audit_settings(const AuditedHost&, const Environment&);

/// Returns the members as facts, for display or for programs.
Facts setting_facts(const CostlySetting&);

/// Returns the fact faulty_versions: the number of known faults of this version of "driver" or "nccl", with their
/// meaning and source.
Fact faulty_versions_fact(std::string_view component, std::string_view version);

/// Returns the fact costly_settings of a host: their number and names.
Fact audit_fact(const std::vector<CostlySetting>&);

}  // namespace shakedown
