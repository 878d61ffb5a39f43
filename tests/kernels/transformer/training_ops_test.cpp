// Each operation of the training step on the host in double: its backward pass against finite differences of its
// forward pass. Strides leave padding between the rows, which must not change.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/reference.hpp"
#include "kernels/transformer/host/training_ops.hpp"

namespace shakedown::training_ops_test {
namespace {

using host::HostOps;
using training::AttentionShape;
using training::Gemm;
using training::Matrix;
using training::Rotation;

/// A random matrix whose rows are followed by padding of NaN.
class Array {
 public:
  Array(std::size_t rows, std::size_t cols, std::uint64_t stream, double scale = 1, std::size_t room = 3)
      : rows_(rows), cols_(cols), values_(rows * (cols + room), std::numeric_limits<double>::quiet_NaN()) {
    for (std::size_t i = 0; i < size(); ++i) at(i) = scale * reference::normal(i, stream);
  }

  operator Matrix<double>() { return {values_.data(), rows_, cols_, values_.size() / rows_}; }
  operator Matrix<const double>() const { return {values_.data(), rows_, cols_, values_.size() / rows_}; }
  double* data() { return values_.data(); }
  std::size_t size() const { return rows_ * cols_; }
  double& at(std::size_t i) { return values_[i / cols_ * (values_.size() / rows_) + i % cols_]; }
  double at(std::size_t i) const { return values_[i / cols_ * (values_.size() / rows_) + i % cols_]; }

  bool room_is_untouched() const {
    const auto stride = values_.size() / rows_;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (i % stride >= cols_ && !std::isnan(values_[i])) return false;
    }
    return true;
  }

 private:
  std::size_t rows_, cols_;
  std::vector<double> values_;
};

double inner(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

double norm(const Array& a) { return std::sqrt(inner(a, a)); }

/// Checks `gradient` of the scalar function f at x along random directions, with a five-point stencil, to a relative
/// 1e-7.
void expect_gradient(const std::function<double(const Array&)>& f, const Array& x, const Array& gradient) {
  for (std::uint64_t stream = 50; stream < 53; ++stream) {
    const auto at = [&](double distance) {
      auto moved = x;
      for (std::size_t i = 0; i < x.size(); ++i) moved.at(i) += distance * reference::normal(i, stream);
      return f(moved);
    };
    constexpr double h = 1e-4;
    const double slope = (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h);
    double expected = 0;
    for (std::size_t i = 0; i < x.size(); ++i) expected += gradient.at(i) * reference::normal(i, stream);
    EXPECT_NEAR(slope, expected, 1e-7 * norm(gradient)) << "direction " << stream;
  }
  EXPECT_GT(norm(gradient), 0);
}

class HostTrainingOps : public testing::Test {
 protected:
  host::Team team_{2};
  HostOps<double> ops_{team_};
};

TEST_F(HostTrainingOps, MultiplyEveryWay) {
  constexpr std::size_t m = 5, n = 7, k = 9;
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const double beta : {0.0, 0.5}) {
        const Array a(a_transposed ? k : m, a_transposed ? m : k, 1), b(b_transposed ? n : k, b_transposed ? k : n, 2),
            c(m, n, 3), bias(1, n, 4);
        Array d(m, n, 5);
        Matrix<const double> addend = c, bias_row = bias;
        ops_.gemm(Gemm<double, double>{d, a, a_transposed, b, b_transposed, 3, beta, addend.data, bias_row.data});
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::size_t l = 0; l < k; ++l) {
              sum += a.at(a_transposed ? l * m + i : i * k + l) * b.at(b_transposed ? j * k + l : l * n + j);
            }
            EXPECT_NEAR(d.at(i * n + j), 3 * sum + beta * c.at(i * n + j) + bias.at(j), 1e-13);
          }
        }
        EXPECT_TRUE(d.room_is_untouched());
      }
    }
  }
}

TEST_F(HostTrainingOps, MultiplyWithoutReadingWhatBetaZeroLeavesOut) {
  const Array a(3, 4, 1), b(4, 2, 2);
  Array d(3, 2, 3, std::numeric_limits<double>::quiet_NaN());
  ops_.gemm(Gemm<double, double>{.d = d, .a = a, .b = b});
  EXPECT_TRUE(std::isfinite(inner(d, d)));
}

class HostNorms : public HostTrainingOps, public testing::WithParamInterface<bool> {};

TEST_P(HostNorms, NormalizeAndDifferentiateThat) {
  const bool layer = GetParam();
  const Array x(4, 9, 1), outer(4, 9, 3), before(4, 9, 4), gain_before(1, 9, 9, 1, 0), shift_before(1, 9, 10, 1, 0);
  Array gain(1, 9, 2), shift(1, 9, 11);
  std::vector<double> mean(4, NAN), rstd(4, NAN);
  const auto statistics = [&](std::vector<double>& m, std::vector<double>& r) {
    return training::NormStatistics<double>{layer ? m.data() : nullptr, r.data()};
  };
  const auto value = [&](const Array& at, Array g, Array s) {
    Array n(4, 9, 5);
    std::vector<double> m(4), r(4);
    ops_.norm(at, {g.data(), layer ? s.data() : nullptr}, 1e-2, n, statistics(m, r));
    EXPECT_TRUE(n.room_is_untouched());
    return inner(n, outer);
  };
  const training::NormWeights<double> weights{gain.data(), layer ? shift.data() : nullptr};
  Array dx(4, 9, 6), again(4, 9, 7), n(4, 9, 8);
  ops_.norm(x, weights, 1e-2, n, statistics(mean, rstd));
  ops_.norm_backward(outer, x, weights, statistics(mean, rstd), false, dx, again);
  for (std::size_t i = 0; i < n.size(); ++i) EXPECT_EQ(again.at(i), n.at(i));
  EXPECT_TRUE(dx.room_is_untouched() && again.room_is_untouched());
  expect_gradient([&](const Array& at) { return value(at, gain, shift); }, x, dx);

  auto sum = before;
  ops_.norm_backward(outer, x, weights, statistics(mean, rstd), true, sum, {});
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum.at(i), before.at(i) + dx.at(i), 1e-14);
  auto in_place = outer;
  ops_.norm_backward(in_place, x, weights, statistics(mean, rstd), false, in_place, {});
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(in_place.at(i), dx.at(i));

  // Also with the gradients of its own weights; the gradient of x must then have the same bits.
  Array d_gain(1, 9, 12, NAN), d_shift(1, 9, 13, NAN), trained(4, 9, 6);
  ops_.norm_backward(outer, x, weights, statistics(mean, rstd), false, trained, {},
                     {d_gain.data(), layer ? d_shift.data() : nullptr, false});
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_EQ(trained.at(i), dx.at(i));
  expect_gradient([&](const Array& at) { return value(x, at, shift); }, gain, d_gain);
  if (layer) expect_gradient([&](const Array& at) { return value(x, gain, at); }, shift, d_shift);
  auto more = gain_before, more_shift = shift_before;
  ops_.norm_backward(outer, x, weights, statistics(mean, rstd), false, trained, {},
                     {more.data(), layer ? more_shift.data() : nullptr, true});
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(more.at(i), gain_before.at(i) + d_gain.at(i), 1e-14);
    EXPECT_NEAR(more_shift.at(i), shift_before.at(i) + (layer ? d_shift.at(i) : 0), 1e-14);
  }
}

TEST_P(HostNorms, LeaveRowsWithTheMeanAndTheSizeThatTheySay) {
  const bool layer = GetParam();
  Array x(2, 64, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x.at(i) = 3 + 2 * x.at(i);
  std::vector<double> ones(64, 1), zeros(64, 0), mean(2), rstd(2);
  Array n(2, 64, 2);
  ops_.norm(x, {ones.data(), layer ? zeros.data() : nullptr}, 0, n, {layer ? mean.data() : nullptr, rstd.data()});
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    sum += n.at(i);
    squares += n.at(i) * n.at(i);
  }
  EXPECT_NEAR(squares / 64, 1, 1e-12);
  if (layer) {
    EXPECT_NEAR(sum, 0, 1e-12);
  } else {
    EXPECT_GT(sum / 64, 0.5);
  }
}

INSTANTIATE_TEST_SUITE_P(RmsAndLayer, HostNorms, testing::Bool());

TEST_F(HostTrainingOps, SumRowsOntoWhatIsThereOrNot) {
  const Array dy(5, 3, 1), before(1, 3, 2, 1, 0);
  Array fresh(1, 3, 3, NAN, 0), more = before;
  ops_.sum_rows(dy, false, fresh.data());
  ops_.sum_rows(dy, true, more.data());
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0;
    for (std::size_t r = 0; r < 5; ++r) sum += dy.at(r * 3 + c);
    EXPECT_NEAR(fresh.at(c), sum, 1e-14);
    EXPECT_NEAR(more.at(c), before.at(c) + sum, 1e-14);
  }
}

constexpr AttentionShape small{.batch = 2, .seq = 5, .heads = 6, .kv_heads = 2, .head_dim = 4};
constexpr std::size_t rows = small.batch * small.seq, qkv_width = (small.heads + 2 * small.kv_heads) * small.head_dim,
                      o_width = small.heads * small.head_dim;

TEST_F(HostTrainingOps, RotateByThePositionAndBack) {
  std::vector<double> table(small.seq * small.head_dim);
  for (std::size_t p = 0; p < small.seq; ++p) {
    for (std::size_t i = 0; i < 2; ++i) {
      table[p * 4 + i] = std::cos(static_cast<double>(p) * (i == 0 ? 1 : 0.1));
      table[p * 4 + 2 + i] = std::sin(static_cast<double>(p) * (i == 0 ? 1 : 0.1));
    }
  }
  const Array x(rows, qkv_width, 1);
  auto turned = x;
  ops_.rope(turned, table.data(), small, Rotation::forward);
  EXPECT_TRUE(turned.room_is_untouched());
  // Row 7 is position 2 of the second sequence; head 1 has elements 4..7, where 4 and 6 are a pair.
  const auto at = 7 * qkv_width + 4;
  EXPECT_NEAR(turned.at(at), x.at(at) * std::cos(2) - x.at(at + 2) * std::sin(2), 1e-14);
  EXPECT_NEAR(turned.at(at + 2), x.at(at + 2) * std::cos(2) + x.at(at) * std::sin(2), 1e-14);
  const auto values = 7 * qkv_width + (small.heads + small.kv_heads) * 4;
  EXPECT_EQ(turned.at(values), x.at(values)) << "values have no position";
  ops_.rope(turned, table.data(), small, Rotation::backward);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(turned.at(i), x.at(i), 1e-14);
}

class HostAttention : public HostTrainingOps, public testing::WithParamInterface<bool> {};

TEST_P(HostAttention, AttendAndDifferentiateThat) {
  auto shape = small;
  shape.causal = GetParam();
  const Array qkv(rows, qkv_width, 1), outer(rows, o_width, 2);
  std::vector<double> lse(rows * small.heads);
  const auto f = [&](const Array& at) {
    Array o(rows, o_width, 3);
    ops_.attention(at, o, lse.data(), shape);
    EXPECT_TRUE(o.room_is_untouched());
    return inner(o, outer);
  };
  Array o(rows, o_width, 4), d_qkv(rows, qkv_width, 5);
  ops_.attention(qkv, o, lse.data(), shape);
  ops_.attention_backward(qkv, o, lse.data(), outer, d_qkv, shape);
  EXPECT_TRUE(d_qkv.room_is_untouched());
  expect_gradient(f, qkv, d_qkv);
}

INSTANTIATE_TEST_SUITE_P(CausalOrNot, HostAttention, testing::Bool());

TEST_F(HostTrainingOps, AttendToAllPositionsOfTheOwnSequenceWithoutAMask) {
  auto shape = small;
  shape.causal = false;
  auto qkv = Array(rows, qkv_width, 1);
  std::vector<double> lse(rows * small.heads);
  Array o(rows, o_width, 4), changed(rows, o_width, 5);
  ops_.attention(qkv, o, lse.data(), shape);
  qkv.at(4 * qkv_width + (small.heads + small.kv_heads) * 4) += 1;  // a value of the last position of sequence 0
  ops_.attention(qkv, changed, lse.data(), shape);
  for (std::size_t row = 0; row < rows; ++row) {
    EXPECT_EQ(changed.at(row * o_width) != o.at(row * o_width), row < small.seq) << row;
  }
}

TEST_F(HostTrainingOps, AttendToOneselfAloneAtTheFirstPosition) {
  const Array qkv(rows, qkv_width, 1);
  std::vector<double> lse(rows * small.heads);
  Array o(rows, o_width, 4);
  ops_.attention(qkv, o, lse.data(), small);
  // Query heads 3, 4 and 5 share the second value head.
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(o.at(3 * 4 + i), qkv.at((small.heads + small.kv_heads + 1) * 4 + i), 1e-15);
  }
}

TEST_F(HostTrainingOps, GateAndDifferentiateThat) {
  const Array gate_up(4, 12, 1, 2), outer(4, 6, 2);
  const auto f = [&](const Array& at) {
    Array h(4, 6, 3);
    ops_.swiglu(at, h);
    EXPECT_TRUE(h.room_is_untouched());
    return inner(h, outer);
  };
  auto d_gate_up = gate_up;
  auto dh = outer;
  ops_.swiglu_backward(d_gate_up, dh, true);
  EXPECT_TRUE(d_gate_up.room_is_untouched() && dh.room_is_untouched());
  expect_gradient(f, gate_up, d_gate_up);
  Array h(4, 6, 3);
  ops_.swiglu(gate_up, h);
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_EQ(dh.at(i), h.at(i)) << "h comes out in the place of its gradient";
  dh = outer;
  d_gate_up = gate_up;
  ops_.swiglu_backward(d_gate_up, dh, false);
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_EQ(dh.at(i), outer.at(i));
}

TEST_F(HostTrainingOps, BendByGeluAndDifferentiateThat) {
  const Array u(4, 6, 1, 2), outer(4, 6, 2);
  const auto f = [&](const Array& at) {
    Array h(4, 6, 3);
    ops_.gelu(at, h);
    EXPECT_TRUE(h.room_is_untouched());
    return inner(h, outer);
  };
  auto du = u, dh = outer;
  ops_.gelu_backward(du, dh, true);
  EXPECT_TRUE(du.room_is_untouched() && dh.room_is_untouched());
  expect_gradient(f, u, du);
  Array h(4, 6, 3);
  ops_.gelu(u, h);
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_EQ(dh.at(i), h.at(i)) << "h comes out in the place of its gradient";
  dh = outer;
  du = u;
  ops_.gelu_backward(du, dh, false);
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_EQ(dh.at(i), outer.at(i));
  Array one(1, 1, 4);
  one.at(0) = 1;
  ops_.gelu(one, one);
  EXPECT_NEAR(one.at(0), 0.841192, 1e-6);  // 0.841345 with the error function
}

TEST_F(HostTrainingOps, MeasureTheCrossEntropyAndDifferentiateThat) {
  const Array logits(4, 11, 1, 3);
  const std::vector<int> targets{0, 10, 3, 3};
  const auto f = [&](const Array& at) {
    auto scratch = at;
    std::vector<double> losses(4);
    ops_.cross_entropy(scratch, targets.data(), 1, losses.data());
    double sum = 0;
    ops_.add_sum(losses.data(), 4, 0.25, &sum);
    return sum;
  };
  auto d = logits;
  std::vector<double> losses(4);
  ops_.cross_entropy(d, targets.data(), 0.25, losses.data());
  EXPECT_TRUE(d.room_is_untouched());
  expect_gradient(f, logits, d);
  double by_hand = 0;
  for (std::size_t i = 0; i < 11; ++i) by_hand += std::exp(logits.at(i));
  EXPECT_NEAR(losses[0], std::log(by_hand) - logits.at(0), 1e-13);
}

TEST_F(HostTrainingOps, GiveARowWithoutATargetNoLossAndNoGradient) {
  auto d = Array(3, 11, 1, 3);
  std::vector<double> losses(3, 1);
  ops_.cross_entropy(d, std::vector{4, training::no_target, 7}.data(), 0.5, losses.data());
  EXPECT_EQ(losses[1], 0);
  for (std::size_t i = 0; i < 11; ++i) EXPECT_EQ(d.at(11 + i), 0);
  EXPECT_GT(losses[0] * losses[2], 0) << "the other rows have both";
  EXPECT_NE(d.at(0) * d.at(22), 0);
}

TEST_F(HostTrainingOps, LookUpTokens) {
  const Array table(6, 5, 1);
  Array out(3, 5, 2);
  const std::vector<int> tokens{4, 0, 4};
  ops_.embedding(table, tokens.data(), {}, 3, out);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(out.at(i), table.at(20 + i));
    EXPECT_EQ(out.at(5 + i), table.at(i));
  }
  EXPECT_TRUE(out.room_is_untouched());
  const Array positions(4, 5, 3);
  ops_.embedding(table, tokens.data(), positions, 2, out);  // row 2 starts another sequence
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(out.at(5 + i), table.at(i) + positions.at(5 + i));
    EXPECT_EQ(out.at(10 + i), table.at(20 + i) + positions.at(i));
  }
}

TEST_F(HostTrainingOps, GiveEachTokenTheGradientsOfItsRows) {
  const Array dx(4, 5, 1), before(6, 5, 2);
  auto d_table = before;
  const std::vector<int> tokens{4, 0, 4, 5}, order{1, 0, 2, 3};
  ops_.embedding_backward(dx, tokens.data(), order.data(), d_table);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(d_table.at(i), before.at(i) + dx.at(5 + i));
    EXPECT_EQ(d_table.at(5 + i), before.at(5 + i)) << "there is no token 1";
    EXPECT_NEAR(d_table.at(20 + i), before.at(20 + i) + dx.at(i) + dx.at(10 + i), 1e-15);
    EXPECT_EQ(d_table.at(25 + i), before.at(25 + i) + dx.at(15 + i));
  }
  EXPECT_TRUE(d_table.room_is_untouched());
}

TEST_F(HostTrainingOps, SummarizeAnArrayInPartsAsInOne) {
  std::vector<double> values(100);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = reference::normal(i, 1);
  training::Summary whole{}, parts{}, swapped{};
  ops_.summarize(values.data(), 0, 100, &whole);
  ops_.summarize(values.data() + 40, 40, 60, &parts);
  ops_.summarize(values.data(), 0, 40, &parts);
  EXPECT_EQ(parts.checksum, whole.checksum);
  EXPECT_NEAR(parts.squared_norm, whole.squared_norm, 1e-12);
  EXPECT_NEAR(parts.projection, whole.projection, 1e-12);
  std::swap(values[3], values[4]);
  ops_.summarize(values.data(), 0, 100, &swapped);
  EXPECT_NE(swapped.checksum, whole.checksum);
  values[7] = -std::numeric_limits<double>::infinity();
  ops_.summarize(values.data(), 0, 100, &whole);
  EXPECT_EQ(whole.non_finite, 1u);
}

TEST_F(HostTrainingOps, ProjectASumOnSignsAsTheSumOfItsTerms) {
  std::vector<double> a(1000), b(1000), sum(1000), without_half(1000), turned(1000);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    a[i] = reference::normal(i, 1), b[i] = reference::normal(i, 2);
    sum[i] = a[i] + b[i];
    without_half[i] = i < 500 ? sum[i] : a[i];
    turned[i] = i < 500 ? sum[i] : -sum[i];
  }
  const auto of = [&](const std::vector<double>& values) {
    training::Summary summary{};
    ops_.summarize(values.data(), 1 << 20, values.size(), &summary);
    return summary;
  };
  const double expected = of(a).projection + of(b).projection;
  EXPECT_NEAR(of(sum).projection, expected, 1e-10);
  EXPECT_GT(std::abs(of(without_half).projection - expected), 1);
  EXPECT_GT(std::abs(of(turned).projection - expected), 1);
  EXPECT_NEAR(of(turned).squared_norm, of(sum).squared_norm, 1e-10) << "which the norm does not show";
}

TEST_F(HostTrainingOps, UpdateAsTheFormulaSaysAndWriteTheCopies) {
  std::vector<double> p{1, -2}, g{3, 4}, m{0.1, 0.2}, v{0.01, 0.04}, copies(2, 0);
  const training::ParameterSlot<double> slot{0, {copies.data(), 2, 1, 1}, 2};
  ops_.place_copies({&slot, 1});
  const training::Summary summary{25, 0, 0};
  training::Summary updated{}, want{};
  ops_.adamw(training::FlatState<double>{p.data(), g.data(), m.data(), v.data(), 2},
             {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.5, .max_norm = 1, .step = 3},
             &summary, &updated, 0, 1);
  const double clipped = 3 / (5 + 1e-6), m1 = 0.9 * 0.1 + 0.1 * clipped, v1 = 0.99 * 0.01 + 0.01 * clipped * clipped;
  const double m_hat = m1 / (1 - std::pow(0.9, 3)), v_hat = v1 / (1 - std::pow(0.99, 3));
  EXPECT_NEAR(p[0], 1 - 0.1 * 0.5 * 1 - 0.1 * m_hat / (std::sqrt(v_hat) + 1e-3), 1e-15);
  EXPECT_NEAR(m[0], m1, 1e-16);
  EXPECT_NEAR(v[0], v1, 1e-16);
  EXPECT_EQ(copies[0], 2 * p[0]);
  EXPECT_EQ(copies[1], 2 * p[1]);
  ops_.summarize(p.data(), 0, 2, &want);
  EXPECT_EQ(updated.checksum, want.checksum);
  EXPECT_EQ(updated.squared_norm, want.squared_norm);
}

TEST_F(HostTrainingOps, LetOnlyThoseParametersDecayThatAreMeantTo) {
  std::vector<double> p{1, 1}, g{0, 0}, m{0, 0}, v{0, 0}, copies(2, 0);
  const training::ParameterSlot<double> slots[] = {{0, {copies.data(), 1, 1, 1}, 1, true},
                                                   {1, {copies.data() + 1, 1, 1, 1}, 1, false}};
  ops_.place_copies(slots);
  const training::Summary summary{};
  training::Summary updated{};
  ops_.adamw(training::FlatState<double>{p.data(), g.data(), m.data(), v.data(), 2}, {.lr = 0.1, .weight_decay = 0.5},
             &summary, &updated, 0, 2);
  EXPECT_EQ(p[0], 0.95);
  EXPECT_EQ(p[1], 1);
  EXPECT_EQ(copies, p);
}

TEST_F(HostTrainingOps, UpdateNothingWhenTheGradientIsNotFinite) {
  std::vector<double> p{1}, g{3}, m{0}, v{0}, copy{7};
  const training::ParameterSlot<double> slot{0, {copy.data(), 1, 1, 1}, 1};
  ops_.place_copies({&slot, 1});
  const training::Summary broken{9, 1, 0}, overflow{HUGE_VAL, 0, 0};
  for (const auto& summary : {broken, overflow}) {
    training::Summary updated{};
    ops_.adamw(training::FlatState<double>{p.data(), g.data(), m.data(), v.data(), 1}, {}, &summary, &updated, 0, 1);
    EXPECT_EQ(p[0], 1);
    EXPECT_EQ(m[0], 0);
    EXPECT_EQ(copy[0], 7);
    EXPECT_EQ(updated.squared_norm, 1);
  }
}

}  // namespace
}  // namespace shakedown::training_ops_test
