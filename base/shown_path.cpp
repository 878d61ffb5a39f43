#include "base/shown_path.hpp"

#include <unistd.h>

#include <array>
#include <climits>
#include <string>

namespace shakedown {

namespace fs = std::filesystem;

fs::path shown(const fs::path& path) {
  const std::string held = "/proc/self/fd/", text = path.native();
  if (text.rfind(held, 0) != 0) return path;
  const auto end = text.find('/', held.size());
  // Makes one readlink call, and the kernel keeps its result in memory. So it cannot block on the file system of the
  // folder.
  std::array<char, PATH_MAX> name{};
  const auto length = readlink(text.substr(0, end).c_str(), name.data(), name.size());
  if (length < 0) return path;
  const fs::path folder(std::string(name.data(), static_cast<std::size_t>(length)));
  return end == std::string::npos ? folder : folder / text.substr(end + 1);
}

}  // namespace shakedown
