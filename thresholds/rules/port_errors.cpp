// Decides which errors of a port fail its host.
#include "thresholds/rules/port_errors.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "base/known_events.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

/// True if the count exceeds what the limit permits in this time by two standard deviations.
bool exceeds(std::uint64_t count, double hours, const PortLimit& limit) {
  const auto n = static_cast<double>(count);
  return limit.per_hour > 0 ? n - 2 * std::sqrt(n) > limit.per_hour * hours : count > 0;
}

struct HostErrors {
  std::map<std::string, ErrorCounts> ports;
  double hours = 0;
};

std::map<std::string, HostErrors> errors_of_hosts(const std::vector<Results>& files, const FamilySet& families) {
  std::map<std::string, HostErrors> hosts;
  for (const Results& file : files) {
    if (!file.rows.empty() && !families.contains(file.rows.front().key.family())) continue;
    for (const HostFacts& facts : file.context.inventory) {
      HostErrors& host = hosts[facts.host];
      host.hours += file.context.seconds.value_or(0) / 3600;
      for (const auto& [port, errors] : facts.port_errors) {
        for (const auto& [counter, count] : errors) host.ports[port][counter] += count;
      }
    }
  }
  return hosts;
}

const PortLimit* exceeded(const std::string& counter, std::uint64_t count, double hours) {
  for (const PortLimit& limit : port_limits()) {
    if (limit.counter == counter && exceeds(count, hours, limit)) return &limit;
  }
  return nullptr;
}

std::optional<Finding> judge_host(const std::string& name, const HostErrors& host, bool fails) {
  std::vector<std::string> ports, sources;
  std::string worst;
  for (const auto& [port, errors] : host.ports) {
    std::vector<std::string> words;
    for (const auto& [counter, count] : errors) {
      const PortLimit* const limit = exceeded(counter, count, host.hours);
      if (limit == nullptr || limit->fails != fails) continue;
      words.push_back(fmt::format("{} {}", count, limit->words));
      sources.emplace_back(limit->source);
    }
    if (words.empty()) continue;
    if (worst.empty()) worst = port;
    ports.push_back(port + ": " + joined(words));
  }
  if (ports.empty()) return std::nullopt;
  Finding f;
  classify(f, Code::errors);
  f.key = machine_key(Code::errors).set("host", name);
  f.status = Status::fail;
  f.severity = fails ? Severity::fail : Severity::warn;
  name_offenders(f, {host_culprit(name)});
  f.part = {PartKind::nic, worst, name};
  f.detail = fmt::format("while this was measured ({:.0f} s): {}", host.hours * 3600, joined(ports, "; "));
  f.source = sources.front();
  f.next = on_host(name, "perfquery -x -C " + worst.substr(0, worst.find('/')));
  return f;
}

}  // namespace

std::vector<Finding> judge_port_errors(const std::vector<Results>& files, const FamilySet& families) {
  std::vector<Finding> findings;
  for (const auto& [name, host] : errors_of_hosts(files, families)) {
    for (const bool fails : {true, false}) {
      if (auto finding = judge_host(name, host, fails)) findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace shakedown
