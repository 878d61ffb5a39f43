// How benchmarks of training steps are timed and what they tell.
#pragma once

#include "fixtures/in_turns.hpp"

namespace shakedown {

template <training::Trains trains>
void add_step(Session& session, StepSpec<trains> spec) {
  // Steps that are timed, one by one: their spread counts. Ten differ by 0.3 %, their median by 0.1 % from that of
  // twenty.
  constexpr OneByOne steps{10};
  spec.ranks = session.ranks();
  spec.rank = session.rank();
  const double tokens = static_cast<double>(spec.batch) * spec.seq * spec.accumulation / spec.tp;
  // tokens_per_s is one GPU's; model_tflops counts what the model needs, whatever is computed a second time to save
  // memory.
  const auto figures = [tokens](const Cost& cost, double seconds, int ranks) -> Metrics {
    return {{"tokens_per_s", tokens / seconds},
            {"tokens_per_s_total", tokens / seconds * ranks},
            {"step_ms", seconds * 1e3},
            {"model_tflops", cost.flops / seconds / 1e12}};
  };
  if (const auto& against = session.options().against; !against.empty()) {
    const auto of = [&](const StepSpec<trains>& s) {
      const auto tokens_of_it = static_cast<double>(s.batch) * s.seq * s.accumulation;
      return Variant{[s](Device& device) { return device.prepare(s); },
                     [tokens_of_it](double seconds) { return tokens_of_it / seconds; }};
    };
    const auto name = key(spec) + "/against:" + against;
    if (!selected(session.options().filter, name)) return;
    const auto other = with(spec, against);
    auto row = in_turns(name, key(spec) + " with " + against, "tokens_per_s", of(spec), of(other));
    row.footprint = footprint(spec) + footprint(other);
    return session.add(std::move(row));
  }
  session.add(Measurement{key(spec), cost(spec), footprint(spec),
                          [spec](Device& device) { return device.prepare(spec); }, figures, 0, steps});
}

}  // namespace shakedown
