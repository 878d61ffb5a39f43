// Fuzzes stored baselines, and compares each with itself and with its original.
#include "tests/fuzz/one_file.hpp"
#include "thresholds/history/regression.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shakedown;
  static const Measured now(read_results(
      std::vector{std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "ci/baselines/h200-sxm/1ranks/1/hbm.json"}));
  return fuzz::try_to([&] {
    Baseline baseline = read_baseline({fuzz::file_with(data, size, "baseline.json")});
    leave_out_outliers(baseline);
    static_cast<void>(baseline_json(merge({baseline, baseline})));
    RegressionOptions options;
    options.allow_different = true;
    static_cast<void>(judge_regression(now, baseline, options));
  });
}
