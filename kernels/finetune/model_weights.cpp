#include "kernels/finetune/model_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/files.hpp"
#include "kernels/reference.hpp"

namespace shakedown::finetune {

namespace {

using training::Kind;
using training::Owner;
using training::ParameterTensor;

bool is_adapter(const ParameterTensor& t) { return t.kind == Kind::a || t.kind == Kind::b; }

/// The adapters of a trainer in host memory.
struct OwnAdapters {
  std::vector<StoredAdapters::One> all;

  explicit OwnAdapters(training::Trainer& trainer) {
    for (const auto& t : trainer.trained()) {
      if (!is_adapter(t)) continue;
      const auto same = [&](const auto& one) { return one.layer == t.layer && one.module == t.module; };
      auto found = std::find_if(all.begin(), all.end(), same);
      if (found == all.end()) found = all.insert(all.end(), {t.layer, t.module, {}, {}});
      (t.kind == Kind::a ? found->a : found->b) = trainer.values(t);
    }
    const auto order = [](const auto& one) { return std::pair(one.layer, one.module); };
    std::sort(all.begin(), all.end(), [&](const auto& x, const auto& y) { return order(x) < order(y); });
  }

  std::vector<Adapter> views() const {
    std::vector<Adapter> views;
    for (const auto& one : all) views.push_back({one.layer, one.module, one.a, one.b});
    return views;
  }
};

}  // namespace

std::vector<NamedRange> named_ranges(const training::TransformerShape& shape, const ParameterTensor& t) {
  const auto layer = "model.layers." + std::to_string(t.layer) + ".";
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  const auto vector = [&](const std::string& name) {
    return std::vector<NamedRange>{{name, 0, t.size(), {size(t.size())}}};
  };
  const auto matrix = [&](const std::string& name) {
    return std::vector<NamedRange>{{name, 0, t.size(), {size(t.rows), size(t.cols)}}};
  };
  switch (t.owner) {
    case Owner::embedding: return matrix("model.embed_tokens.weight");
    case Owner::final_norm: return vector("model.norm.weight");
    case Owner::head: return matrix("lm_head.weight");
    case Owner::norm1: return vector(layer + "input_layernorm.weight");
    case Owner::norm2: return vector(layer + "post_attention_layernorm.weight");
    case Owner::positions: throw std::invalid_argument("learned positions in a model folder");
    default: break;
  }
  const bool is_bias = t.kind == Kind::bias;
  const auto width = is_bias ? 1 : t.cols;
  std::vector<NamedRange> ranges;
  for (const auto& part : fused(shape, training::no_adapters, training::linear_of(t.owner)).parts) {
    auto shape_of = is_bias ? std::vector{size(part.rows)} : std::vector{size(part.rows), size(t.cols)};
    ranges.push_back({name_of(t.layer, part.module) + (is_bias ? ".bias" : ".weight"), part.row * width,
                      part.rows * width, std::move(shape_of)});
  }
  return ranges;
}

ModelWeights::ModelWeights(const std::filesystem::path& folder, const training::TransformerShape& shape,
                           const training::LoraShape& lora, std::uint64_t seed, std::optional<StoredAdapters> adapters)
    : folder_(folder), file_(folder), shape_(shape), seed_(seed), adapters_(std::move(adapters)) {
  require_all(lora);
}

training::TensorValues ModelWeights::values() const {
  return [this](const ParameterTensor& t, std::size_t first, std::span<float> out) {
    is_adapter(t) ? copy_adapter(t, first, out) : copy(t, first, out);
  };
}

void ModelWeights::copy(const ParameterTensor& t, std::size_t first, std::span<float> out) const {
  for (const auto& range : named_ranges(shape_, t)) {
    const auto begin = std::max(first, range.first), end = std::min(first + out.size(), range.first + range.count);
    if (begin >= end) continue;
    auto part = file_.at(range.name);
    const auto bytes = size_of(part.dtype);
    part.bytes = part.bytes.subspan((begin - range.first) * bytes, (end - begin) * bytes);
    to_floats(part, out.subspan(begin - first, end - begin));
  }
}

const std::vector<float>* ModelWeights::stored(const ParameterTensor& t) const {
  const auto same = [&](const auto& one) { return one.layer == t.layer && one.module == t.module; };
  const auto found = std::find_if(adapters_->adapters.begin(), adapters_->adapters.end(), same);
  if (found == adapters_->adapters.end()) return nullptr;
  return t.kind == Kind::a ? &found->a : &found->b;
}

void ModelWeights::copy_adapter(const ParameterTensor& t, std::size_t first, std::span<float> out) const {
  if (adapters_) {
    std::copy_n(stored(t)->begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
    return;
  }
  std::fill(out.begin(), out.end(), 0.0F);
  if (t.kind == Kind::b) return;
  const double bound = 1 / std::sqrt(static_cast<double>(t.cols));
  const auto tensor =
      reference::mix(seed_ ^ reference::mix(t.layer * training::modules + static_cast<std::size_t>(t.module)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double unit = static_cast<double>(reference::mix(tensor + first + i) >> 11) * 0x1p-53;
    out[i] = static_cast<float>(bound * (2 * unit - 1));
  }
}

void ModelWeights::require_all(const training::LoraShape& lora) const {
  const auto where = folder_.string() + ": ";
  for (const auto& t : parameter_tensors(shape_, training::no_adapters, training::Trains::all)) {
    for (const auto& range : named_ranges(shape_, t)) {
      const auto& tensor = file_.at(range.name);
      if (!is_float(tensor.dtype))
        throw InputError(fmt::format("{}{} is {}: use a model of F32, F16 or BF16", where, range.name,
                                     shakedown::name(tensor.dtype)));
      if (tensor.shape == range.shape) continue;
      throw InputError(fmt::format("{}{} has the shape {}, and config.json says {}: download the folder again", where,
                                   range.name, fmt::join(tensor.shape, " x "), fmt::join(range.shape, " x ")));
    }
  }
  if (!adapters_) return;
  for (const auto& one : adapters_->adapters) {
    if (one.layer < shape_.layers) continue;
    throw InputError(
        fmt::format("the adapters to start from have layer {}, and the model has {}: use adapters of "
                    "this model",
                    one.layer, shape_.layers));
  }
  for (const auto& t : parameter_tensors(shape_, lora)) {
    const auto* const values = stored(t);
    if (values != nullptr && values->size() == t.size()) continue;
    throw InputError("the adapters to start from have no " + training::text(t) + " of " + std::to_string(t.rows) +
                     " x " + std::to_string(t.cols) + ": set rank and modules as they were trained");
  }
}

void save_adapters(const std::filesystem::path& folder, training::Trainer& trainer, const training::LoraShape& lora,
                   const std::filesystem::path& base) {
  const OwnAdapters own(trainer);
  write_adapters(folder, lora, own.views(), base.string());
}

void save_model(const std::filesystem::path& folder, training::Trainer& trainer,
                const training::TransformerShape& shape, const training::LoraShape& lora,
                const std::filesystem::path& base, const std::function<void()>& while_working) {
  if (const OwnAdapters own(trainer); !own.all.empty())
    return write_merged(folder, base, lora, own.views(), while_working);
  Changes changes;
  for (const auto& t : trainer.trained()) {
    for (const auto& range : named_ranges(shape, t)) {
      changes.emplace(range.name, [&trainer, t, first = range.first](std::span<float> values) {
        const auto all = trainer.values(t);
        std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), values.size(), values.begin());
      });
    }
  }
  write_model(folder, base, changes, while_working);
}

}  // namespace shakedown::finetune
