// How much a rule's miss means.
#pragma once

#include "base/names.hpp"

namespace shakedown {

enum class Severity { fail, warn, info };  // warn and info are shown and change no verdict

constexpr auto words(Severity) { return names("fail", "warn", "info"); }

}  // namespace shakedown
