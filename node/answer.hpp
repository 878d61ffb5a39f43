// A value that a driver reports, or the reason why it does not.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace shakedown {

/// A value, or the reason why there is none.
template <class T>
class Answer : public std::optional<T> {
 public:
  Answer(T value) : std::optional<T>(std::move(value)) {}
  static Answer unknown(std::string why) { return Answer(std::nullopt, std::move(why)); }

  /// Returns the reason, such as "not supported", "no permission" or "nvmlDeviceGetX is missing from the library".
  /// Empty if there is a value.
  const std::string& why() const { return why_; }

 private:
  Answer(std::nullopt_t, std::string why) : why_(std::move(why)) {}
  std::string why_;
};

}  // namespace shakedown
