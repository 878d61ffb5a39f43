// Properties of the terminal, file or pipe that output goes to.
#pragma once

#include <cstddef>
#include <optional>

namespace shakedown {

/// True if a descriptor is a terminal that can move its cursor.
bool is_screen(int descriptor);

/// Returns the columns of the terminal; nullopt if the descriptor is none. COLUMNS, if set, counts for both.
std::optional<std::size_t> columns_of(int descriptor);

/// True if output to a descriptor has colour: on a screen unless NO_COLOR is set (https://no-color.org), and anywhere
/// if CLICOLOR_FORCE is set and NO_COLOR is not.
bool shows_color(int descriptor);

}  // namespace shakedown
