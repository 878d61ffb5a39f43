#include "base/time_limits.hpp"

#include <cstdlib>

namespace shakedown {
namespace {

TimeLimits scaled() {
  TimeLimits table;
  const char* const text = std::getenv("SHAKEDOWN_LIMITS_SCALE");
  const double scale = text == nullptr ? 1 : std::strtod(text, nullptr);
  if (!(scale > 0 && scale < 1)) return table;
  for (Seconds* const limit : {&table.file, &table.driver, &table.apart, &table.name_service, &table.supervisor,
                               &table.inventory, &table.judging, &table.no_progress, &table.after_signal, &table.to_die,
                               &table.driver_of_view, &table.host_of_view, &table.last_words}) {
    *limit *= scale;
  }
  return table;
}

}  // namespace

const TimeLimits& time_limits() {
  static const TimeLimits table = scaled();
  return table;
}

}  // namespace shakedown
