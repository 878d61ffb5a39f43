// Checks events.yaml and writes it as constexpr tables: events_table EVENTS.yaml TABLE.hpp. If there is an error,
// reports it with file, line and column, and writes nothing.
#include <set>

#include "thresholds/tables/table_text.hpp"

namespace shakedown {
namespace {

const char* flag_of(const Members& members, const char* name) {
  return members.contains(name) && members.at(name).boolean() ? "true" : "false";
}

std::string table(const char* name, const std::string& rows) {
  return fmt::format("inline constexpr std::array {}_table{{\n{}}};\n", name, rows);
}

std::string actions_of(const Yaml& yaml, std::set<std::string>& known) {
  std::string rows;
  for (const Yaml& row : yaml.items()) {
    const auto members = row.members({"action", "means", "condemns", "ignore"});
    const Yaml& action = required(members, "action", row);
    if (!known.insert(action.text()).second) action.refuse("duplicate action \"" + action.text() + "\"; remove one");
    rows += fmt::format("    XidAction{{{}, {}, {}, {}}},\n", quoted(action), quoted(required(members, "means", row)),
                        flag_of(members, "condemns"), flag_of(members, "ignore"));
  }
  return table("xid_action", rows);
}

std::string xids_of(const Yaml& yaml, const std::set<std::string>& actions) {
  const auto parts = yaml.members({"source", "rows"});
  required(parts, "source", yaml).text();
  std::string rows;
  std::set<int> seen;
  for (const Yaml& row : required(parts, "rows", yaml).items()) {
    const auto members = row.members({"xid", "means", "action", "program"});
    const Yaml& action = required(members, "action", row);
    if (!actions.contains(action.text())) action.refuse("unknown action \"" + action.text() + "\"; add it to actions");
    for (const Yaml& number : required(members, "xid", row).items()) {
      const int xid = number.integer();
      if (!seen.insert(xid).second) number.refuse(fmt::format("duplicate XID {}; remove one", xid));
      rows += fmt::format("    XidRow{{{}, {}, {}, {}}},\n", xid, quoted(required(members, "means", row)),
                          quoted(action), flag_of(members, "program"));
    }
  }
  if (seen.empty()) yaml.refuse("no XID; add a row");
  return table("xid", rows);
}

std::string shapes_of(const char* name, const Yaml& yaml) {
  std::string rows;
  for (const Yaml& row : yaml.items()) {
    const auto members = row.members({"driver", "contains", "means", "source"});
    required(members, "source", row).text();
    rows += fmt::format("    LogShape{{{}, {}, {}}},\n", quoted(required(members, "driver", row)),
                        quoted(required(members, "contains", row)), quoted(required(members, "means", row)));
  }
  return table(name, rows);
}

std::string limits_of(const Yaml& yaml) {
  std::string rows;
  for (const Yaml& row : yaml.items()) {
    const auto members = row.members({"counter", "words", "per_hour", "fails", "source"});
    const Yaml& limit = required(members, "per_hour", row);
    if (limit.number() < 0) limit.refuse("per_hour cannot be negative; correct it");
    rows += fmt::format("    PortLimit{{\"{}\", {}, {}, {}, {}}},\n", identifier(required(members, "counter", row)),
                        quoted(required(members, "words", row)), limit.number(), flag_of(members, "fails"),
                        quoted(required(members, "source", row)));
  }
  return table("port_limit", rows);
}

std::string versions_of(const Yaml& yaml) {
  std::string rows;
  for (const Yaml& row : yaml.items()) {
    const auto members = row.members({"component", "versions", "means", "source"});
    for (const Yaml& version : required(members, "versions", row).items()) {
      rows += fmt::format("    FaultyVersion{{\"{}\", {}, {}, {}}},\n",
                          required(members, "component", row).choice({"driver", "nccl"}), quoted(version),
                          quoted(required(members, "means", row)), quoted(required(members, "source", row)));
    }
  }
  return table("faulty_version", rows);
}

std::string tables_of(const Yaml& yaml) {
  const auto members = yaml.members({"actions", "xids", "kernel_log", "bmc_log", "port_counters", "faulty_versions"});
  std::set<std::string> actions;
  std::string text = "// Generated from events.yaml.\nnamespace shakedown {\n";
  text += actions_of(required(members, "actions", yaml), actions);
  text += xids_of(required(members, "xids", yaml), actions);
  text += shapes_of("log_shape", required(members, "kernel_log", yaml));
  text += shapes_of("bmc_shape", required(members, "bmc_log", yaml));
  text += limits_of(required(members, "port_counters", yaml));
  text += versions_of(required(members, "faulty_versions", yaml));
  return text + "}  // namespace shakedown\n";
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) { return shakedown::generate(argc, argv, shakedown::tables_of); }
