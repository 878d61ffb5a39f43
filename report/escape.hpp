// Text of unknown origin (host names, messages of libraries) made safe for where it is shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shakedown {

/// Valid UTF-8 without control characters: bytes that are neither become '?', so that a name cannot move the cursor.
/// Newlines stay.
std::string printable(std::string_view text);

/// How many columns printable text takes: its code points.
std::size_t columns(std::string_view text);

/// At most `width` columns, the middle left out: "gemm/dty..8192".
std::string shortened(std::string_view text, std::size_t width);

/// For a cell of a Markdown table: one line, nothing in it means anything.
std::string markdown_escaped(std::string_view text);

/// For the value of a Prometheus label, without the quotes.
std::string label_escaped(std::string_view text);

}  // namespace shakedown
