// Escapes text of unknown origin, such as host names and messages of libraries, for each output format.
#pragma once

#include <string>
#include <string_view>

namespace shakedown {

/// Escapes text for a cell of a Markdown table: one line, without any markup.
std::string markdown_escaped(std::string_view text);

/// Escapes text for an element or a quoted attribute of HTML or XML.
std::string html_escaped(std::string_view text);

/// Escapes text for the value of a Prometheus label, without the quotes.
std::string label_escaped(std::string_view text);

}  // namespace shakedown
