// The consequence of a rule that is not met.
#pragma once

#include "base/names.hpp"

namespace shakedown {

enum class Severity { fail, warn, info };  // warn and info never change the verdict

constexpr auto words(Severity) { return names("fail", "warn", "info"); }

}  // namespace shakedown
