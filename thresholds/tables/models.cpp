// Checks models.yaml and writes it as a constexpr table: models_table MODELS.yaml TABLE.hpp. If there is an error,
// reports it with file, line and column, and writes nothing.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "thresholds/tables/table_text.hpp"

namespace shakedown {
namespace {

/// The members of a row in the order of TransformerShape.
constexpr std::array<std::string_view, 7> sizes{"layers",   "hidden",       "heads", "kv_heads",
                                                "head_dim", "intermediate", "vocab"};
constexpr std::array<std::string_view, 2> numbers{"norm_eps", "rope_theta"};
struct Choice {
  std::string_view member, type;
  std::array<std::string_view, 2> words;
};
constexpr std::array<Choice, 4> choices{{{"norm", "Norm", {"rms", "layer"}},
                                         {"norm_place", "NormPlace", {"before", "behind"}},
                                         {"mlp", "Mlp", {"swiglu", "gelu"}},
                                         {"positions", "Positions", {"rope", "learned"}}}};
constexpr std::array<std::string_view, 5> properties{"causal", "qkv_bias", "all_biases", "tied", "head_bias"};
constexpr std::array<std::string_view, 7> adapted{"q", "k", "v", "o", "gate", "up", "down"};

std::string size_of(const Yaml& yaml) {
  if (yaml.integer() < 1) yaml.refuse("must be above 0; correct it");
  return std::to_string(yaml.integer());
}

std::string adapters_of(const Yaml& yaml) {
  const auto members = yaml.members({"rank", "alpha", "modules"});
  std::vector<std::string> flags(adapted.size(), members.contains("modules") ? "false" : "true");
  if (members.contains("modules")) {
    for (const Yaml& item : members.at("modules").items()) {
      const auto word = item.choice({adapted.begin(), adapted.end()});
      flags[static_cast<std::size_t>(std::find(adapted.begin(), adapted.end(), word) - adapted.begin())] = "true";
    }
  }
  return fmt::format("{{{}, {}, {{{}}}}}", size_of(required(members, "rank", yaml)),
                     required(members, "alpha", yaml).number(), joined(flags));
}

/// The members of a row as C++ initializers.
using Row = std::map<std::string_view, std::string>;

void read_into(Row& row, const Members& members) {
  const auto each = [&](std::string_view member, const auto& text_of) {
    if (const auto found = members.find(std::string(member)); found != members.end())
      row[member] = text_of(found->second);
  };
  for (const auto member : sizes) each(member, size_of);
  for (const auto member : numbers) each(member, [](const Yaml& y) { return fmt::format("{}", y.number()); });
  for (const auto& choice : choices) {
    each(choice.member, [&](const Yaml& y) {
      return fmt::format("{}::{}", choice.type, y.choice({choice.words.begin(), choice.words.end()}));
    });
  }
  each("context", size_of);
  for (const auto member : properties) each(member, [](const Yaml& y) { return y.boolean() ? "true" : "false"; });
  each("adapters", adapters_of);
}

std::vector<std::string_view> members_of_shape() {
  std::vector<std::string_view> all(sizes.begin(), sizes.end());
  all.insert(all.end(), numbers.begin(), numbers.end());
  for (const auto& choice : choices) all.push_back(choice.member);
  all.push_back("context");
  all.insert(all.end(), properties.begin(), properties.end());
  return all;
}

std::string text_of(const std::string& model, const Row& row) {
  std::string shape;
  for (const auto member : members_of_shape()) {
    if (const auto found = row.find(member); found != row.end())
      shape += fmt::format(".{} = {}, ", member, found->second);
  }
  return fmt::format("    ModelRow{{\"{}\", {{{{{}}}, {}}}}},\n", model, shape, row.at("adapters"));
}

std::string table_of(const Yaml& yaml) {
  std::string text =
      "// Generated from models.yaml.\nnamespace shakedown::training {\ninline constexpr std::array models_table{\n";
  auto known = members_of_shape();
  known.insert(known.end(), {"model", "like", "adapters", "source"});
  std::map<std::string, Row> rows;
  for (const Yaml& item : yaml.items()) {
    const auto members = item.members(known);
    const Yaml& model = required(members, "model", item);
    Row row;
    if (const auto like = members.find("like"); like != members.end()) {
      if (!rows.contains(like->second.text())) like->second.refuse("is not an earlier row; correct it");
      row = rows.at(like->second.text());
    }
    read_into(row, members);
    for (const auto member : sizes) {
      if (!row.contains(member)) required(members, member, item);
    }
    if (!row.contains("adapters")) required(members, "adapters", item);
    required(members, "source", item).text();
    const std::string name = identifier(model);
    if (!rows.emplace(name, row).second) model.refuse("duplicate model \"" + name + "\"; remove one of the two");
    text += text_of(name, row);
  }
  if (rows.empty()) yaml.refuse("no model; add a row");
  return text + "};\n}  // namespace shakedown::training\n";
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) { return shakedown::generate(argc, argv, shakedown::table_of); }
