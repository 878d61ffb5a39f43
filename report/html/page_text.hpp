// The static page. CMake puts page.css and page.js into page.html, and the result into the library.
#pragma once

#include <string_view>

namespace shakedown {

/// With the places {{title}}, {{headline}} and {{data}}, in this order.
extern const std::string_view page_text;

}  // namespace shakedown
