#include "kernels/transformer/memory_plan.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "kernels/transformer/buffers.hpp"

namespace shakedown::training {

double library_bytes(const TrainStepSpec& spec) {
  constexpr double others = 2e9, bf16 = 2;
  const auto heads = static_cast<double>(step_shape(spec).part().heads), seq = static_cast<double>(spec.seq);
  return others + (spec.dtype == DType::bf16 ? bf16 * heads * seq * seq * static_cast<double>(spec.batch) : 0);
}

std::vector<MemoryRow> memory_rows(TrainStepSpec spec, const std::vector<GpuKind>& gpus) {
  const double beside = library_bytes(spec);  // this call throws for errors that no way of sharing avoids
  std::vector<MemoryRow> rows;
  for (const auto shard : {Shard::none, Shard::optimizer, Shard::weights}) {
    for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
      spec.shard = shard;
      spec.retain = retain;
      double bytes = 0;
      // Not all models and numbers of ranks support all combinations.
      if (!input_error_of([&] { bytes = static_cast<double>(footprint(spec)); }).empty()) continue;
      MemoryRow row{shard, retain, bytes};
      for (const auto& gpu : gpus) {
        if (bytes + beside <= gpu.bytes) row.fits.push_back(gpu.name);
      }
      rows.push_back(row);
    }
  }
  return rows;
}

long long largest_batch(TrainStepSpec spec, double bytes) {
  const auto fits = [&](long long batch) {
    spec.batch = static_cast<decltype(spec.batch)>(batch);
    double needed = 0;
    const auto wrong = input_error_of([&] { needed = static_cast<double>(footprint(spec)) + library_bytes(spec); });
    return wrong.empty() && needed <= bytes;
  };
  constexpr long long max_batch = 1 << 20;
  long long below = 0, above = 1;
  while (above < max_batch && fits(above)) below = std::exchange(above, 2 * above);
  while (above - below > 1) {
    const long long middle = (below + above) / 2;
    (fits(middle) ? below : above) = middle;
  }
  return below;
}

std::string memory_text(const TrainStepSpec& spec, const std::vector<GpuKind>& gpus, bool largest) {
  Table table;
  table.add_words({"state", "kept for the backward pass", "GB of each rank", largest ? "largest batch" : "fits on"});
  for (const auto& row : memory_rows(spec, gpus)) {
    auto words = row.fits;
    if (largest) words.clear();
    for (const auto& gpu : largest ? gpus : std::vector<GpuKind>{}) {
      TrainStepSpec step = spec;
      step.shard = row.shard, step.retain = row.retain;
      if (const auto batch = largest_batch(step, gpu.bytes); batch > 0)
        words.push_back(fmt::format("{} {}", gpu.name, batch));
    }
    table.add_words({fmt::format("shard:{}", name(row.shard)), fmt::format("retain:{}", name(row.retain)),
                     fmt::format("{:.1f}", row.bytes / 1e9), words.empty() ? "none of them" : joined(words)});
  }
  std::vector<std::string> sizes;
  for (const auto& gpu : gpus) sizes.push_back(fmt::format("{} {:.4g}", gpu.name, gpu.bytes / 1e9));
  return fmt::format("{} on {}{}, {} x {} tokens, {}; it fits where {:.1f} GB are left for libraries, of {} GB\n{}",
                     spec.model, plural(spec.ranks, "rank"), spec.tp > 1 ? fmt::format(" with tp:{}", spec.tp) : "",
                     spec.batch, spec.seq, name(spec.dtype), library_bytes(spec) / 1e9, joined(sizes), table.text({}));
}

}  // namespace shakedown::training
