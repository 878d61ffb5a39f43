// One change of one row of a result file, as from a broken measurement, a broken disk or an edit by hand.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/names.hpp"

namespace shakedown::mutation {

enum class Kind {
  error,
  waived,
  without_values,
  without_one_rank,
  without_any_rank,
  duplicated,
  non_finite,
  zero,
  huge,
  removed,
  waived_again  // a second, waived repetition of a row that was measured
};
constexpr auto words(Kind) {
  return names("error", "waived", "without values", "without one rank", "without any rank", "duplicated", "non-finite",
               "zero", "huge", "removed", "waived in a second repetition");
}
inline constexpr std::size_t kind_count = words(Kind{}).size();

/// True if the change removes or falsifies a value. A duplicate only repeats one.
constexpr bool takes_a_value(Kind kind) { return kind != Kind::duplicated; }

/// A result file in parts, so that a change of one row does not rewrite the others.
struct Document {
  explicit Document(nlohmann::json document);

  std::string before, after;         // the text around the rows
  std::vector<nlohmann::json> rows;  // columns are lists with a value for each rank
  std::vector<std::string> texts;    // of the rows
};

struct Change {
  std::string text;         // of the document
  std::string metric = "";  // the falsified value, if there is one
};

/// Returns the document with a change of `rows[at]`; nullopt if the change has no effect.
std::optional<Change> change(const Document&, std::size_t at, Kind, std::mt19937_64& random);

}  // namespace shakedown::mutation
