// Fuzzes rosters.
#include "tests/fuzz/one_file.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/expectation.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shakedown;
  return fuzz::try_to([&] { read_roster(fuzz::file_with(data, size, "roster")); });
}
