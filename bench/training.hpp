// Times training steps and computes their metrics.
#pragma once

#include "fixtures/loop/ab_compare.hpp"
#include "kernels/transformer/step_spec.hpp"

namespace shakedown {

template <training::Trains trains>
void add_step(Session& session, StepSpec<trains> spec, bool on_request = false) {
  spec.ranks = session.ranks();
  spec.rank = session.rank();
  // If this number of ranks cannot run a configuration, its row is waived, and other measurements continue.
  if (const auto why = input_error_of([&] { static_cast<void>(footprint(spec)); }); !why.empty()) {
    if (on_request) return;
    return session.add(
        {key(spec), {}, 0, [why](Device&) -> std::unique_ptr<Work> { throw Unsupported(why); }, nullptr});
  }
  // tokens_per_s is the rate of one GPU. model_tflops counts the operations that the model needs. model_tflops does not
  // count recomputation, which saves memory.
  auto row = measurement_of(spec, [own = tokens(spec)](const Cost& cost, double seconds, int ranks) -> Metrics {
    return {{"tokens_per_s", own / seconds},
            {"tokens_per_s_total", own / seconds * ranks},
            {"step_ms", seconds * 1e3},
            {"model_tflops", cost.flops / seconds / 1e12}};
  });
  // Steps are timed one by one, because their spread matters. Single steps differ by 0.3 %. The median of ten differs
  // by 0.1 % from that of twenty.
  row.one_by_one = OneByOne{10};
  if (const auto& against = session.options().against; !against.empty()) {
    const auto of = [](const StepSpec<trains>& s) {
      return Variant{[s](Device& device) { return device.prepare(s); },
                     [own = tokens(s)](double seconds) { return own / seconds; }};
    };
    const auto name = row.key + "/against:" + against;
    if (!selected(session.options().filter, name)) return;
    const auto other = with(spec, against);
    const auto why = input_error_of([&] { static_cast<void>(footprint(other)); });
    // A variant that cannot run is omitted if it runs only on request.
    if (on_request && !why.empty()) return;
    if (!why.empty()) throw InputError(row.key + " with " + against + ": " + why);
    row = ab_compare(name, row.key + " with " + against, "tokens_per_s", of(spec), of(other));
    row.footprint = footprint(spec) + footprint(other);
  }
  row.on_request = on_request;
  session.add(std::move(row));
}

}  // namespace shakedown
