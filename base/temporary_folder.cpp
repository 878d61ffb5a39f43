#include "base/temporary_folder.hpp"

#include <cstdlib>
#include <string>
#include <system_error>

#include "base/files.hpp"

namespace shakedown {

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::string name = std::filesystem::temp_directory_path(error) / "shakedown-XXXXXX";
  if (error) {
    const char* const chosen = std::getenv("TMPDIR");
    throw CannotWrite("TMPDIR=" + std::string(chosen == nullptr ? "" : chosen) + ": " + error.message());
  }
  if (mkdtemp(name.data()) == nullptr) throw CannotWrite(name + ": cannot be made; set TMPDIR");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace shakedown
