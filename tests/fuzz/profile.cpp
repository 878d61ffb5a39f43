// Fuzzes profiles, next to a file that they can include.
#include "thresholds/rules/profile.hpp"
#include "tests/fuzz/one_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shakedown;
  static const std::string part =
      read_file(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "thresholds/nvidia-preflight.yaml");
  static const auto beside =
      fuzz::file_with(reinterpret_cast<const std::uint8_t*>(part.data()), part.size(), "nvidia-preflight.yaml");
  return fuzz::try_to([&] { load_profiles(fuzz::file_with(data, size, "profile.yaml")); });
}
