// Data parallel training on the host. n ranks with a part of the sequences each must give the same result as one rank
// with all of them, to 1e-12 in double. Tests adapters and whole models, replicated and sharded. Ranks with tensor
// parallelism must give the same result as one rank, and so must two hundred steps on a text. In fp8 each rank has
// other factors, so that the first gradient may differ by its rounding. Prints the largest differences. Runs with any
// number of ranks that divides 12.
//
//   mpirun -np 2 build/tests/step_ranks
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "fixtures/ranks/world.hpp"
#include "kernels/transformer/step_check.hpp"
#include "tests/kernels/transformer/host_step.hpp"
#include "tests/kernels/transformer/text_run.hpp"

namespace shakedown {
namespace {

constexpr std::size_t sequences = 12;
constexpr int steps = 3;
constexpr double tolerance = 1e-12;
// Ranks with other tokens quantize the columns of the gradients of weights with other factors. Ranks with parts of the
// model also quantize the rows of each product with other factors. Their gradient then differs from that of one rank as
// those of two independent roundings, by about sqrt(2) times the difference from f64 (0.1 to 0.3: a cosine of 0.995 to
// 0.95, as in quantized_step_test.cpp).
constexpr double fp8_tolerance = 0.1, fp8_tolerance_of_parts = 0.4;
// The gradient of the key bias is only rounding error, which a smaller epsilon would amplify.
constexpr training::AdamW update{.lr = 0.01, .eps = 1e-6};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

double sum_over_ranks(World& world, double value) {
  std::vector<double> sum{value};
  world.sum(std::span<const double>(sum), std::span<double>(sum));
  return sum[0];
}

/// Prints the result under this name. True if it is within the limits.
bool good(World& world, const char* name, double worst, double limit, const training::Record& last,
          std::uint64_t checksum, std::size_t together = 1) {
  // Not a sum: all ranks must have the same bits for all shared data.
  const auto checksums = world.gather(std::to_string(checksum)),
             of_all = world.gather(std::to_string(last.shared.checksum));
  bool same = true;
  for (std::size_t r = 0; r < checksums.size(); ++r) {
    same = same && checksums[r] == checksums[r % together] && of_all[r] == of_all[r / together * together];
  }
  // The ranks must have different sequences or parts of the model. If all were equal, the comparison would be
  // meaningless.
  const auto gradients = together > 1 ? checksums : world.gather(std::to_string(last.local.checksum));
  const bool shared = world.size() == 1 || gradients.front() != gradients.back();
  worst = world.max(worst);
  if (world.rank() == 0) {
    std::printf(
        "%s on %d ranks against one: largest relative difference %.1e (limit %.0e), parameters %s on all ranks%s\n",
        name, world.size(), worst, limit, same ? "equal" : "NOT EQUAL", shared ? "" : ", NOTHING SHARED");
  }
  return worst <= limit && same && shared;
}

/// `cut`: a rank processes its sequences one by one.
bool agrees(World& world, const char* name, training::StepShape shape, training::Shard shard = training::Shard::none,
            bool cut = false, int together = 1) {
  // Some sequences are then split where ranks split their tokens.
  shape.batch = together > 1 ? sequences / 2 : sequences;
  HostStep<double> whole(shape);
  shape.ranks = world.size() / together;
  const auto own = shape.batch / static_cast<std::size_t>(shape.ranks);
  shape.batch = cut ? 1 : own;
  if (cut) shape.accumulation = own;
  shape.shard = shard;
  shape.rank = world.rank() / together;
  shape.tensor = together;
  shape.tensor_rank = world.rank() % together;
  HostStep<double> part(shape, 1, &world);
  part.load(batch_of(shape, static_cast<std::size_t>(shape.rank) * shape.batch * shape.accumulation));
  double worst = 0, uncovered = 0;
  for (int step = 0; step < steps; ++step) {
    whole.step.run(update);
    part.step.run(update);
    const auto& record = part.step.records().back();
    const double loss = sum_over_ranks(world, record.loss) / world.size();
    // In fp8 AdamW then moves parameters with small gradients in different directions.
    if (!shape.quantized || step == 0) {
      worst = std::max(worst, distance(part.summed_gradient(), whole.summed_gradient()));
      worst = std::max(worst, std::abs(loss - whole.step.records().back().loss));
    }
    if (!shape.quantized) worst = std::max(worst, distance(part.parameters(), whole.parameters()));
    // A measured step verifies with this projection that its sums cover all ranks.
    const double projection = sum_over_ranks(world, record.local.projection);
    uncovered =
        std::max(uncovered, std::abs(record.reduced.projection - projection) / std::sqrt(record.reduced.squared_norm));
  }
  const auto last = part.step.records().back();
  const bool covers = world.max(uncovered) <= tolerance;
  if (!covers && world.rank() == 0) std::printf("%s: a sum differs from that of all ranks by %g\n", name, uncovered);
  const double limit = !shape.quantized ? tolerance : together > 1 ? fp8_tolerance_of_parts : fp8_tolerance;
  const bool near =
      good(world, name, worst, limit, last, part.step.weights_summary().checksum, static_cast<std::size_t>(together));
  return covers && near;
}

/// Tests tensor parallelism in groups of `together` ranks.
bool compute_alike(World& world, int together) {
  using training::Retain;
  using training::Shard;
  bool all = true;
  const auto agree = [&](const std::string& name, training::StepShape shape, Retain retain = Retain::all,
                         Shard shard = Shard::none) {
    auto& m = shape.model;
    shape.seq = 6;
    shape.retain = retain;
    m.vocab = 60;
    m.intermediate = 40;
    if (m.kv_heads < 4) {
      m.heads = 8;
      m.kv_heads = m.head_dim = 4;
    }
    const auto what =
        fmt::format("{}, tp:{}, shard:{}, retain:{},", name, together, shakedown::name(shard), shakedown::name(retain));
    all = agrees(world, what.c_str(), shape, shard, false, together) && all;
  };
  auto llama = qwen2_shape(4);  // one more than the number of alternating buffers; more layers let rounding errors grow
  llama.model.qkv_bias = false;
  auto twice = qwen2_shape();
  twice.accumulation = 2;
  auto fp8 = qwen2_shape();
  fp8.quantized = true;
  agree("GPT-2", gpt2_shape());
  agree("encoder", encoder_shape());
  agree("Llama", llama);
  agree("Qwen2 in two micro-batches", twice);
  agree("Qwen2 in fp8", fp8);
  if (world.size() == together) {
    agree("GPT-2", gpt2_shape(), Retain::rebuild);
    agree("Qwen2", qwen2_shape(), Retain::rebuild);
    agree("Qwen2", qwen2_shape(), Retain::inputs);
    agree("encoder", encoder_shape(), Retain::inputs);
    return all;
  }
  agree("GPT-2", gpt2_shape(), Retain::all, Shard::optimizer);
  agree("encoder", encoder_shape(), Retain::all, Shard::weights);
  agree("Llama", llama, Retain::rebuild, Shard::weights);
  return all;
}

/// Compares 200 steps on a text, in which rounding errors have grown.
bool reads_alike(World& world) {
  TextRun<double> whole(1), part(world.size(), &world);
  const auto want = whole.losses(), got = part.losses();
  double worst = 0;
  for (std::size_t step = 0; step < want.size(); ++step) {
    worst = std::max(worst, std::abs(sum_over_ranks(world, got[step]) / world.size() / want[step] - 1));
  }
  return good(world, "200 steps of GPT-2 on a text", worst, 1e-9, part.last(), part.last().updated.checksum);
}

int compare() {
  const auto world = make_world([](bool) {});
  if (sequences % static_cast<std::size_t>(world->size()) != 0) {
    if (world->rank() == 0) {
      std::fprintf(stderr, "step_ranks: 12 sequences cannot be shared by %d ranks\n", world->size());
    }
    return 2;
  }
  bool all = agrees(*world, "LoRA", ragged_shape());
  all = agrees(*world, "GPT-2", gpt2_shape()) && all;
  all = agrees(*world, "encoder", encoder_shape()) && all;
  if (world->size() > 1) {
    using training::Shard;
    all = agrees(*world, "GPT-2, optimizer shared,", gpt2_shape(), Shard::optimizer) && all;
    all = agrees(*world, "encoder, optimizer shared,", encoder_shape(), Shard::optimizer) && all;
    all = agrees(*world, "GPT-2, weights shared,", gpt2_shape(), Shard::weights) && all;
    all = agrees(*world, "encoder, weights shared,", encoder_shape(), Shard::weights) && all;
    all = agrees(*world, "Qwen2, weights shared,", qwen2_shape(7), Shard::weights) && all;
    auto in_bf16 = qwen2_shape(7);
    in_bf16.masters = DType::bf16;
    all = agrees(*world, "Qwen2, weights shared and in bf16,", in_bf16, Shard::weights) && all;
    auto on_host = qwen2_shape(7);
    on_host.state = training::StateMemory::host;
    all = agrees(*world, "Qwen2, weights shared, its state on the host,", on_host, Shard::weights) && all;
    all = agrees(*world, "GPT-2, optimizer shared, micro-batches,", gpt2_shape(), Shard::optimizer, true) && all;
    all = agrees(*world, "GPT-2, weights shared, micro-batches,", gpt2_shape(), Shard::weights, true) && all;
    all = agrees(*world, "Qwen2, weights shared, micro-batches,", qwen2_shape(7), Shard::weights, true) && all;
    auto fp8 = qwen2_shape(7);
    fp8.quantized = true;
    all = agrees(*world, "Qwen2 in fp8, weights shared,", fp8, Shard::weights) && all;
    if (world->size() % 2 == 0) all = compute_alike(*world, 2) && all;
    if (world->size() == 4) all = compute_alike(*world, 4) && all;
  }
  // The text is read four sequences at a time.
  return (world->size() == 3 || reads_alike(*world)) && all ? 0 : 1;
}

}  // namespace
}  // namespace shakedown

int main() { return shakedown::compare(); }
