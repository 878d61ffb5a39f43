// The decode of one token for each sequence of a batch, after a context of 4,096 tokens. With share:8, a GPU computes
// its part of a model that eight GPUs share, without the sums between them. All GPUs compute the same part at once.
// With tp:N, the N ranks of the job share the model, with the sums. A machine without GPUs computes a tiny model.
//
//   mpirun -np 4 build/bench/bench_decode --benchmark_filter='decode/.*dtype'
//   build/bench/bench_decode --benchmark_filter='decode/.*llama_70b.*batch:1/'
#include "fixtures/plan/session.hpp"
#include "kernels/transformer/decode_spec.hpp"

namespace shakedown {

namespace {

/// As for training steps, tokens are timed one by one, because their spread matters.
constexpr int tokens = 20;

void add(Session& session, DecodeSpec spec) {
  if (spec.tp > 1) {
    spec.rank = session.rank();
    // Some models cannot be divided among this number of ranks.
    if (!input_error_of([&] { static_cast<void>(decode_shape(spec)); }).empty()) return;
  }
  auto row = measurement_of(spec, [batch = spec.batch](const Cost&, double seconds, int) -> Metrics {
    return {{"tokens_per_s", batch / seconds}, {"token_ms", seconds * 1e3}};
  });
  row.one_by_one = OneByOne{tokens};
  row.on_request = true;
  session.add(std::move(row));
}

}  // namespace

/// The rows run only on request, because a run for every node must be short. The waived row says so.
void register_decode(Session& session) {
  session.add_on_request("decode/model:llama_70b", "decode/.*dtype");
  const int ranks = session.ranks();
  if (!session.has_gpus()) {
    for (const auto dtype : {DType::f32, DType::fp8_e4m3}) {
      add(session, {.model = "tiny", .dtype = dtype, .batch = 2, .context = 64, .share = 2});
      if (ranks > 1) add(session, {.model = "tiny", .dtype = dtype, .batch = 2, .context = 64, .tp = ranks});
    }
    return;
  }
  constexpr auto bf16 = DType::bf16, fp8 = DType::fp8_e4m3;
  for (const int batch : {1, 16, 64}) {
    add(session, {.model = "llama_70b", .dtype = bf16, .batch = batch, .context = 4096, .share = 8});
    add(session, {.model = "qwen2_7b", .dtype = bf16, .batch = batch, .context = 4096});
    if (ranks == 1) continue;
    for (const auto* model : {"llama_70b", "qwen2_7b"}) {
      add(session, {.model = model, .dtype = bf16, .batch = batch, .context = 4096, .tp = ranks});
    }
  }
  for (const auto* model : {"llama_70b", "llama_405b"}) {
    for (const int batch : {1, 16, 64}) {
      add(session, {.model = model, .dtype = fp8, .batch = batch, .context = 4096, .share = 8});
      if (ranks > 1) add(session, {.model = model, .dtype = fp8, .batch = batch, .context = 4096, .tp = ranks});
    }
  }
}

}  // namespace shakedown
