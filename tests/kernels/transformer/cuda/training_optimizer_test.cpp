// Gradients and parameters on the GPU: summaries, AdamW, sums over ranks, random weights.
#include <bit>
#include <cmath>
#include <memory>
#include <tuple>

#include "kernels/transformer/cuda/kernels.hpp"
#include "tests/kernels/transformer/cuda/training_on_gpu.hpp"

namespace shakedown::cuda {
namespace {

training::Summary summary_of(const std::vector<double>& values, std::size_t first) {
  training::Summary summary{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    summary.squared_norm += values[i] * values[i];
    summary.projection += training::is_negative(training::signs_from(first + i)) ? -values[i] : values[i];
    summary.non_finite += std::isfinite(values[i]) ? 0 : 1;
    summary.checksum += std::bit_cast<std::uint32_t>(static_cast<float>(values[i])) * (2 * (first + i) + 1);
  }
  return summary;
}

class Summaries : public CudaTraining {
 protected:
  training::Summary of(const F& values, std::size_t count, std::size_t cut) {
    const Buffer partials(partials_needed(0) * sizeof(training::Summary)), result(sizeof(training::Summary));
    gpu_->fill(result, 0);
    gpu_->fill(partials, 0xff);
    auto* const to = result.data<training::Summary>();
    summarize(stream(), values.data(), 0, cut, partials.data<training::Summary>(), to);
    summarize(stream(), values.data() + cut, cut, count - cut, partials.data<training::Summary>(), to);
    return gpu_->read(to);
  }
};

TEST_F(Summaries, OfPartsAreThatOfTheWhole) {
  constexpr std::size_t count = 1234567;
  auto values = f32(count);
  values.normal(1);
  const auto want = summary_of(values.read(), 0);
  for (const std::size_t cut : {0U, 4U, 400000U}) {
    const auto got = of(values, count, cut);
    EXPECT_NEAR(got.squared_norm / want.squared_norm, 1, 1e-12);
    EXPECT_NEAR(got.projection, want.projection, 1e-12 * count);
    EXPECT_EQ(got.non_finite, 0U);
    EXPECT_EQ(got.checksum, want.checksum);
  }
  EXPECT_EQ(of(values, count, 4).squared_norm, of(values, count, 4).squared_norm);
}

TEST_F(Summaries, OfBf16SeeEveryBit) {
  auto values = bf16(1, 10003);
  values.normal(1);
  const auto read = values.read();
  const auto bits = values.bits();
  training::Summary want{};
  for (std::size_t i = 0; i < read.size(); ++i) {
    want.squared_norm += read[i] * read[i];
    want.projection += training::is_negative(training::signs_from(40 + i)) ? -read[i] : read[i];
    want.checksum += training::checksum_term(std::bit_cast<std::uint16_t>(bits[i]), 40 + i);
  }
  const Buffer partials(partials_needed(0) * sizeof(training::Summary));
  const auto result = upload(std::vector<training::Summary>(1));
  const Bf16* const from = values.data();
  summarize(stream(), from, 40, read.size(), partials.data<training::Summary>(), result.data<training::Summary>());
  const auto got = gpu_->read(result.data<const training::Summary>());
  EXPECT_NEAR(got.squared_norm / want.squared_norm, 1, 1e-12);
  EXPECT_NEAR(got.projection, want.projection, 1e-8);
  EXPECT_EQ(got.checksum, want.checksum);
}

TEST_F(Summaries, CountWhatIsNotFinite) {
  auto values = f32(1003);
  values.normal(1);
  auto damaged = values.read();
  damaged[1002] = nan, damaged[17] = HUGE_VAL;
  values.write(damaged);
  const auto got = of(values, 1003, 500);
  EXPECT_EQ(got.non_finite, 2U);
  EXPECT_FALSE(std::isfinite(got.squared_norm));
}

TEST_F(CudaTraining, AdamWUpdatesParametersAndTheirCopies) {
  constexpr std::size_t rows_a = 24, cols_a = 3584, rows_b = 640, cols_b = 8, size_a = rows_a * cols_a;
  constexpr std::size_t count = size_a + rows_b * cols_b;
  auto parameters = f32(count), gradient = f32(count), first = f32(count), second = f32(count);
  auto a = bf16(rows_a, cols_a, 64), b = bf16(rows_b, cols_b, 3584);
  parameters.normal(1, 0.02), gradient.normal(2), first.normal(3, 0.1), second.normal(4, 0.1);
  auto squares = second.read();
  for (double& value : squares) value *= value;
  second.write(squares);
  const auto segments = upload(std::vector<Segment>{{0, a.matrix(), 1}, {size_a, b.matrix(), 2, false}});
  const training::FlatState<float> state{parameters.data(), gradient.data(), first.data(), second.data(), count};
  training::AdamW settings;
  settings.step = 3;

  const auto g = gradient.read();
  auto p = parameters.read(), m = first.read(), v = second.read();
  auto summary = summary_of(g, 0);
  const double clip = std::min(1.0, settings.max_norm / (std::sqrt(summary.squared_norm) + 1e-6));
  for (std::size_t i = 0; i < count; ++i) {
    m[i] = settings.beta1 * m[i] + (1 - settings.beta1) * clip * g[i];
    v[i] = settings.beta2 * v[i] + (1 - settings.beta2) * clip * g[i] * clip * g[i];
    if (i < size_a) p[i] -= settings.lr * settings.weight_decay * p[i];  // the second segment has no weight decay
    p[i] -= settings.lr * m[i] / (1 - std::pow(settings.beta1, 3)) /
            (std::sqrt(v[i] / (1 - std::pow(settings.beta2, 3))) + settings.eps);
  }
  const auto on_gpu = upload(std::vector<training::Summary>{summary});
  const auto before = parameters.read();
  const Buffer partials(partials_needed(2) * sizeof(training::Summary));
  gpu_->fill(partials, 0xff);
  const auto after = upload(std::vector<training::Summary>(1));
  adamw(stream(), segments.data<const Segment>(), 2, state, settings, on_gpu.data<const training::Summary>(),
        partials.data<training::Summary>(), after.data<training::Summary>());
  EXPECT_TRUE(close(parameters.read(), p, f32_rounding));
  EXPECT_TRUE(close(first.read(), m, f32_rounding));
  EXPECT_TRUE(close(second.read(), v, f32_rounding));
  const auto updated = parameters.read();
  const auto got = gpu_->read(after.data<const training::Summary>()), want = summary_of(updated, 0);
  EXPECT_NEAR(got.squared_norm / want.squared_norm, 1, 1e-12);
  EXPECT_EQ(got.non_finite, 0U);
  EXPECT_EQ(got.checksum, want.checksum);
  std::vector<double> moved(count), want_moved(count);
  for (std::size_t i = 0; i < count; ++i) moved[i] = updated[i] - before[i], want_moved[i] = p[i] - before[i];
  EXPECT_TRUE(close(moved, want_moved, 1e-4));
  const auto copy_a = a.read(), copy_b = b.read();
  for (std::size_t i = 0; i < size_a; ++i) ASSERT_EQ(copy_a[i], rounded(updated[i])) << i;
  for (std::size_t i = 0; i < copy_b.size(); ++i) ASSERT_EQ(copy_b[i], rounded(2 * updated[size_a + i])) << i;

  auto other_a = bf16(rows_a, cols_a, 64), other_b = bf16(rows_b, cols_b, 3584);
  const auto others = upload(std::vector<Segment>{{0, other_a.matrix(), 1}, {size_a, other_b.matrix(), 2}});
  write_copies(stream(), others.data<const Segment>(), 2, parameters.data());
  EXPECT_EQ(other_a.read(), copy_a);
  EXPECT_EQ(other_b.read(), copy_b);
}

TEST_F(CudaTraining, AdamWFindsTheGradientOfAShareInThatOfAll) {
  const auto updated = [&](std::size_t behind) {
    auto parameters = f32(64), first = f32(64), second = f32(64), gradient = f32(256);
    auto copy = bf16(1, 64);
    parameters.normal(1), gradient.normal(2);
    first.write(std::vector<double>(64)), second.write(std::vector<double>(64));
    const auto segments = upload(std::vector<Segment>{{0, copy.matrix(), 1, true, behind}});
    const auto norm = upload(std::vector<training::Summary>{{1, 0, 0}}),
               after = upload(std::vector<training::Summary>(1));
    const Buffer partials(partials_needed(1) * sizeof(training::Summary));
    adamw(stream(), segments.data<const Segment>(), 1,
          {parameters.data(), gradient.data() + (128 - behind), first.data(), second.data(), 64}, {},
          norm.data<const training::Summary>(), partials.data<training::Summary>(), after.data<training::Summary>());
    return std::pair(parameters.read(), copy.read());
  };
  EXPECT_EQ(updated(128), updated(0));
}

TEST_F(CudaTraining, AdamWLeavesEverythingAloneIfTheGradientIsNotFinite) {
  auto parameters = f32(64), gradient = f32(64), first = f32(64), second = f32(64);
  auto copy = bf16(8, 8);
  for (auto* values : {&parameters, &gradient, &first}) values->normal(1);
  second.write(std::vector<double>(64, 1)), copy.normal(2);
  const auto segments = upload(std::vector<Segment>{{0, copy.matrix(), 1}});
  const training::FlatState<float> state{parameters.data(), gradient.data(), first.data(), second.data(), 64};
  const auto before = std::tuple(parameters.read(), first.read(), second.read(), copy.read());
  for (const auto& bad :
       {training::Summary{1, 1, 0}, training::Summary{nan, 0, 0}, training::Summary{HUGE_VAL, 0, 0}}) {
    const auto summary = upload(std::vector<training::Summary>{bad});
    const Buffer partials(partials_needed(1) * sizeof(training::Summary));
    const auto after = upload(std::vector<training::Summary>(1));
    adamw(stream(), segments.data<const Segment>(), 1, state, {}, summary.data<const training::Summary>(),
          partials.data<training::Summary>(), after.data<training::Summary>());
    EXPECT_EQ(std::tuple(parameters.read(), first.read(), second.read(), copy.read()), before);
    EXPECT_EQ(gpu_->read(after.data<const training::Summary>()).checksum, summary_of(parameters.read(), 0).checksum);
  }
}

/// A state in bf16 on the GPU and on the host, with one tensor that begins at this position of the model.
class Bf16Updates : public CudaTraining {
 protected:
  struct State {
    std::vector<double> parameters, first, second;
    std::uint64_t checksum;
    bool operator==(const State&) const = default;
  };
  static constexpr std::size_t count = 3 * 4096 + 40, position = 4 * 1234567;
  static constexpr training::AdamW settings{.step = 3, .seed = 77};

  void SetUp() override {
    CudaTraining::SetUp();
    if (gpu_ == nullptr) return;
    arrays_ = std::make_unique<Arrays>(*gpu_);
    arrays_->parameters.normal(1, 0.02), arrays_->gradient.normal(2), arrays_->first.normal(3, 0.1);
    std::vector<double> squares(count);
    for (std::size_t i = 0; i < count; ++i) squares[i] = std::pow(0.1 * reference::normal(i, 4), 2);
    arrays_->second.write(squares);
  }
  training::Summary norm() { return summary_of(arrays_->gradient.read(), 0); }

  State on_host() {
    const auto narrow = [](const std::vector<double>& values) {
      return std::vector<float>(values.begin(), values.end());
    };
    auto parameters = narrow(arrays_->parameters.read()), first = narrow(arrays_->first.read()),
         second = narrow(arrays_->second.read()), gradient = narrow(arrays_->gradient.read());
    host::Team team(1);
    host::HostOps<float> ops(team);
    const training::ParameterSlot<float> slot{0, {parameters.data(), 1, count, count}, 1, true, 0, position};
    ops.place_copies({&slot, 1});
    training::Summary updated{};
    const auto norm_of_gradient = norm();
    ops.adamw(training::Bf16State<float, float>{parameters.data(), gradient.data(), first.data(), second.data(), count},
              settings, &norm_of_gradient, &updated, 0, 1);
    const auto wide = [](const std::vector<float>& values) {
      return std::vector<double>(values.begin(), values.end());
    };
    return {wide(parameters), wide(first), wide(second), 0};
  }

  /// The tensor is cut into segments at these places.
  State on_gpu(const training::Summary& of_gradient, std::vector<std::size_t> cuts = {}) {
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(count);
    std::vector<Segment> segments;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const auto size = cuts[i + 1] - cuts[i];
      segments.push_back(
          {cuts[i], {arrays_->parameters.data() + cuts[i], 1, size, size}, 1, true, 0, position + cuts[i]});
    }
    const auto on_device = upload(segments);
    const auto summary = upload(std::vector<training::Summary>{of_gradient});
    const Buffer partials(partials_needed(segments.size()) * sizeof(training::Summary));
    gpu_->fill(partials, 0xff);
    const auto after = upload(std::vector<training::Summary>(1));
    const training::Bf16State<Bf16, float> state{arrays_->parameters.data(), arrays_->gradient.data(),
                                                 arrays_->first.data(), arrays_->second.data(), count};
    adamw(stream(), on_device.data<const Segment>(), segments.size(), state, settings,
          summary.data<const training::Summary>(), partials.data<training::Summary>(), after.data<training::Summary>());
    return {arrays_->parameters.read(), arrays_->first.read(), arrays_->second.read(),
            gpu_->read(after.data<const training::Summary>()).checksum};
  }
  std::uint64_t checksum_of_parameters() {
    std::uint64_t sum = 0, i = 0;
    for (const Bf16 value : arrays_->parameters.bits())
      sum += training::checksum_term(std::bit_cast<std::uint16_t>(value), i++);
    return sum;
  }

  struct Arrays {
    explicit Arrays(const Gpu& gpu)
        : gradient(gpu, count, 1), parameters(gpu, 1, count), first(gpu, 1, count), second(gpu, 1, count) {}
    F gradient;
    M parameters, first, second;
  };
  std::unique_ptr<Arrays> arrays_;
};

/// Returns the fraction of values that differ. The host rounds values that it has computed in f64, so that one in some
/// ten thousand is on the other side of its random number, and is then the other neighbour.
double different(const std::vector<double>& got, const std::vector<double>& want) {
  double all = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    all += got[i] == want[i] ? 0 : 1;
    EXPECT_NEAR(got[i], want[i], 0x1p-7 * std::abs(want[i])) << i;
  }
  return all / static_cast<double>(got.size());
}

TEST_F(Bf16Updates, AreThoseOfTheHostUpToTheRoundingOfF32) {
  const auto want = on_host();
  const auto got = on_gpu(norm());
  EXPECT_LT(different(got.parameters, want.parameters), 1e-3);
  EXPECT_LT(different(got.first, want.first), 1e-3);
  EXPECT_LT(different(got.second, want.second), 1e-3);
  EXPECT_EQ(got.checksum, checksum_of_parameters());
}

TEST_F(Bf16Updates, GiveTheSameBitsInOneSegmentAndInSeveral) {
  const auto before = std::tuple(arrays_->parameters.read(), arrays_->first.read(), arrays_->second.read());
  const auto whole = on_gpu(norm());
  arrays_->parameters.write(std::get<0>(before)), arrays_->first.write(std::get<1>(before)),
      arrays_->second.write(std::get<2>(before));
  EXPECT_EQ(on_gpu(norm(), {64, 4096, 4100}), whole);
}

TEST_F(Bf16Updates, ChangeNothingIfTheGradientIsNotFinite) {
  const auto before = std::tuple(arrays_->parameters.read(), arrays_->first.read(), arrays_->second.read());
  for (const auto& bad : {training::Summary{1, 1, 0}, training::Summary{nan, 0, 0}}) {
    const auto got = on_gpu(bad);
    EXPECT_EQ(std::tuple(got.parameters, got.first, got.second), before);
    EXPECT_EQ(got.checksum, checksum_of_parameters());
  }
}

TEST_F(CudaTraining, GradientsAreRoundedForTheirWayAndWidenedAgain) {
  auto values = f32(10004), again = f32(10004);
  auto half = bf16(1, 10008);
  values.normal(1);
  const auto before = values.read();
  round_to_bf16(stream(), values.data(), half.data(), 10004);
  widen_to_f32(stream(), half.data(), again.data(), 10004);
  const auto got = again.read();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], rounded(before[i])) << i;
}

TEST_F(CudaTraining, GradientsOfSeveralRanksAreAddedInTheOrderOfRanks) {
  constexpr std::size_t count = 10004, stride = 10240;
  for (const int rank : {0, 1, 3}) {
    for (const bool add : {false, true}) {
      auto mine = f32(count), others = f32(3 * stride), to = f32(count);
      mine.normal(1), others.normal(2), to.normal(3);
      const auto own = mine.read(), theirs = others.read(), there = to.read();
      const Buffer partials(3 * summarizing_blocks * sizeof(training::Summary));
      auto* const parts = partials.data<training::Summary>();
      const auto told = upload(std::vector<training::Summary>(3));
      auto* const summaries = told.data<training::Summary>();
      sum_f32(stream(), mine.data(), {others.data(), stride, 4, rank}, to.data(), count, add,
              {8, parts, parts + summarizing_blocks, parts + 2 * summarizing_blocks});
      for (const int i : {0, 1, 2})
        add_partials(stream(), parts + i * summarizing_blocks, summarizing_blocks, summaries + i);
      const auto got = to.read();
      const auto before = gpu_->read(summaries), after = gpu_->read(summaries + 1);
      EXPECT_EQ(before.checksum, summary_of(own, 8).checksum);
      EXPECT_NEAR(before.projection, summary_of(own, 8).projection, 1e-9 * count);
      EXPECT_EQ(after.checksum, summary_of(got, 8).checksum);
      EXPECT_NEAR(after.squared_norm, summary_of(got, 8).squared_norm, 1e-9 * count);
      EXPECT_NEAR(after.projection, summary_of(got, 8).projection, 1e-9 * count);
      std::uint64_t came = 0;
      for (std::size_t other = 0; other < 3; ++other) {
        const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(other * stride);
        came += summary_of({begin, begin + static_cast<std::ptrdiff_t>(count)}, 8).checksum;
      }
      EXPECT_EQ(gpu_->read(summaries + 2).checksum, came);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int r = 0, other = 0; r < 4; ++r) {
          sum += static_cast<float>(r == rank ? own[i] : theirs[static_cast<std::size_t>(other++) * stride + i]);
        }
        if (add) sum += static_cast<float>(there[i]);
        ASSERT_EQ(got[i], static_cast<double>(sum)) << i << " of rank " << rank;
      }
    }
  }
}

TEST_F(CudaTraining, RandomWeightsAreThoseOfTheReference) {
  auto a = bf16(7, 1001, 31);
  auto b = f32(5000);
  fill_normal(stream(), a.matrix(), 0.02, 77);
  fill_normal(stream(), Matrix<float>{b.data(), 1, 5000, 5000}, 0.02, 300);
  auto part = f32(1000);
  fill_normal(stream(), Matrix<float>{part.data(), 1, 1000, 1000}, 0.02, 300, 4000);
  EXPECT_EQ(part.read(), [all = b.read()] { return std::vector<double>(all.begin() + 4000, all.end()); }());
  // Columns 200 to 299 of rows with 1000 columns.
  fill_normal(stream(), Matrix<float>{part.data(), 1, 300, 300}, 0.02, 300, 100, {200, 100, 1000});
  const auto all = b.read(), some = part.read();
  for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(some[i], all[(i + 100) / 100 * 1000 + 200 + i % 100]) << i;
  std::vector<double> want_a(7007), want_b(5000);
  for (std::size_t i = 0; i < 7007; ++i) want_a[i] = 0.02 * reference::normal((77ULL << 32) + i, 0);
  for (std::size_t i = 0; i < 5000; ++i) want_b[i] = 0.02 * reference::normal((300ULL << 32) + i, 0);
  EXPECT_TRUE(close(a.read(), want_a, rounding));
  EXPECT_TRUE(close(b.read(), want_b, 1e-7));
}

}  // namespace
}  // namespace shakedown::cuda
