// Fine-tuning with the weights and examples of the user: with adapters or of all parameters, from model folders of
// Hugging Face as they are. Each rank has the whole model and a part of every step. Without these flags the program is
// a benchmark on random weights and a made-up language, which runs only on request: its losses after some steps.
//
//   mpirun -np 4 build/bench/bench_finetune --weights=Qwen2-7B --data=train.jsonl --out=run --config=run.yaml
//   mpirun -np 4 build/bench/bench_finetune --benchmark_filter='finetune/model'
#include "fixtures/plan/session.hpp"
#include "kernels/transformer/finetune_spec.hpp"

namespace shakedown {

void register_finetune(Session& session) {
  session.add_on_request("finetune/of:losses", "finetune/model");
  const bool host = !session.has_gpus();
  FinetuneSpec spec{.model = host ? "tiny" : "qwen2_7b_8_layers", .ranks = session.ranks(), .rank = session.rank()};
  const auto [model, lora] = training::preset(spec.model);
  spec.shape = model;
  spec.lora = lora;
  spec.dtype = host ? DType::f32 : DType::bf16;
  // The rate of lora_step, at which rounding hardly changes the losses: 0.8623 to 0.8627 in 14 launches on six H200s.
  // At half of the standard deviation of the weights (1e-2) the losses of four H100s were 3.6 to 5.4.
  if (!host) spec.rate = 1e-4;
  spec.batch = host ? 4 : 2;
  spec.seq = host ? 32 : 2048;
  const double tokens = static_cast<double>(spec.batch * spec.seq) * spec.steps;
  auto row = measurement_of(spec, [tokens](const Cost&, double seconds, int) -> Metrics {
    return {{"tokens_per_s", tokens / seconds}};
  });
  row.one_by_one = OneByOne{5};
  row.on_request = true;
  session.add(std::move(row));
}

}  // namespace shakedown
