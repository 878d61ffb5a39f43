#include "kernels/transformer/inference_plan.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text.hpp"
#include "kernels/transformer/decode_buffers.hpp"

namespace shakedown::training {

namespace {

constexpr std::array decode_uses{Use::weights, Use::cache, Use::activations, Use::scratch};
constexpr int fp8_rows = 16;  // products of fp8 need a multiple of this number of sequences, or one sequence

bool is_fp8(const InferenceOrder& order) { return order.dtype == DType::fp8_e4m3; }

std::string_view word_of(DType dtype) { return dtype == DType::fp8_e4m3 ? "fp8" : name(dtype); }

InferenceRow row_of(const InferenceOrder& order, int batch, int context) {
  if (batch < 1 || context < 1) throw std::invalid_argument("a decode needs at least one sequence and one token");
  if (is_fp8(order) && batch > 1 && batch % fp8_rows != 0) {
    throw std::invalid_argument(fmt::format("decode in fp8 supports one sequence, or a multiple of {}: choose batch {}",
                                            fp8_rows, batch + fp8_rows - batch % fp8_rows));
  }
  // The first rank and the others have the same memory, but for one row of zeros; the last rank has it.
  const DecodeSpec spec{.model = order.model,
                        .dtype = order.dtype,
                        .batch = batch,
                        .context = context,
                        .tp = order.ranks,
                        .rank = order.ranks - 1};
  const Plan plan = planned(spec);
  return {spec, plan.by_use, static_cast<double>(plan.bytes)};
}

std::string name_of(const InferenceRow& row) { return fmt::format("{} x {}", row.spec.batch, row.spec.context); }

double tokens_per_s(const InferenceRow& row, const TokenTime& time) { return row.spec.batch / time.seconds(); }

/// Returns the tokens/s of a row, and in brackets those of the reads alone if there are AllReduces; "-" if it does not
/// fit.
std::string rate_of(const InferenceRow& row, const GpuKind& gpu) {
  const auto time = token_time(row.spec, gpu);
  if (!fits(row, gpu) || !time) return "-";
  const auto reads = fmt::format("{:.0f}", row.spec.batch / time->reads_s);
  if (row.spec.tp == 1) return reads;
  return (time->sums_s ? fmt::format("{:.0f} ", tokens_per_s(row, *time)) : "") + "(" + reads + ")";
}

std::string value_of(const std::optional<StoredFigure>& figure) {
  return figure ? fmt::format("{:.4g}", figure->value) : "-";
}

std::string sources_of(const GpuKind& gpu) {
  std::vector<std::string> rows;
  for (const auto& figure : {gpu.hbm_gb_per_s, gpu.allreduce_us, gpu.allreduce_gb_per_s}) {
    if (figure) rows.push_back(fmt::format("{} ({})", figure->row, figure->at));
  }
  return gpu.name + ": " + (rows.empty() ? "no figures" : joined(rows));
}

std::string rates_text(const InferenceOrder& order, const std::vector<InferenceRow>& rows,
                       const std::vector<GpuKind>& gpus) {
  Table table;
  std::vector<std::string> head{"GPU", "GB", "HBM GB/s"};
  if (order.ranks > 1) head.insert(head.end(), {"AllReduce us", "busbw GB/s"});
  for (const auto& row : rows) head.push_back(name_of(row));
  table.add_words(head);
  std::string sources;
  for (const auto& gpu : gpus) {
    std::vector<std::string> cells{gpu.name, fmt::format("{:.4g}", gpu.bytes / 1e9), value_of(gpu.hbm_gb_per_s)};
    if (order.ranks > 1) cells.insert(cells.end(), {value_of(gpu.allreduce_us), value_of(gpu.allreduce_gb_per_s)});
    for (const auto& row : rows) cells.push_back(rate_of(row, gpu));
    table.add_words(cells);
    sources += "  " + sources_of(gpu) + "\n";
  }
  return "\ntokens/s of all sequences by stored figures, for batch x context" +
         std::string(order.ranks > 1 ? " (in brackets: reads without AllReduces)" : "") + "\n" + table.text({}) +
         "\nstored figures:\n" + sources;
}

std::string largest_text(const InferenceOrder& order, const std::vector<GpuKind>& gpus) {
  Table table;
  std::vector<std::string> head{"largest batch on"};
  for (const int context : order.contexts) head.push_back(fmt::format("context {}", context));
  table.add_words(head);
  for (const auto& gpu : gpus) {
    std::vector<std::string> cells{gpu.name};
    for (const int context : order.contexts) cells.push_back(std::to_string(largest_batch(order, context, gpu)));
    table.add_words(cells);
  }
  return "\n" + table.text({});
}

nlohmann::ordered_json json_of(const std::optional<StoredFigure>& figure) {
  if (!figure) return nullptr;
  return {{"value", figure->value}, {"row", figure->row}, {"rule", figure->at}};
}

nlohmann::ordered_json json_of(const GpuKind& gpu, const InferenceOrder& order, const std::vector<InferenceRow>& rows,
                               bool largest) {
  nlohmann::ordered_json json{{"name", gpu.name},
                              {"bytes", whole(gpu.bytes)},
                              {"hbm_gb_per_s", json_of(gpu.hbm_gb_per_s)},
                              {"allreduce_us", json_of(gpu.allreduce_us)},
                              {"allreduce_gb_per_s", json_of(gpu.allreduce_gb_per_s)}};
  for (const auto& row : rows) {
    const auto time = token_time(row.spec, gpu);
    nlohmann::ordered_json rate{{"batch", row.spec.batch}, {"context", row.spec.context}, {"fits", fits(row, gpu)}};
    if (time) {
      rate["reads_ms"] = time->reads_s * 1e3;
      rate["allreduce_ms"] = time->sums_s ? nlohmann::ordered_json(*time->sums_s * 1e3) : nullptr;
      rate["tokens_per_s"] = tokens_per_s(row, *time);
    }
    json["rates"].push_back(std::move(rate));
  }
  for (const int context : largest ? order.contexts : std::vector<int>{}) {
    json["largest_batch"][std::to_string(context)] = largest_batch(order, context, gpu);
  }
  return json;
}

}  // namespace

std::vector<InferenceRow> inference_rows(const InferenceOrder& order) {
  std::vector<InferenceRow> rows;
  for (const int batch : order.batches) {
    for (const int context : order.contexts) rows.push_back(row_of(order, batch, context));
  }
  return rows;
}

bool fits(const InferenceRow& row, const GpuKind& gpu) {
  // One sequence needs no tensor cores (kernels/transformer/cuda/decode_product.cu).
  return (row.spec.batch == 1 || has_type(gpu, row.spec.dtype)) && row.bytes + reserved_bytes <= gpu.bytes;
}

std::optional<TokenTime> token_time(const DecodeSpec& spec, const GpuKind& gpu) {
  if (!gpu.hbm_gb_per_s) return std::nullopt;
  TokenTime time{cost(spec).bytes / (gpu.hbm_gb_per_s->value * 1e9), std::nullopt};
  if (spec.tp == 1) time.sums_s = 0;
  if (spec.tp == 1 || !gpu.allreduce_us) return time;
  constexpr double bf16 = 2;
  const auto shape = decode_shape(spec);
  const double sums = 2 * static_cast<double>(shape.layers) + 1;  // with that of the embedding
  const double bytes = bf16 * spec.batch * static_cast<double>(shape.hidden), ranks = spec.tp;
  const double transfer =
      gpu.allreduce_gb_per_s ? bytes * 2 * (ranks - 1) / ranks / (gpu.allreduce_gb_per_s->value * 1e9) : 0;
  time.sums_s = sums * (gpu.allreduce_us->value * 1e-6 + transfer);
  return time;
}

long long largest_batch(const InferenceOrder& order, int context, const GpuKind& gpu) {
  const auto fit = [&](long long batch) { return fits(row_of(order, static_cast<int>(batch), context), gpu); };
  if (!is_fp8(order)) return largest_that_fits(fit);
  const auto groups = largest_that_fits([&](long long count) { return fit(count * fp8_rows); });
  return groups > 0 ? groups * fp8_rows : (fit(1) ? 1 : 0);
}

std::string inference_text(const InferenceOrder& order, const std::vector<GpuKind>& gpus, bool largest) {
  Table table;
  std::vector<std::string> head{"batch", "context", "GB of each rank"};
  for (const auto use : decode_uses) head.emplace_back(name(use));
  head.emplace_back("fits on");
  table.add_words(head);
  const auto rows = inference_rows(order);
  for (const auto& row : rows) {
    std::vector<std::string> names,
        cells{std::to_string(row.spec.batch), std::to_string(row.spec.context), in_gb(row.bytes)};
    for (const auto use : decode_uses) cells.push_back(in_gb(static_cast<double>(row.by_use.at(use))));
    for (const auto& gpu : gpus) {
      if (fits(row, gpu)) names.push_back(gpu.name);
    }
    cells.push_back(names.empty() ? "none of them" : joined(names));
    table.add_words(cells);
  }
  return fmt::format("decode of {} in {} on {}; it fits where {} GB are left for libraries\n{}", order.model,
                     word_of(order.dtype), plural(order.ranks, "rank"), in_gb(reserved_bytes), table.text({})) +
         (largest ? largest_text(order, gpus) : "") + rates_text(order, rows, gpus);
}

std::string inference_json(const InferenceOrder& order, const std::vector<GpuKind>& gpus, bool largest) {
  nlohmann::ordered_json json{{"model", order.model},
                              {"dtype", name(order.dtype)},
                              {"ranks", order.ranks},
                              {"library_bytes", whole(reserved_bytes)}};
  const auto rows = inference_rows(order);
  for (const auto& row : rows) {
    nlohmann::ordered_json to{{"batch", row.spec.batch}, {"context", row.spec.context}, {"bytes", whole(row.bytes)}};
    for (const auto use : decode_uses) to["bytes_by_use"][std::string(name(use))] = row.by_use.at(use);
    json["rows"].push_back(std::move(to));
  }
  for (const auto& gpu : gpus) json["gpus"].push_back(json_of(gpu, order, rows, largest));
  return json.dump(2) + "\n";
}

}  // namespace shakedown::training
