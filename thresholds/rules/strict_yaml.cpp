// Defines the accepted subset of YAML.
#include "thresholds/rules/strict_yaml.hpp"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/files.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

// Returns the place as text. yaml-cpp counts lines and columns from 0, and -1 means an unknown place.
std::string place(const fs::path& file, const YAML::Mark& mark) {
  return file.string() + ":" + std::to_string(std::max(mark.line, 0) + 1) + ":" +
         std::to_string(std::max(mark.column, 0) + 1);
}

// Rejects anchors. The check reads the events of yaml-cpp, because the tree of yaml-cpp does not show anchors.
class RefuseAnchors : public YAML::EventHandler {
 public:
  explicit RefuseAnchors(const fs::path& file) : file_(file) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw InputError(place(file_, mark) + ": a second document; one file holds one profile");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { check(mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { check(mark, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string&) override {
    check(mark, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check(mark, anchor);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check(mark, anchor);
  }
  void OnMapEnd() override {}

 private:
  void check(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0)
      throw InputError(place(file_, mark) + ": anchors and aliases are not accepted; write the value out");
  }

  const fs::path& file_;
  int documents_ = 0;
};

bool is_non_finite(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (!word.empty() && (word[0] == '+' || word[0] == '-')) word.erase(0, 1);
  if (!word.empty() && word[0] == '.') word.erase(0, 1);
  return word == "nan" || word == "inf" || word == "infinity";
}

bool is_octal_trap(std::string_view word) {
  return word.size() > 1 && word[0] == '0' && std::isdigit(static_cast<unsigned char>(word[1])) != 0;
}

}  // namespace

Yaml Yaml::load(const fs::path& file) {
  const std::string text = read_file(file);
  try {
    // A text without these characters has no anchors and only one document, so one parse is enough.
    const auto has = [&](const char* mark) { return text.find(mark) != std::string::npos; };
    if (has("&") || has("---") || has("...")) {
      std::istringstream events(text);
      YAML::Parser parser(events);
      RefuseAnchors refuse_anchors(file);
      while (parser.HandleNextDocument(refuse_anchors)) {
      }
    }
    const YAML::Node node = YAML::Load(text);
    return {file, node, node.Mark()};
  } catch (const YAML::Exception& e) {
    throw InputError(place(file, e.mark) + ": not valid YAML: " + e.msg + "; correct the syntax");
  }
}

void Yaml::refuse(const std::string& what) const { throw InputError(place(*file_, mark_) + ": " + what); }

std::string Yaml::at() const { return file_->string() + ":" + std::to_string(std::max(mark_.line, 0) + 1); }

std::map<std::string, Yaml> Yaml::members() const {
  if (!node_.IsMap()) refuse("expected a map; write key: value lines");
  std::map<std::string, Yaml> result;
  for (const auto& member : node_) {
    const Yaml key(*file_, member.first, member.first.Mark());
    const std::string name = key.scalar("a key");
    if (name == "<<") key.refuse("merge keys are not accepted; write the values out");
    // An empty value has no place, so the place of its key is used.
    const YAML::Mark mark = member.second.IsNull() ? member.first.Mark() : member.second.Mark();
    if (!result.emplace(name, Yaml(*file_, member.second, mark)).second) {
      key.refuse("duplicate key \"" + name + "\"; remove one of the two");
    }
  }
  return result;
}

std::map<std::string, Yaml> Yaml::members(const std::vector<std::string_view>& known) const {
  auto result = members();
  for (const auto& member : node_) {
    const std::string name = member.first.Scalar();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      Yaml(*file_, member.first, member.first.Mark())
          .refuse("unknown key \"" + name + "\"; known are " + joined(known));
    }
  }
  return result;
}

std::vector<Yaml> Yaml::items() const {
  if (!node_.IsSequence()) refuse("expected a list; write [a, b] or - lines");
  std::vector<Yaml> result;
  for (const auto& item : node_) result.emplace_back(*file_, item, item.IsNull() ? mark_ : item.Mark());
  return result;
}

std::string Yaml::scalar(const char* expected) const {
  if (!node_.IsScalar())
    refuse(std::string("expected ") + expected + "; found " +
           (node_.IsNull()  ? "nothing"
            : node_.IsMap() ? "a map"
                            : "a list"));
  return node_.Scalar();
}

std::string Yaml::text() const {
  const std::string value = scalar("a string");
  if (value.find_first_not_of(" \t\n") == std::string::npos) refuse("expected a string that is not empty; fill it in");
  return value;
}

double Yaml::number() const {
  const std::string word = scalar("a number");
  if (is_non_finite(word)) refuse("\"" + word + "\" is not finite; give a number or leave the limit out");
  const auto value = whole_number<double>(word);
  if (is_quoted() || !value || is_octal_trap(word)) {
    refuse("expected a number, found \"" + word + "\"; write it without quotes, unit or leading zero");
  }
  if (!std::isfinite(*value)) refuse("\"" + word + "\" is not finite; give a number or leave the limit out");
  return *value;
}

int Yaml::integer() const {
  const double value = number();
  if (value != std::floor(value) || std::abs(value) > std::numeric_limits<int>::max()) {
    refuse("expected a whole number, found " + node_.Scalar() + "; write it without a fraction");
  }
  return static_cast<int>(value);
}

bool Yaml::boolean() const { return choice({"true", "false"}) == "true"; }

std::string Yaml::choice(const std::vector<std::string_view>& choices) const {
  const std::string word = scalar("a word");
  if (std::find(choices.begin(), choices.end(), word) == choices.end()) {
    refuse("\"" + word + "\" is not possible here; choose one of " + joined(choices));
  }
  return word;
}

const Yaml& required(const Members& members, std::string_view name, const Yaml& parent, std::string_view what) {
  const auto found = members.find(std::string(name));
  if (found == members.end()) parent.refuse(std::string(what) + " without \"" + std::string(name) + "\"; add it");
  return found->second;
}

}  // namespace shakedown
