#include "base/host_name.hpp"

#include <unistd.h>

#include <array>

#include "base/text.hpp"

namespace shakedown {

std::string system_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return one_line(name.data());
}

std::optional<std::string> given_host_name(const Environment& environment) {
  for (const auto* variable : {"SHAKEDOWN_HOST", "SHAKEDOWN_NODE"}) {
    if (const auto given = environment(variable); given && !given->empty()) return one_line(*given);
  }
  return std::nullopt;
}

std::string host_name(const Environment& environment) {
  const auto given = given_host_name(environment);
  return given ? *given : system_host_name();
}

}  // namespace shakedown
