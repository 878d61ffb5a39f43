// Where the time of one training step on this GPU goes, by class of operation: cuda_lora_profile [model] [batch]
// [sequence] [steps] [all|rebuild|inputs] [augmented|separate] [best|plain]
// [candidates] [seconds of tuning per product, in turns] [and sustained]. Not a test: it prints, of one GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "kernels/backends.hpp"
#include "kernels/cuda/training/lora_ops.hpp"
#include "kernels/training/measured_step.hpp"

namespace shakedown::cuda {
namespace {

using training::Mark;

training::StepShape shape_of(const std::vector<std::string>& words) {
  const auto preset = training::preset(words[0]);
  training::StepShape shape{preset.model, preset.lora, std::stoul(words[1]), std::stoul(words[2])};
  shape.retain = words[4] == "all"      ? training::Retain::all
                 : words[4] == "inputs" ? training::Retain::inputs
                                        : training::Retain::rebuild;
  shape.path = words[5] == "separate" ? training::AdapterPath::separate : training::AdapterPath::augmented;
  return shape;
}

int run(const std::vector<std::string>& words) {
  const auto shape = shape_of(words);
  const Gpu gpu(0, Placement{});
  CudaOpsSettings settings;
  if (words[6] == "plain") settings.attention = AttentionKind::plain;
  settings.tuning = {std::stoi(words[7]), std::stod(words[8]), std::stod(words[9])};
  CudaOps ops(gpu, nullptr, shape, settings);
  const auto free_before = free_memory();
  training::LoraStep<CudaOps> step(ops, shape);
  std::printf("%s, attention %s, planned %.2f GB, workspace %.2f GB\n", words[0].c_str(), ops.attention_name().c_str(),
              static_cast<double>(step.bytes()) / 1e9, static_cast<double>(ops.workspace_bytes()) / 1e9);

  std::vector<int> inputs(shape.tokens()), targets(shape.tokens());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = training::input_token(i, shape.model.vocab);
    targets[i] = training::target_token(i, shape.model.vocab);
  }
  const auto initialize = [&] {
    step.initialize();
    step.load(inputs, targets);
  };
  initialize();
  ops.start_tuning();
  step.run(training::measured_update);
  Alone group;
  ops.finish_tuning(group);
  for (const auto& line : ops.products()) std::printf("  %s\n", line.c_str());
  initialize();

  std::vector<double> times;
  const int steps = std::stoi(words[3]);
  for (int i = 0; i < steps + 3; ++i) {
    step.run(training::measured_update);
    const double total = ops.milliseconds(Mark::begin, Mark::end);
    if (i % 10 == 0) std::printf("\n  from step %2d:", i);
    std::printf(" %.2f", total);
    if (i >= 3) times.push_back(total);
  }
  std::printf(" ms\n");
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const auto flops = training::token_flops(shape.model, shape.lora, shape.seq).total();
  std::printf(
      "step %.2f ms (%.2f to %.2f), %.0f tokens/s, %.1f TFLOPS of the model; forward %.2f, backward %.2f, update "
      "%.2f\n",
      median, times.front(), times.back(), 1e3 * static_cast<double>(shape.tokens()) / median,
      flops * static_cast<double>(shape.tokens()) / median / 1e9, ops.milliseconds(Mark::begin, Mark::forward_end),
      ops.milliseconds(Mark::forward_end, Mark::backward_end), ops.milliseconds(Mark::backward_end, Mark::end));
  std::printf("used %.2f GB of the GPU's memory\n", static_cast<double>(free_before - free_memory()) / 1e9);

  constexpr int profiled = 5;
  ops.start_profile();
  for (int i = 0; i < profiled; ++i) step.run(training::measured_update);
  std::map<std::string, double> classes;
  double sum = 0;
  for (const auto& [name, time] : ops.finish_profile()) {
    const double milliseconds = time.milliseconds / profiled;
    classes[name.substr(0, name.find(':'))] += milliseconds;
    sum += milliseconds;
    if (time.flops == 0) continue;
    std::printf("    %-64s %4d calls %8.2f ms %6.1f TFLOPS\n", name.c_str(), time.calls / profiled, milliseconds,
                time.flops / time.milliseconds / 1e9);
  }
  for (const auto& [name, milliseconds] : classes) std::printf("  %-20s %8.2f ms\n", name.c_str(), milliseconds);
  std::printf("  %-20s %8.2f ms\n", "sum", sum);
  for (const auto& record : step.records()) {
    std::printf("loss %.6f norm %.6f checksum %016lx\n", record.loss, std::sqrt(record.reduced.squared_norm),
                static_cast<unsigned long>(record.reduced.checksum));
  }
  return 0;
}

}  // namespace
}  // namespace shakedown::cuda

int main(int argc, char** argv) {
  std::vector<std::string> words{"qwen2_7b", "2", "4096", "20", "all", "augmented", "best", "12", "0.25", "0.12"};
  for (int i = 1; i < argc && i <= static_cast<int>(words.size()); ++i)
    words[static_cast<std::size_t>(i - 1)] = argv[i];
  try {
    return shakedown::cuda::run(words);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cuda_lora_profile: %s\n", e.what());
    return 1;
  }
}
