// The rows of a table in Markdown.
#pragma once

#include <initializer_list>
#include <string>

#include "report/escape.hpp"

namespace shakedown {

/// Returns a row, with a newline. Characters that Markdown interprets are escaped.
inline std::string markdown_row(std::initializer_list<std::string> cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + markdown_escaped(cell) + " |";
  return line + "\n";
}

/// Returns the header of a table and the line below it.
inline std::string markdown_head(std::initializer_list<std::string> cells) {
  std::string line = markdown_row(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) line += " --- |";
  return line + "\n";
}

/// Returns "and 12 more" if not all rows are shown.
inline std::string markdown_rest(std::size_t all, std::size_t shown) {
  return all > shown ? "\nand " + std::to_string(all - shown) + " more\n" : "";
}

}  // namespace shakedown
