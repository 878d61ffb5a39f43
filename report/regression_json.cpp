#include "report/regression_json.hpp"

#include "base/archive.hpp"
#include "report/words.hpp"

namespace shakedown {

template <class Archive>
void members(Archive& archive, LaunchValue& launch) {
  archive("started", launch.started)("value", launch.value)("new", launch.is_new);
}

template <class Archive>
void members(Archive& archive, Change& change) {
  archive("key", change.key)("metric", change.metric)("status", change.trend)("before", change.before);
  archive("after", change.after)("percent", change.percent)("low", change.low)("high", change.high);
  archive("limit_percent", change.limit_percent)("needed", change.needed)("detail", change.detail);
  archive("launches", change.launches);
}

template <class Archive>
void members(Archive& archive, Regression& regression) {
  archive.derived("schema", 1).derived("summary", regression_line(regression))("exit_code", regression.exit_code);
  archive("compared", regression.compared)("min_effect", regression.min_effect)("notes", regression.notes);
  archive("changes", regression.changes);
}

std::string regression_json(const Regression& regression) { return json_text(regression, 2) + "\n"; }

}  // namespace shakedown
