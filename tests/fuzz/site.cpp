// Fuzzes site files.
#include "thresholds/rules/site.hpp"

#include "tests/fuzz/one_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shakedown;
  return fuzz::try_to([&] { read_site(fuzz::file_with(data, size, "site.yaml")); });
}
