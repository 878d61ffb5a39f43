// The static page. CMake puts page.css and the scripts into page.html, and embeds the result in the library.
#pragma once

#include <string_view>

namespace shakedown {

/// The text of the page. The text contains {{title}}, {{headline}} and {{data}} in this order, to be replaced.
extern const std::string_view page_text;

}  // namespace shakedown
