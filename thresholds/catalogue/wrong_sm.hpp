// The metric that names the SM with wrong data. It is the only figure that a failed row keeps.
#pragma once

#include <string_view>

namespace shakedown {

/// By rank: the SM of a GPU, or the worker of a host, that computed wrong words (kernels/sm_record.hpp).
inline constexpr std::string_view wrong_sm_metric = "wrong_sm";

}  // namespace shakedown
