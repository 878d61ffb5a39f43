#include "kernels/transformer/finetune_spec.hpp"

#include <algorithm>

namespace shakedown {

namespace training {

StepShape step_shape(const FinetuneSpec& s) {
  if (s.batch < 1 || s.seq < 1 || s.accumulation < 1 || s.ranks < 1) {
    throw std::invalid_argument("fine-tuning needs at least one rank, sequence, token and micro-batch");
  }
  StepShape shape{.model = s.shape,
                  .lora = s.trains == Trains::all ? no_adapters : s.lora,
                  .trains = s.trains,
                  .batch = s.batch,
                  .seq = s.seq,
                  .accumulation = s.accumulation,
                  .ranks = s.ranks,
                  .retain = s.retain,
                  .loss_chunk = s.logit_rows,
                  .rank = s.rank};
  check(shape);
  return shape;
}

Plan planned(const FinetuneSpec& s) {
  const auto element = size_of(s.dtype);
  return plan(step_shape(s), element, std::max<std::size_t>(element, 4), 0);
}

}  // namespace training

std::string key(const FinetuneSpec& s) {
  Key key{std::string(s.family)};
  key.set("model", s.model).set_unless(DType::bf16, "dtype", s.dtype);
  key.set("batch", s.batch).set("seq", s.seq).set_unless(std::size_t{1}, "accumulation", s.accumulation);
  return key.set("steps", s.steps).text();
}

Cost cost(const FinetuneSpec& s) {
  const auto tokens = static_cast<double>(s.batch * s.seq * s.accumulation) * s.steps;
  return {tokens * training::token_flops(s.shape, s.lora, s.seq, s.trains).total(), 0};
}

std::size_t footprint(const FinetuneSpec& s) { return training::planned(s).bytes; }

}  // namespace shakedown
