// One fact about a machine: a number, a text, or neither if it cannot be read. With a number, the text explains it:
// nvlinks_up is 17 with "link 3 is down". Without a number, the text is the value itself, or the reason why there is
// none ("not supported").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace shakedown {

struct Fact {
  std::optional<double> number;
  std::optional<std::string> text;
};

template <class Archive>
void members(Archive& archive, Fact& fact) {
  archive("number", fact.number)("text", fact.text);
}

/// By name: the facts. The last word of a name is its unit: memory_gb, clock_offset_ms, temperature_c.
using Facts = std::map<std::string, Fact>;

inline Fact number_fact(std::optional<double> number, std::string explanation = "") {
  return {number, explanation.empty() ? std::nullopt : std::optional(std::move(explanation))};
}
inline Fact text_fact(std::optional<std::string> text) { return {std::nullopt, std::move(text)}; }
/// Returns a fact with the number 1 or 0.
inline Fact yes_or_no(std::optional<bool> answer, std::string explanation = "") {
  return number_fact(answer ? std::optional(*answer ? 1.0 : 0.0) : std::nullopt, std::move(explanation));
}

}  // namespace shakedown
