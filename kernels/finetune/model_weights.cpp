#include "kernels/finetune/model_weights.hpp"

#include <algorithm>
#include <cmath>
#include <map>
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
  switch (t.owner) {
    case Owner::embedding: return {{"model.embed_tokens.weight", 0, t.size()}};
    case Owner::final_norm: return {{"model.norm.weight", 0, t.size()}};
    case Owner::head: return {{"lm_head.weight", 0, t.size()}};
    case Owner::norm1: return {{layer + "input_layernorm.weight", 0, t.size()}};
    case Owner::norm2: return {{layer + "post_attention_layernorm.weight", 0, t.size()}};
    case Owner::positions: throw std::invalid_argument("learned positions in a model folder");
    default: break;
  }
  const bool is_bias = t.kind == Kind::bias;
  const auto width = is_bias ? 1 : t.cols;
  std::vector<NamedRange> ranges;
  for (const auto& part : fused(shape, training::no_adapters, training::linear_of(t.owner)).parts) {
    ranges.push_back(
        {name_of(t.layer, part.module) + (is_bias ? ".bias" : ".weight"), part.row * width, part.rows * width});
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
      const auto elements = file_.at(range.name).elements();
      if (elements == range.count) continue;
      throw InputError(where + range.name + " has " + std::to_string(elements) + " values, and config.json says " +
                       std::to_string(range.count) + ": download the folder again");
    }
  }
  if (!adapters_) return;
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
                const std::filesystem::path& base) {
  if (const OwnAdapters own(trainer); !own.all.empty()) return write_merged(folder, base, lora, own.views());
  std::map<std::string, std::pair<const ParameterTensor*, NamedRange>> by_name;
  for (const auto& t : trainer.trained()) {
    for (const auto& range : named_ranges(shape, t)) by_name.emplace(range.name, std::pair(&t, range));
  }
  write_model(folder, base, [&](std::string_view name, std::span<float> values) {
    const auto found = by_name.find(std::string(name));
    if (found == by_name.end()) return;
    const auto& [t, range] = found->second;
    const auto all = trainer.values(*t);
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(range.first), values.size(), values.begin());
  });
}

}  // namespace shakedown::finetune
