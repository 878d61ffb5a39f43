// Text of unknown origin (host names, messages of libraries) made safe for where it is shown.
#pragma once

#include <string>
#include <string_view>

namespace shakedown {

/// For a cell of a Markdown table: one line, nothing in it means anything.
std::string markdown_escaped(std::string_view text);

/// For the text of an element or a quoted attribute of HTML or XML.
std::string html_escaped(std::string_view text);

/// For the value of a Prometheus label, without the quotes.
std::string label_escaped(std::string_view text);

}  // namespace shakedown
