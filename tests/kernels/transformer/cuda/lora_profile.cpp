// Profiles one training step on this GPU by class of operation: cuda_lora_profile [model] [batch] [sequence] [steps]
// [all|rebuild|inputs] [augmented|separate|fp8] [best|plain] [candidates] [seconds of tuning per product, in turns]
// [and sustained]. Not a test: it prints the profile of one GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/group.hpp"
#include "kernels/backends.hpp"
#include "kernels/transformer/cuda/cuda_ops.hpp"
#include "kernels/transformer/measured_step.hpp"

namespace shakedown::cuda {
namespace {

using training::Mark;

struct ClassTime {
  double milliseconds = 0, flops = 0;
  int calls = 0;
};

/// The operations of a step, each between two events while the profiler runs. The events cost some time themselves.
class Profiled : public CudaOps {
 public:
  Profiled(const Gpu& gpu, const training::StepShape& shape, const CudaOpsSettings& settings)
      : CudaOps(gpu, nullptr, shape, settings), gpu_(gpu) {}

  void start_profile() { profiling_ = true; }
  /// Returns the times by class since start_profile(), products also by shape. Synchronizes with the GPU.
  std::map<std::string, ClassTime> finish_profile() {
    profiling_ = false;
    gpu_.synchronize();
    std::map<std::string, ClassTime> sums;
    for (const auto& timing : timings_) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, timing.begin.get(), timing.end.get()));
      auto& sum = sums[timing.operation_class];
      sum.milliseconds += static_cast<double>(milliseconds);
      sum.flops += timing.flops;
      ++sum.calls;
    }
    timings_.clear();
    return sums;
  }

  /// Separates products whose size depends on the rank of the adapters from products with the weights.
  template <class Out>
  void gemm(const training::Gemm<Element, Out>& g) {
    const auto inner = g.a_transposed ? g.a.rows : g.a.cols;
    const bool frozen = std::is_same_v<Out, Element> && std::min({g.d.rows, g.d.cols, inner}) >= 512;
    const double flops = 2.0 * static_cast<double>(g.d.rows) * static_cast<double>(g.d.cols * inner);
    timed((frozen ? "frozen products: " : "adapter products: ") + text(matmul_shape(g)), [&] { CudaOps::gemm(g); },
          flops);
  }
  template <class Out>
  void gemm(const training::QuantizedGemm<Element, Out>& g) {
    const double outputs = static_cast<double>(g.d.rows) * static_cast<double>(g.d.cols);
    timed(
        "frozen products: " + text(matmul_shape(g)), [&] { CudaOps::gemm(g); },
        2.0 * outputs * static_cast<double>(g.a.values.cols));
  }
  void quantize(auto&&... a) {
    timed("quantization", [&] { CudaOps::quantize(a...); });
  }
  void quantize_transposed(auto&&... a) {
    timed("quantization", [&] { CudaOps::quantize_transposed(a...); });
  }
  void requantize(auto&&... a) {
    timed("quantization of adapters", [&] { CudaOps::requantize(a...); });
  }
  void requantize_transposed(auto&&... a) {
    timed("quantization of adapters", [&] { CudaOps::requantize_transposed(a...); });
  }
  void copy(auto&&... a) {
    timed("copies", [&] { CudaOps::copy(a...); });
  }
  void embedding(auto&&... a) {
    timed("embedding", [&] { CudaOps::embedding(a...); });
  }
  void norm(auto&&... a) {
    timed("norms", [&] { CudaOps::norm(a...); });
  }
  void norm_backward(Matrix<const Element> dn, Matrix<const Element> x, const NormWeights& weights,
                     const NormStatistics& statistics, bool accumulate, Matrix<Element> dx, Matrix<Element> n,
                     const NormGradient& gradient) {
    timed("norms", [&] { CudaOps::norm_backward(dn, x, weights, statistics, accumulate, dx, n, gradient); });
  }
  void rope(auto&&... a) {
    timed("rotations", [&] { CudaOps::rope(a...); });
  }
  void attention(auto&&... a) {
    timed("attention forward", [&] { CudaOps::attention(a...); });
  }
  void attention_backward(auto&&... a) {
    timed("attention backward", [&] { CudaOps::attention_backward(a...); });
  }
  void swiglu(auto&&... a) {
    timed("swiglu", [&] { CudaOps::swiglu(a...); });
  }
  void swiglu_backward(auto&&... a) {
    timed("swiglu", [&] { CudaOps::swiglu_backward(a...); });
  }
  void cross_entropy(auto&&... a) {
    timed("loss", [&] { CudaOps::cross_entropy(a...); });
  }
  void add_sum(auto&&... a) {
    timed("loss", [&] { CudaOps::add_sum(a...); });
  }
  void summarize(auto&&... a) {
    timed("summaries", [&] { CudaOps::summarize(a...); });
  }
  void adamw(auto&&... a) {
    timed("adamw", [&] { CudaOps::adamw(a...); });
  }

 private:
  struct Timing {
    std::string operation_class;
    double flops;
    Event begin, end;
  };

  void timed(const std::string& operation_class, const auto& queue, double flops = 0) {
    if (!profiling_) return queue();
    Timing timing{operation_class, flops, make_event(), make_event()};
    check(cudaEventRecord(timing.begin.get(), gpu_.stream()));
    queue();
    check(cudaEventRecord(timing.end.get(), gpu_.stream()));
    timings_.push_back(std::move(timing));
  }

  const Gpu& gpu_;
  bool profiling_ = false;
  std::vector<Timing> timings_;
};

training::StepShape shape_of(const std::vector<std::string>& words) {
  const auto preset = training::preset(words[0]);
  training::StepShape shape{
      .model = preset.model, .lora = preset.lora, .batch = std::stoul(words[1]), .seq = std::stoul(words[2])};
  shape.retain = words[4] == "all"      ? training::Retain::all
                 : words[4] == "inputs" ? training::Retain::inputs
                                        : training::Retain::rebuild;
  shape.quantized = words[5] == "fp8";
  shape.path = words[5] == "separate" ? training::AdapterPath::separate : training::AdapterPath::augmented;
  return shape;
}

int run(const std::vector<std::string>& words) {
  const auto shape = shape_of(words);
  const Gpu gpu(0, Placement{});
  CudaOpsSettings settings;
  if (words[6] == "plain") settings.attention = AttentionKind::plain;
  settings.tuning = {std::stoi(words[7]), std::stod(words[8]), std::stod(words[9])};
  Profiled ops(gpu, shape, settings);
  const auto free_before = free_memory();
  training::TrainingStep<Profiled> step(ops, shape);
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
  for (const auto& [product, plan] : ops.products().plans()) {
    const auto& algorithm = plan.candidates[plan.chosen];
    std::printf("  %s: algorithm %u, tile %u, split %u\n", text(product).c_str(),
                setting(algorithm, CUBLASLT_ALGO_CONFIG_ID), setting(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                setting(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  }
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
