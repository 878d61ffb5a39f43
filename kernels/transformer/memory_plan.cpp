#include "kernels/transformer/memory_plan.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "kernels/transformer/buffers.hpp"

namespace shakedown::training {

namespace {

constexpr std::array step_uses{Use::weights, Use::gradients, Use::optimizer, Use::activations, Use::scratch};

/// Returns the names of GPUs with the largest batch of each, without GPUs on which one sequence does not fit.
template <Trains trains>
std::vector<std::pair<std::string, long long>> largest_batches(StepSpec<trains> spec, const MemoryRow& row,
                                                               const std::vector<GpuKind>& gpus) {
  spec.shard = row.shard, spec.retain = row.retain;
  std::vector<std::pair<std::string, long long>> batches;
  for (const auto& gpu : gpus) {
    const auto batch = has_type(gpu, spec.dtype) ? largest_batch<trains>(spec, gpu.bytes) : 0;
    if (batch > 0) batches.emplace_back(gpu.name, batch);
  }
  return batches;
}

}  // namespace

bool has_type(const GpuKind& gpu, DType dtype) { return dtype != DType::fp8_e4m3 || gpu.has_fp8; }

std::uint64_t whole(double bytes) { return static_cast<std::uint64_t>(bytes); }

std::string in_gb(double bytes) { return fmt::format("{:.1f}", bytes / 1e9); }

template <Trains trains>
double library_bytes(const std::type_identity_t<StepSpec<trains>>& spec) {
  constexpr double bf16 = 2;
  const auto heads = static_cast<double>(step_shape(spec).part().heads), seq = static_cast<double>(spec.seq);
  const bool is_cudnn = spec.dtype == DType::bf16 || spec.dtype == DType::fp8_e4m3;
  return reserved_bytes + (is_cudnn ? bf16 * heads * seq * seq * static_cast<double>(spec.batch) : 0);
}

template <Trains trains>
std::vector<MemoryRow> memory_rows(std::type_identity_t<StepSpec<trains>> spec, const std::vector<GpuKind>& gpus) {
  const double beside = library_bytes<trains>(spec);  // throws for errors that no way of sharing avoids
  std::vector<MemoryRow> rows;
  for (const auto shard : {Shard::none, Shard::optimizer, Shard::weights}) {
    for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
      spec.shard = shard;
      spec.retain = retain;
      Plan step;
      // Not all models and numbers of ranks support all combinations.
      if (!input_error_of([&] { step = planned(spec); }).empty()) continue;
      MemoryRow row{shard, retain, step.by_use, static_cast<double>(step.bytes), static_cast<double>(step.host_bytes)};
      row.by_use.try_emplace(Use::optimizer, 0);
      for (const auto& gpu : gpus) {
        if (has_type(gpu, spec.dtype) && row.bytes + beside <= gpu.bytes) row.fits.push_back(gpu.name);
      }
      rows.push_back(row);
    }
  }
  return rows;
}

long long largest_that_fits(const std::function<bool(long long)>& fits) {
  constexpr long long most = 1 << 20;
  long long below = 0, above = 1;
  while (above < most && fits(above)) below = std::exchange(above, 2 * above);
  while (above - below > 1) {
    const long long middle = (below + above) / 2;
    (fits(middle) ? below : above) = middle;
  }
  return below;
}

template <Trains trains>
long long largest_batch(std::type_identity_t<StepSpec<trains>> spec, double bytes) {
  return largest_that_fits([&](long long batch) {
    spec.batch = static_cast<decltype(spec.batch)>(batch);
    double needed = 0;
    const auto wrong =
        input_error_of([&] { needed = static_cast<double>(footprint(spec)) + library_bytes<trains>(spec); });
    return wrong.empty() && needed <= bytes;
  });
}

template <Trains trains>
std::string memory_text(const std::type_identity_t<StepSpec<trains>>& spec, const std::vector<GpuKind>& gpus,
                        bool largest) {
  Table table;
  std::vector<std::string> head{"state", "kept for the backward pass", "GB of each rank"};
  for (const auto use : step_uses) head.emplace_back(name(use));
  if (spec.state == StateMemory::host) head.emplace_back("on the host");
  head.emplace_back(largest ? "largest batch" : "fits on");
  table.add_words(head);
  for (const auto& row : memory_rows<trains>(spec, gpus)) {
    auto words = row.fits;
    if (largest) {
      words.clear();
      for (const auto& [gpu, batch] : largest_batches(spec, row, gpus))
        words.push_back(fmt::format("{} {}", gpu, batch));
    }
    std::vector<std::string> cells{fmt::format("shard:{}", name(row.shard)), fmt::format("retain:{}", name(row.retain)),
                                   in_gb(row.bytes)};
    for (const auto use : step_uses) cells.push_back(in_gb(static_cast<double>(row.by_use.at(use))));
    if (spec.state == StateMemory::host) cells.push_back(in_gb(row.host_bytes));
    cells.push_back(words.empty() ? "none of them" : joined(words));
    table.add_words(cells);
  }
  std::vector<std::string> sizes;
  for (const auto& gpu : gpus) sizes.push_back(fmt::format("{} {:.4g}", gpu.name, gpu.bytes / 1e9));
  return fmt::format("{}{} on {}{}, {} x {} tokens, {}{}; it fits where {} GB are left for libraries, of {} GB\n{}",
                     spec.model, trains == Trains::adapters ? " with adapters" : "", plural(spec.ranks, "rank"),
                     spec.tp > 1 ? fmt::format(" with tp:{}", spec.tp) : "", spec.batch, spec.seq,
                     spec.dtype == DType::fp8_e4m3 ? "fp8" : name(spec.dtype),
                     std::string(spec.masters == DType::bf16 ? " with masters:bf16" : "") +
                         (spec.state == StateMemory::host ? " with state:host" : ""),
                     in_gb(library_bytes<trains>(spec)), joined(sizes), table.text({}));
}

template <Trains trains>
std::string memory_json(const std::type_identity_t<StepSpec<trains>>& spec, const std::vector<GpuKind>& gpus,
                        bool largest) {
  nlohmann::ordered_json json{{"model", spec.model},
                              {"trains", trains == Trains::adapters ? "adapters" : "all"},
                              {"dtype", name(spec.dtype)},
                              {"masters", name(spec.masters)},
                              {"state", name(spec.state)},
                              {"ranks", spec.ranks},
                              {"tp", spec.tp},
                              {"batch", spec.batch},
                              {"seq", spec.seq},
                              {"library_bytes", whole(library_bytes<trains>(spec))}};
  for (const auto& gpu : gpus) json["gpus"].push_back({{"name", gpu.name}, {"bytes", whole(gpu.bytes)}});
  for (const auto& row : memory_rows<trains>(spec, gpus)) {
    nlohmann::ordered_json to{{"shard", name(row.shard)}, {"retain", name(row.retain)}, {"bytes", whole(row.bytes)}};
    if (spec.state == StateMemory::host) to["host_bytes"] = whole(row.host_bytes);
    for (const auto use : step_uses) to["bytes_by_use"][std::string(name(use))] = row.by_use.at(use);
    to["fits"] = row.fits;
    if (largest) {
      to["largest_batch"] = nlohmann::ordered_json::object();
      for (const auto& [gpu, batch] : largest_batches(spec, row, gpus)) to["largest_batch"][gpu] = batch;
    }
    json["rows"].push_back(std::move(to));
  }
  return json.dump(2) + "\n";
}

template double library_bytes<Trains::all>(const TrainStepSpec&);
template std::vector<MemoryRow> memory_rows<Trains::all>(TrainStepSpec, const std::vector<GpuKind>&);
template long long largest_batch<Trains::all>(TrainStepSpec, double);
template std::string memory_text<Trains::all>(const TrainStepSpec&, const std::vector<GpuKind>&, bool);
template std::string memory_json<Trains::all>(const TrainStepSpec&, const std::vector<GpuKind>&, bool);
template double library_bytes<Trains::adapters>(const LoraStepSpec&);
template std::vector<MemoryRow> memory_rows<Trains::adapters>(LoraStepSpec, const std::vector<GpuKind>&);
template long long largest_batch<Trains::adapters>(LoraStepSpec, double);
template std::string memory_text<Trains::adapters>(const LoraStepSpec&, const std::vector<GpuKind>&, bool);
template std::string memory_json<Trains::adapters>(const LoraStepSpec&, const std::vector<GpuKind>&, bool);

}  // namespace shakedown::training
