// Checks that measurements of one run agree with each other. A figure may meet its own limit, or have none, and still
// be impossible in view of another figure: a training step at a fifth of the predicted rate was once reported as 98 %
// efficient.
#include "thresholds/rules/crosscheck.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/rules/profile.hpp"

namespace shakedown {
namespace {

double number_of(const Key& key, const char* name) { return static_cast<double>(key.number(name).value_or(0)); }

bool good(const Benchmark& benchmark) { return benchmark.error() == nullptr && benchmark.waiver() == nullptr; }

// True if `known` has all parts of the key, so that the row is no variant and is not limited to some ranks.
bool only_has(const Key& key, std::initializer_list<std::string_view> known) {
  const auto& parts = key.parts();
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
    return std::find(known.begin(), known.end(), part.first) != known.end();
  });
}

class Checker {
 public:
  Checker(const Benchmarks& benchmarks, const FamilySet& families) : benchmarks_(benchmarks), families_(families) {}

  std::vector<Finding> run() {
    if (wanted("allreduce")) check_allreduce();
    if (wanted("lora_step")) check_steps();
    return std::move(findings_);
  }

 private:
  bool wanted(const std::string& family) const { return families_.contains(family); }

  // --- AllReduce against peer copies ---

  void check_allreduce() {
    const Benchmark* best = nullptr;
    double busbw = 0;
    for (const auto& [key, benchmark] : benchmarks_) {
      if (key.family() != "allreduce" || !good(benchmark) || number_of(key, "bytes") < bandwidth_bound_bytes) continue;
      const bool one_host = benchmark.context->hosts == 1 || key.part("scope") == "node";
      if (!one_host || benchmark.context->backend != Backend::cuda) continue;
      if (!only_has(key, {"dtype", "bytes", "scope"})) continue;
      const auto value = run_value(benchmark, "busbw_gb_per_s");
      if (!value || *value <= busbw) continue;
      busbw = *value;
      best = &benchmark;
    }
    const auto copy = copy_rate();
    if (best == nullptr || !copy) return;
    Finding f = finding(*best, "busbw_gb_per_s_vs_copies");
    f.value = busbw;
    f.unit = "GB/s";
    const double least = allreduce_of_copy * *copy;
    f.limit = {LimitKind::min, least};
    f.source = "peer copies: median " + number_text(*copy) + " GB/s; a healthy AllReduce reaches " +
               fmt::format("{:.2f}", allreduce_of_copy) + " of this rate or more";
    f.detail = "AllReduce " + fmt::format("{:.2f}", busbw / *copy) + " of the peer copies";
    if (busbw < least) {
      f.status = Status::fail;
      f.next = measure_command(best->key, best->context->world_size);
      if (*copy < nvlink_class_gb_per_s) f.severity = Severity::warn;
    }
    findings_.push_back(f);
  }

  // Returns the rate at which one GPU writes to another, as the median over all pairs. Either one pair or all pairs
  // copy at a time.
  std::optional<double> copy_rate() const {
    std::vector<double> rates;
    for (const auto& [key, benchmark] : benchmarks_) {
      if (key.family() != "p2p" || !good(benchmark) || key.part("dir") == "both") continue;
      if (key.part("engine") == "sm") continue;  // copies by kernels are slower, and their reads are the slowest
      for (const auto& value : rank_values(benchmark, "copy_gb_per_s")) {
        if (value) rates.push_back(*value);
      }
    }
    return rates.empty() ? std::nullopt : std::optional(median(std::move(rates)));
  }

  // --- GEMM and AllReduce against the LoRA step ---

  void check_steps() {
    for (const auto& [key, benchmark] : benchmarks_) {
      if (key.family() != "lora_step" || !good(benchmark) || benchmark.context->backend != Backend::cuda) continue;
      check_step(key, benchmark);
    }
  }

  void check_step(const Key& key, const Benchmark& benchmark) {
    const Model* model = find_model(key);
    const auto step = run_value(benchmark, "step_ms");
    const double tokens = number_of(key, "batch") * number_of(key, "seq");
    const auto gemm = gemm_rates();
    const int ranks = benchmark.context->world_size;
    const auto comm = ranks > 1 && model != nullptr ? allreduce_ms(model->trainable * 4, ranks) : std::optional(0.0);
    if (model == nullptr || !step || !gemm || !comm) return;
    // Uses the number of operations that the step itself reports, if it does, because variants of the model differ.
    const auto counted = run_value(benchmark, "model_tflops");
    const double flops = counted ? *counted * 1e12 * *step * 1e-3 : model->flops_per_token * tokens;
    if (!(flops > 0)) return;
    const double compute = flops / (step_of_gemm * gemm->first * 1e12) * 1e3;
    Finding f = finding(benchmark, "step_ms_vs_parts");
    f.value = step;
    f.unit = "ms";
    const double longest = (1 + step_tolerance) * (compute + *comm);
    f.limit = {LimitKind::max, longest};
    f.source = "predicted " + number_text(compute + *comm) + " ms: its FLOPs at " +
               fmt::format("{:.2f}", step_of_gemm) + " of GEMM's " + number_text(gemm->first) + " TFLOPS " +
               number_text(compute) + " ms, its AllReduce " + number_text(*comm) + " ms";
    f.detail = "LoRA step " + fmt::format("{:.2f}", *step / (compute + *comm)) + " of the time that its parts predict";
    const double fastest = flops / (max_gemm_ratio * gemm->second * 1e12) * 1e3;
    if (*step > longest) {
      f.status = Status::fail;
    } else if (*step < fastest && key.part("dtype").empty()) {
      f.status = Status::invalid;
      f.limit = {LimitKind::least, fastest};
      f.detail = "less than its FLOPs take at the highest rate of GEMM in this run, " + number_text(gemm->second) +
                 " TFLOPS: the measurement is wrong";
    }
    if (!f.good()) f.next = measure_command(key, ranks);
    findings_.push_back(f);
  }

  // Returns two rates of bf16: that of the slowest rank in the largest products, which are at the power limit, and the
  // highest rate of any rank.
  std::optional<std::pair<double, double>> gemm_rates() const {
    std::optional<double> slowest;
    double highest = 0;
    for (const auto& [key, benchmark] : benchmarks_) {
      if (key.family() != "gemm" || key.part("dtype") != "bf16" || !good(benchmark)) continue;
      highest = std::max(highest, largest_value(benchmark, "tflops").value_or(0));
      if (number_of(key, "m") < 8192 || number_of(key, "n") < 8192 || number_of(key, "k") < 8192) continue;
      const auto value = run_value(benchmark, "tflops");
      if (value && *value > 0 && (!slowest || *value < *slowest)) slowest = *value;
    }
    return slowest ? std::optional(std::pair(*slowest, highest)) : std::nullopt;
  }

  // Returns the time of an AllReduce of `bytes`. Computes it from the bandwidth of the next larger size that was
  // measured, or of the largest size if there is none.
  std::optional<double> allreduce_ms(double bytes, int ranks) const {
    std::optional<std::pair<double, double>> above, largest;  // bytes and microseconds
    for (const auto& [key, benchmark] : benchmarks_) {
      if (key.family() != "allreduce" || !good(benchmark) || benchmark.context->world_size != ranks) continue;
      if (!only_has(key, {"dtype", "bytes"})) continue;
      const auto time = run_value(benchmark, "latency_us");
      const double size = number_of(key, "bytes");
      if (!time || size <= 0) continue;
      if (size >= bytes && (!above || size < above->first)) above = {size, *time};
      if (!largest || size > largest->first) largest = {size, *time};
    }
    const auto& nearest = above ? above : largest;
    return nearest ? std::optional(nearest->second * bytes / nearest->first / 1e3) : std::nullopt;
  }

  static Finding finding(const Benchmark& benchmark, const std::string& metric) {
    Finding f;
    classify(f, Code::crosscheck, benchmark.rows.size());
    f.key = benchmark.key;
    f.metric = metric;
    f.judgement = Judgement::crosscheck;
    return f;
  }

  const Benchmarks& benchmarks_;
  const FamilySet& families_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string CrossChecks::summary() const {
  std::string text;
  for (const Finding& f : findings) text += (text.empty() ? "" : "; ") + f.detail + (f.good() ? "" : ": too low");
  return text;
}

CrossChecks cross_check(const Benchmarks& benchmarks, const FamilySet& families) {
  return {Checker(benchmarks, families).run()};
}

}  // namespace shakedown
