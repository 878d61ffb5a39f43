#include "kernels/training/buffers.hpp"

#include <algorithm>
#include <stdexcept>

namespace shakedown::training {

namespace {

template <class Element, class Master>
Plan dry_run(const StepShape& shape, std::size_t workspace_bytes) {
  Arena arena;
  const Buffers<Element, Master> counted(arena, shape, workspace_bytes);
  return {arena.bytes(), arena.slices()};
}

}  // namespace

StepShape step_shape(const LoraStepSpec& spec) {
  if (spec.batch < 1 || spec.seq < 1 || spec.accumulation < 1 || spec.ranks < 1) {
    throw std::invalid_argument("a training step needs at least one rank, sequence, token and micro-batch");
  }
  const auto [model, lora] = preset(spec.model);
  return {.model = model,
          .lora = lora,
          .batch = static_cast<std::size_t>(spec.batch),
          .seq = static_cast<std::size_t>(spec.seq),
          .accumulation = static_cast<std::size_t>(spec.accumulation),
          .ranks = spec.ranks,
          .retain = spec.retain,
          .sums = spec.sums,
          .bucket = (spec.bucket + sizeof(float) - 1) / sizeof(float)};
}

Plan plan(const StepShape& shape, std::size_t element, std::size_t master, std::size_t workspace_bytes) {
  if (element == 2 && master == 4) return dry_run<std::uint16_t, float>(shape, workspace_bytes);
  if (element == 4 && master == 4) return dry_run<float, float>(shape, workspace_bytes);
  if (element == 8 && master == 8) return dry_run<double, double>(shape, workspace_bytes);
  throw std::invalid_argument("no backend has elements of " + std::to_string(element) + " bytes with masters of " +
                              std::to_string(master));
}

}  // namespace shakedown::training

namespace shakedown {

Cost cost(const LoraStepSpec& s) {
  const auto shape = training::step_shape(s);
  const auto tokens = static_cast<double>(shape.accumulation * shape.tokens());
  return {tokens * training::token_flops(shape.model, shape.lora, shape.seq).total(), 0};
}

std::size_t footprint(const LoraStepSpec& s) {
  const auto element = size_of(s.dtype);
  return training::plan(training::step_shape(s), element, std::max<std::size_t>(element, 4), 0).bytes;
}

}  // namespace shakedown
