// Properties of the terminal, file or pipe that receives the output.
#pragma once

#include <cstddef>
#include <optional>

namespace shakedown {

/// True if a descriptor is a terminal that can move its cursor.
bool is_screen(int descriptor);

/// Returns the columns of the terminal; nullopt if the descriptor is not a terminal. COLUMNS, if it is set, is used for
/// terminals and other descriptors.
std::optional<std::size_t> columns_of(int descriptor);

/// Returns the lines of the terminal; nullopt if the descriptor is not a terminal.
std::optional<std::size_t> lines_of_screen(int descriptor);

/// True if output to a descriptor is coloured. A terminal is coloured unless NO_COLOR is set (https://no-color.org).
/// With CLICOLOR_FORCE, and without NO_COLOR, all output is.
bool shows_color(int descriptor);

}  // namespace shakedown
