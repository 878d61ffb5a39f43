// Checks families.yaml and writes it as a constexpr table: families_table FAMILIES.yaml TABLE.hpp. If there is an
// error, reports it with file, line and column, and writes nothing.
#include <set>

#include "thresholds/catalogue/families.hpp"
#include "thresholds/tables/table_text.hpp"

namespace shakedown {
namespace {

std::string needs_of(const Yaml& yaml) {
  const auto members = yaml.members();
  for (const auto& [word, value] : members) {
    if (!named<Backend>(word)) value.refuse(fmt::format("unknown backend \"{}\"; correct it", word));
  }
  std::string text;
  for (const std::string_view backend : words(Backend{})) {
    // A virtual GPU has the same families as a GPU, unless the row says otherwise.
    const bool as_gpu = backend == name(Backend::virtual_gpu) && !members.contains(std::string(backend));
    const auto need = required(members, as_gpu ? name(Backend::cuda) : backend, yaml).value_of<Need>();
    text += fmt::format("{}Need::{}", text.empty() ? "" : ", ", name(need));
  }
  return text;
}

std::string cost_of(const Yaml& yaml) {
  const auto members = yaml.members({"seconds", "seconds_per_rank", "tuning", "bytes_per_s"});
  std::string text = fmt::format(".seconds = {}", required(members, "seconds", yaml).number());
  for (const char* const name : {"seconds_per_rank", "tuning", "bytes_per_s"}) {
    const auto found = members.find(name);
    if (found == members.end()) continue;
    if (found->second.number() <= 0) found->second.refuse(fmt::format("{} must be above 0; correct it", name));
    text += fmt::format(", .{} = {}", name, found->second.number());
  }
  if (members.at("seconds").number() < 0) members.at("seconds").refuse("seconds cannot be negative; correct it");
  return text;
}

std::string table_of(const Yaml& yaml) {
  std::string text =
      "// Generated from families.yaml.\nnamespace shakedown {\ninline constexpr std::array families_table{\n";
  std::set<std::string> seen;
  for (const Yaml& row : yaml.items()) {
    const auto members =
        row.members({"family", "called", "shows", "on", "plan", "own_memory", "in_gate", "on_request", "source"});
    const Yaml& family = required(members, "family", row);
    const std::string word = identifier(family);
    if (!seen.insert(word).second) family.refuse(fmt::format("duplicate family \"{}\"; remove one of the two", word));
    required(members, "source", row).text();
    const auto is_on = [&](const char* name) { return members.contains(name) && members.at(name).boolean(); };
    const std::string called = members.contains("called") ? ", " + quoted(members.at("called")) : "";
    text += fmt::format("    FamilyRow{{\"{}\", {}, {{{}}}, {{{}}}, {}, {}, {}{}}},\n", word,
                        quoted(required(members, "shows", row)), needs_of(required(members, "on", row)),
                        cost_of(required(members, "plan", row)), is_on("own_memory"), is_on("in_gate"),
                        is_on("on_request"), called);
  }
  if (seen.empty()) yaml.refuse("no family; add a row");
  return text + "};\n}  // namespace shakedown\n";
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) { return shakedown::generate(argc, argv, shakedown::table_of); }
