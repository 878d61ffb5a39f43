// Fuzzes result files, and judges those that can be read.
#include "tests/fuzz/one_file.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/judge/verdict.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shakedown;
  static const References shipped(load_profiles(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "thresholds"));
  return fuzz::try_to([&] {
    const Measured measured(std::vector<Results>(1, read_results(fuzz::file_with(data, size, "results.json"))));
    static_cast<void>(verdict_line(judge(measured, shipped, {})));
  });
}
