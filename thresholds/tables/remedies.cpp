// Checks remedies.yaml and writes it as a constexpr table: remedies_table REMEDIES.yaml TABLE.hpp. If there is an
// error, reports it with file, line and column, and writes nothing.
#include <set>

#include "thresholds/catalogue/remedies.hpp"
#include "thresholds/tables/table_text.hpp"

namespace shakedown {
namespace {

// Checks that the command is one command or a pipe, because it follows `ssh HOST`: a second command would run on this
// host. The function also checks that each placeholder is known, because an unknown placeholder would be passed to the
// shell.
void check_command(const Yaml& command) {
  const std::string text = command.text();
  if (text.find_first_of(";&$`") != std::string::npos) command.refuse("more than a command or a pipe; write one");
  for (auto begin = text.find('{'); begin != std::string::npos; begin = text.find('{', begin + 1)) {
    const std::string word = text.substr(begin, text.find('}', begin) - begin + 1);
    if (word != "{gpu}" && word != "{limit}")
      command.refuse("unknown placeholder " + word + "; write {gpu} or {limit}");
  }
}

std::string table_of(const Yaml& yaml) {
  std::string text =
      "// Generated from remedies.yaml.\nnamespace shakedown {\ninline constexpr std::array remedies_table{\n";
  std::set<std::string> seen;
  for (const Yaml& row : yaml.items()) {
    const auto members = row.members({"fact", "means", "action", "command", "source"});
    const Yaml& fact = required(members, "fact", row);
    const std::string word = identifier(fact);
    if (!seen.insert(word).second) fact.refuse(fmt::format("duplicate fact \"{}\"; remove one of the two", word));
    required(members, "source", row).text();
    check_command(required(members, "command", row));
    text += fmt::format(
        "    RemedyRow{{\"{}\", {}, RemedyAction::{}, {}}},\n", word, quoted(required(members, "means", row)),
        name(required(members, "action", row).value_of<RemedyAction>()), quoted(required(members, "command", row)));
  }
  if (seen.empty()) yaml.refuse("no fact; add a row");
  return text + "};\n}  // namespace shakedown\n";
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) { return shakedown::generate(argc, argv, shakedown::table_of); }
