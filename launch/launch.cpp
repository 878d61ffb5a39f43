#include "launch/launch.hpp"

#include "base/text.hpp"
#include "launch/words.hpp"

namespace shakedown {

std::string Launch::expected() const {
  Words words;
  if (host_count > 0 && !discovery.empty()) words.push_back("hosts=" + std::to_string(host_count));
  if (ranks) words.push_back("ranks=" + std::to_string(*ranks));
  return joined(words, ",");
}

}  // namespace shakedown
