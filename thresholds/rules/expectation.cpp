#include "thresholds/rules/expectation.hpp"

#include <set>

#include "base/host_list.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"

namespace shakedown {

Expectation expectation(const std::vector<Results>& files, const JudgeOptions& options) {
  Expectation e;
  const auto say = [](auto& slot, std::string& by, const auto& value, const char* who) {
    if (slot || !value) return;
    slot = value;
    by = who;
  };
  say(e.ranks, e.ranks_said_by, options.expected.ranks, "--expect");
  say(e.hosts, e.hosts_said_by, options.expected.hosts, "--expect");
  say(e.backend, e.backend_said_by, options.expected.backend, "--expect");
  if (!options.roster.empty()) {
    say(e.hosts, e.hosts_said_by, std::optional(static_cast<int>(options.roster.size())), "the roster");
    int sum = 0;
    bool all_known = true;
    for (const RosterEntry& entry : options.roster) {
      all_known = all_known && entry.ranks;
      sum += entry.ranks.value_or(0);
    }
    if (all_known) say(e.ranks, e.ranks_said_by, std::optional(sum), "the roster");
  }
  for (const Results& file : files) {
    say(e.ranks, e.ranks_said_by, file.context.expected.ranks, "--expect of the run");
    say(e.hosts, e.hosts_said_by, file.context.expected.hosts, "--expect of the run");
    say(e.backend, e.backend_said_by, file.context.expected.backend, "--expect of the run");
  }
  return e;
}

Expected parse_expected(const std::string& text) {
  const auto refuse = [](const std::string& what) {
    throw InputError("--expect: " + what + "; write ranks=N,hosts=M,backend=cuda, or some of these; see --help");
  };
  Expected expected;
  for (const auto& part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string name = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (const auto backend = named<Backend>(value); name == "backend" && backend) {
      expected.backend = backend;
    } else if (name == "ranks" || name == "hosts") {
      const auto count = whole_number<int>(value);
      if (count.value_or(0) < 1) refuse("\"" + value + "\" is not a number of " + name);
      (name == "ranks" ? expected.ranks : expected.hosts) = count;
    } else {
      refuse("\"" + part + "\" is unknown");
    }
  }
  if (!expected.ranks && !expected.hosts && !expected.backend) refuse("the value is empty");
  return expected;
}

std::vector<RosterEntry> read_roster(const std::filesystem::path& file) {
  std::vector<RosterEntry> roster;
  std::set<std::string> seen;  // names in lower case; "node7." stands for node7.example
  for (const ListedHost& host : hosts_of_file(read_file(file), file.string())) {
    const auto name = lower(host.name), short_name = name.substr(0, name.find('.'));
    if (seen.contains(name) || seen.contains(short_name == name ? name + "." : short_name)) {
      throw InputError(host.where + "host " + host.name + " is listed twice; remove one of the lines");
    }
    seen.insert(name);
    if (short_name != name) seen.insert(short_name + ".");
    roster.push_back({host.name, host.slots});
  }
  if (roster.empty()) throw InputError(file.string() + ":1:1: no hosts; write one per line");
  return roster;
}

}  // namespace shakedown
