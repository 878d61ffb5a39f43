// How texts for a terminal look.
#pragma once

#include <cstddef>

#include "base/text.hpp"

namespace shakedown {

/// The number of lines of a list that is shown without --all.
inline constexpr std::size_t max_lines_shown = 20;

struct TerminalStyle {
  bool color = false;
  std::size_t width = 120;  // columns of tables; 120 fit into a terminal and a CI log without a line break
  bool all = false;         // shows every finding, every part of the fleet, and results without a rule
  Table::Style table() const { return {color, width}; }
};

}  // namespace shakedown
