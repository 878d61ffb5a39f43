// The operations of transformer/ops.hpp on the layers of one rank, as plain loops.
#include "kernels/transformer/host/training_ops.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>

#include "kernels/reference.hpp"
#include "kernels/transformer/quantize.hpp"

namespace shakedown::host {

using namespace training;

namespace {

/// Minimum work for the team of threads. Waking it takes some microseconds, in which one core does about this amount of
/// work.
constexpr double min_team_work = 1e5;

double random_element(std::uint64_t tensor, std::uint64_t index, double stddev) {
  return stddev * reference::normal((tensor << 32) + index, 0);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// tanh(sqrt(2 / pi) (u + 0.044715 u^3))
double gelu_tanh(double u) { return std::tanh(std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u * u * u)); }

template <class T>
T normed(T x, T mean, T rstd, const training::NormWeights<T>& weights, std::size_t c) {
  const T n = (x - mean) * rstd * weights.gain[c];
  return weights.shift == nullptr ? n : n + weights.shift[c];
}

/// Returns the row of a head in packed rows of heads.
template <class T>
T* head_row(const training::Matrix<T>& m, std::size_t row, std::size_t head, std::size_t head_dim) {
  return m.data + row * m.stride + head * head_dim;
}

template <class T>
double dot(const T* a, const T* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

template <class T>
void HostOps<T>::each(std::size_t count, double work_of_one, const std::function<void(std::size_t)>& task) {
  const auto range = [&task](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) task(i);
  };
  if (static_cast<double>(count) * work_of_one < min_team_work) return range(0, count);
  team_.each_range(count, range);
}

/// Returns the resident memory of this process.
template <class T>
std::size_t HostOps<T>::used_bytes() const {
  std::size_t total = 0, resident = 0;  // the numbers are in pages
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

template <class T>
void HostOps<T>::fill_normal(Matrix<T> m, double stddev, std::uint64_t tensor) {
  each(m.rows, 100 * static_cast<double>(m.cols), [&](std::size_t r) {
    for (std::size_t c = 0; c < m.cols; ++c) {
      m.data[r * m.stride + c] = static_cast<T>(random_element(tensor, r * m.cols + c, stddev));
    }
  });
}

template <class T>
void HostOps<T>::fill_normal(T* values, std::size_t count, double stddev, std::uint64_t tensor, std::size_t first,
                             const Numbers& numbers) {
  each(count, 100,
       [&](std::size_t i) { values[i] = static_cast<T>(random_element(tensor, numbers(first + i), stddev)); });
}

template <class T>
void HostOps<T>::gemm(const Gemm<T, T>& g) {
  const auto& d = g.d;
  const auto inner = g.a_transposed ? g.a.rows : g.a.cols;
  const T* const c = g.c != nullptr ? g.c : d.data;
  each(d.rows, 2 * static_cast<double>(d.cols * inner), [&](std::size_t i) {
    thread_local std::vector<double> sums;
    sums.assign(d.cols, 0);
    if (g.b_transposed) {
      thread_local std::vector<T> row;
      row.resize(inner);
      for (std::size_t l = 0; l < inner; ++l)
        row[l] = g.a.data[g.a_transposed ? l * g.a.stride + i : i * g.a.stride + l];
      for (std::size_t j = 0; j < d.cols; ++j) sums[j] = dot(row.data(), g.b.data + j * g.b.stride, inner);
    } else {
      for (std::size_t l = 0; l < inner; ++l) {
        const auto a = static_cast<double>(g.a.data[g.a_transposed ? l * g.a.stride + i : i * g.a.stride + l]);
        const T* const b = g.b.data + l * g.b.stride;
        for (std::size_t j = 0; j < d.cols; ++j) sums[j] += a * static_cast<double>(b[j]);
      }
    }
    for (std::size_t j = 0; j < d.cols; ++j) {
      double value = g.alpha * sums[j];
      if (g.beta != 0) value += g.beta * static_cast<double>(c[i * d.stride + j]);
      if (g.bias != nullptr) value += static_cast<double>(g.bias[j]);
      if (g.gelu) value = 0.5 * value * (1 + gelu_tanh(value));
      d.data[i * d.stride + j] = static_cast<T>(value);
    }
  });
}

template <class T>
void HostOps<T>::gemm(const training::QuantizedGemm<T>& g) {
  const auto &a = g.a.values, &b = g.b.values;
  const auto values = [](const training::QuantizedRows& rows, std::size_t r) {
    std::vector<double> row(rows.values.cols);
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c] = static_cast<double>(from_float8(rows.values.data[r * rows.values.stride + c], rows.type));
    }
    return row;
  };
  std::vector<std::vector<double>> right(b.rows);
  each(b.rows, 20 * static_cast<double>(b.cols), [&](std::size_t j) { right[j] = values(g.b, j); });
  each(g.d.rows, 2 * static_cast<double>(g.d.cols * a.cols), [&](std::size_t i) {
    const auto left = values(g.a, i);
    for (std::size_t j = 0; j < g.d.cols; ++j) {
      double sum = dot(left.data(), right[j].data(), a.cols);
      sum *= static_cast<double>(g.a.scales[i]) * static_cast<double>(g.b.scales[j]);
      const auto place = i * g.d.stride + j;
      if (g.c != nullptr) sum += static_cast<double>(g.c[place]);
      if (g.bias != nullptr) sum += static_cast<double>(g.bias[j]);
      g.d.data[place] = static_cast<T>(sum);
    }
  });
}

template <class T>
void HostOps<T>::quantize(Matrix<const T> x, const training::QuantizedRows& to) {
  training::quantize_rows(x, to.type, to.values, to.scales);
}
template <class T>
void HostOps<T>::quantize_transposed(Matrix<const T> x, const training::QuantizedRows& to) {
  training::quantize_transposed(x, to.type, to.values, to.scales);
}
template <class T>
void HostOps<T>::requantize_transposed(Matrix<const T> x, std::size_t first, const training::QuantizedRows& to) {
  training::requantize_transposed(x, first, to.type, to.values, to.scales);
}
template <class T>
void HostOps<T>::requantize(Matrix<const T> x, std::size_t first, const training::QuantizedRows& to) {
  training::requantize_rows(x, first, to.type, to.values, to.scales);
}

template <class T>
void HostOps<T>::copy(Matrix<const T> from, Matrix<T> to) {
  for (std::size_t r = 0; r < to.rows; ++r) std::copy_n(from.data + r * from.stride, to.cols, to.data + r * to.stride);
}

template <class T>
void HostOps<T>::embedding(Matrix<const T> table, const int* tokens, Matrix<const T> positions, std::size_t seq,
                           Matrix<T> out) {
  for (std::size_t r = 0; r < out.rows; ++r) {
    T* const to = out.data + r * out.stride;
    std::fill_n(to, out.cols, T{0});
    if (tokens[r] < 0) continue;
    std::copy_n(table.data + static_cast<std::size_t>(tokens[r]) * table.stride, out.cols, to);
    const T* const position = positions ? positions.data + r % seq * positions.stride : nullptr;
    for (std::size_t c = 0; positions && c < out.cols; ++c) to[c] += position[c];
  }
}

template <class T>
void HostOps<T>::embedding_backward(Matrix<const T> dx, const int* tokens, const int* order, Matrix<T> d_table) {
  // Each task processes some columns of all rows, so no two tasks write to the same place.
  each(dx.cols, 4 * static_cast<double>(dx.rows), [&](std::size_t c) {
    for (std::size_t i = 0; i < dx.rows;) {
      const int token = tokens[order[i]];
      double sum = 0;
      for (; i < dx.rows && tokens[order[i]] == token; ++i) {
        sum += static_cast<double>(dx.data[static_cast<std::size_t>(order[i]) * dx.stride + c]);
      }
      if (token < 0) continue;
      T& to = d_table.data[static_cast<std::size_t>(token) * d_table.stride + c];
      to = static_cast<T>(static_cast<double>(to) + sum);
    }
  });
}

template <class T>
void HostOps<T>::norm(Matrix<const T> x, const training::NormWeights<T>& weights, double eps, Matrix<T> n,
                      const training::NormStatistics<T>& statistics) {
  const auto count = static_cast<double>(x.cols);
  each(x.rows, 6 * count, [&](std::size_t r) {
    const T* const row = x.data + r * x.stride;
    T mean = 0;
    double squares = 0;
    if (statistics.mean != nullptr) {
      double sum = 0;
      for (std::size_t c = 0; c < x.cols; ++c) sum += static_cast<double>(row[c]);
      mean = statistics.mean[r] = static_cast<T>(sum / count);
      for (std::size_t c = 0; c < x.cols; ++c) squares += std::pow(static_cast<double>(row[c]) - sum / count, 2);
    } else {
      squares = dot(row, row, x.cols);
    }
    const T rstd = statistics.rstd[r] = static_cast<T>(1 / std::sqrt(squares / count + eps));
    for (std::size_t c = 0; c < x.cols; ++c) n.data[r * n.stride + c] = normed(row[c], mean, rstd, weights, c);
  });
}

template <class T>
template <class Value>
void HostOps<T>::sum_columns(std::size_t rows, std::size_t cols, bool accumulate, T* sums, const Value& value) {
  each(cols, 2 * static_cast<double>(rows), [&](std::size_t c) {
    double sum = accumulate ? static_cast<double>(sums[c]) : 0;
    for (std::size_t r = 0; r < rows; ++r) sum += value(r, c);
    sums[c] = static_cast<T>(sum);
  });
}

template <class T>
void HostOps<T>::norm_backward(Matrix<const T> dn, Matrix<const T> x, const training::NormWeights<T>& weights,
                               const training::NormStatistics<T>& statistics, bool accumulate, Matrix<T> dx,
                               Matrix<T> n, const training::NormGradient<T>& gradient) {
  if (gradient.gain != nullptr) {
    sum_columns(dn.rows, dn.cols, gradient.accumulate, gradient.gain, [&](std::size_t r, std::size_t c) {
      const double mean = statistics.mean == nullptr ? 0 : static_cast<double>(statistics.mean[r]);
      return static_cast<double>(dn.data[r * dn.stride + c]) * (static_cast<double>(x.data[r * x.stride + c]) - mean) *
             static_cast<double>(statistics.rstd[r]);
    });
  }
  if (gradient.shift != nullptr) sum_rows(dn, gradient.accumulate, gradient.shift);
  const auto count = static_cast<double>(x.cols);
  each(x.rows, 10 * count, [&](std::size_t r) {
    const T *const row = x.data + r * x.stride, *const d = dn.data + r * dn.stride;
    const bool centred = statistics.mean != nullptr;
    const T center = centred ? statistics.mean[r] : T{0}, rstd = statistics.rstd[r];
    const auto scale = static_cast<double>(rstd), middle = static_cast<double>(center);
    double mean_g = 0, mean_gx = 0;  // means of g and of g (x - mean)
    for (std::size_t c = 0; c < x.cols; ++c) {
      const double g = static_cast<double>(d[c]) * static_cast<double>(weights.gain[c]);
      mean_g += g;
      mean_gx += g * (static_cast<double>(row[c]) - middle);
    }
    mean_g = centred ? mean_g / count : 0;
    mean_gx /= count;
    for (std::size_t c = 0; c < x.cols; ++c) {
      const double g = static_cast<double>(d[c]) * static_cast<double>(weights.gain[c]);
      T& out = dx.data[r * dx.stride + c];
      const double before = accumulate ? static_cast<double>(out) : 0;
      const double along_x = (static_cast<double>(row[c]) - middle) * scale * scale * mean_gx;
      out = static_cast<T>(before + scale * (g - mean_g - along_x));
    }
    for (std::size_t c = 0; n && c < x.cols; ++c) n.data[r * n.stride + c] = normed(row[c], center, rstd, weights, c);
  });
}

template <class T>
void HostOps<T>::sum_rows(Matrix<const T> dy, bool accumulate, T* sums) {
  sum_columns(dy.rows, dy.cols, accumulate, sums,
              [&](std::size_t r, std::size_t c) { return static_cast<double>(dy.data[r * dy.stride + c]); });
}

template <class T>
void HostOps<T>::rope(Matrix<T> qkv, const T* table, const AttentionShape& s, Rotation rotation) {
  const auto half = s.head_dim / 2;
  const double sign = rotation == Rotation::forward ? 1 : -1;
  each(qkv.rows, 6 * static_cast<double>(qkv.cols), [&](std::size_t t) {
    const T* const angles = table + t % s.seq * s.head_dim;
    for (std::size_t head = 0; head < s.heads + s.kv_heads; ++head) {
      T* const x = head_row(qkv, t, head, s.head_dim);
      for (std::size_t i = 0; i < half; ++i) {
        const auto cosine = static_cast<double>(angles[i]), sine = sign * static_cast<double>(angles[half + i]);
        const auto a = static_cast<double>(x[i]), b = static_cast<double>(x[half + i]);
        x[i] = static_cast<T>(a * cosine - b * sine);
        x[half + i] = static_cast<T>(b * cosine + a * sine);
      }
    }
  });
}

template <class T>
void HostOps<T>::attention(Matrix<const T> qkv, Matrix<T> o, T* lse, const AttentionShape& s) {
  const auto d = s.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  each(s.batch * s.heads, 2 * static_cast<double>(s.seq * s.seq * d), [&](std::size_t task) {
    const auto first = task / s.heads * s.seq, head = task % s.heads;
    const auto kv = head * s.kv_heads / s.heads;
    std::vector<double> weights(s.seq), out(d);
    for (std::size_t t = 0; t < s.seq; ++t) {
      const T* const q = head_row(qkv, first + t, head, d);
      double largest = -HUGE_VAL, sum = 0;
      const std::size_t visible = s.causal ? t + 1 : s.seq;
      for (std::size_t u = 0; u < visible; ++u) {
        weights[u] = scale * dot(q, head_row(qkv, first + u, s.heads + kv, d), d);
        largest = std::max(largest, weights[u]);
      }
      for (std::size_t u = 0; u < visible; ++u) sum += weights[u] = std::exp(weights[u] - largest);
      out.assign(d, 0);
      for (std::size_t u = 0; u < visible; ++u) {
        const T* const v = head_row(qkv, first + u, s.heads + s.kv_heads + kv, d);
        for (std::size_t i = 0; i < d; ++i) out[i] += weights[u] * static_cast<double>(v[i]);
      }
      for (std::size_t i = 0; i < d; ++i) head_row(o, first + t, head, d)[i] = static_cast<T>(out[i] / sum);
      lse[task * s.seq + t] = static_cast<T>(largest + std::log(sum));
    }
  });
}

template <class T>
void HostOps<T>::attention_backward(Matrix<const T> qkv, Matrix<const T> o, const T* lse, Matrix<const T> d_o,
                                    Matrix<T> d_qkv, const AttentionShape& s) {
  const auto d = s.head_dim, group = s.heads / s.kv_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  // Each task processes a key head and the query heads that share it, so no two tasks write to the same place.
  each(s.batch * s.kv_heads, 5 * static_cast<double>(group * s.seq * s.seq * d), [&](std::size_t task) {
    const auto b = task / s.kv_heads, kv = task % s.kv_heads, first = b * s.seq;
    std::vector<double> dk(s.seq * d, 0), dv(s.seq * d, 0), dq(d);
    for (std::size_t head = kv * group; head < (kv + 1) * group; ++head) {
      for (std::size_t t = 0; t < s.seq; ++t) {
        const T *const q = head_row(qkv, first + t, head, d), *const g = head_row(d_o, first + t, head, d);
        const double delta = dot(g, head_row(o, first + t, head, d), d);
        const auto log_sum = static_cast<double>(lse[(b * s.heads + head) * s.seq + t]);
        dq.assign(d, 0);
        for (std::size_t u = 0; u < (s.causal ? t + 1 : s.seq); ++u) {
          const T *const k = head_row(qkv, first + u, s.heads + kv, d), *const v =
                                                                            head_row(qkv, first + u,
                                                                                     s.heads + s.kv_heads + kv, d);
          const double p = std::exp(scale * dot(q, k, d) - log_sum);
          const double ds = scale * p * (dot(g, v, d) - delta);
          for (std::size_t i = 0; i < d; ++i) {
            dq[i] += ds * static_cast<double>(k[i]);
            dk[u * d + i] += ds * static_cast<double>(q[i]);
            dv[u * d + i] += p * static_cast<double>(g[i]);
          }
        }
        for (std::size_t i = 0; i < d; ++i) head_row(d_qkv, first + t, head, d)[i] = static_cast<T>(dq[i]);
      }
    }
    for (std::size_t u = 0; u < s.seq; ++u) {
      for (std::size_t i = 0; i < d; ++i) {
        head_row(d_qkv, first + u, s.heads + kv, d)[i] = static_cast<T>(dk[u * d + i]);
        head_row(d_qkv, first + u, s.heads + s.kv_heads + kv, d)[i] = static_cast<T>(dv[u * d + i]);
      }
    }
  });
}

template <class T>
void HostOps<T>::swiglu(Matrix<const T> gate_up, Matrix<T> h) {
  each(h.rows, 30 * static_cast<double>(h.cols), [&](std::size_t r) {
    const T* const gate = gate_up.data + r * gate_up.stride;
    for (std::size_t c = 0; c < h.cols; ++c) {
      const auto g = static_cast<double>(gate[c]), u = static_cast<double>(gate[h.cols + c]);
      h.data[r * h.stride + c] = static_cast<T>(g * sigmoid(g) * u);
    }
  });
}

template <class T>
void HostOps<T>::swiglu_backward(Matrix<T> gate_up, Matrix<T> dh, bool emit_h) {
  each(dh.rows, 40 * static_cast<double>(dh.cols), [&](std::size_t r) {
    T *const gate = gate_up.data + r * gate_up.stride, *const up = gate + dh.cols, *const d = dh.data + r * dh.stride;
    for (std::size_t c = 0; c < dh.cols; ++c) {
      const auto g = static_cast<double>(gate[c]), u = static_cast<double>(up[c]), out = static_cast<double>(d[c]);
      const double s = sigmoid(g);
      gate[c] = static_cast<T>(out * u * s * (1 + g * (1 - s)));
      up[c] = static_cast<T>(out * g * s);
      if (emit_h) d[c] = static_cast<T>(g * s * u);
    }
  });
}

template <class T>
void HostOps<T>::gelu(Matrix<const T> u, Matrix<T> h) {
  each(h.rows, 40 * static_cast<double>(h.cols), [&](std::size_t r) {
    for (std::size_t c = 0; c < h.cols; ++c) {
      const auto x = static_cast<double>(u.data[r * u.stride + c]);
      h.data[r * h.stride + c] = static_cast<T>(0.5 * x * (1 + gelu_tanh(x)));
    }
  });
}

template <class T>
void HostOps<T>::gelu_backward(Matrix<T> u, Matrix<T> dh, bool emit_h) {
  each(dh.rows, 50 * static_cast<double>(dh.cols), [&](std::size_t r) {
    for (std::size_t c = 0; c < dh.cols; ++c) {
      T &at = u.data[r * u.stride + c], &gradient = dh.data[r * dh.stride + c];
      const auto x = static_cast<double>(at), out = static_cast<double>(gradient), t = gelu_tanh(x);
      const double slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
      at = static_cast<T>(out * 0.5 * (1 + t + x * (1 - t * t) * slope));
      if (emit_h) gradient = static_cast<T>(0.5 * x * (1 + t));
    }
  });
}

template <class T>
void HostOps<T>::cross_entropy(Matrix<T> logits, const int* targets, double scale, T* losses) {
  /// Summary of a row's logits: the maximum, the sum of exp(logit - maximum), and the target's logit, or 0.
  struct Part {
    double largest, sum, target;
  };
  const auto rows = logits.rows, ranks = together_ == nullptr ? 1 : static_cast<std::size_t>(together_->size());
  const double work = 20 * static_cast<double>(logits.cols);
  std::vector<Part> mine(rows), all(ranks * rows);
  each(rows, work, [&](std::size_t r) {
    const T* const row = logits.data + r * logits.stride;
    const auto largest = static_cast<double>(*std::max_element(row, row + logits.cols));
    double sum = 0;
    for (std::size_t c = 0; c < logits.cols; ++c) sum += std::exp(static_cast<double>(row[c]) - largest);
    mine[r] = {largest, sum, targets[r] < 0 ? 0 : static_cast<double>(row[targets[r]])};
  });
  if (ranks == 1) {
    all = mine;
  } else {
    together_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  }
  each(rows, work, [&](std::size_t r) {
    double largest = all[r].largest, sum = 0, target = 0;
    for (auto i = r; i < all.size(); i += rows) largest = std::max(largest, all[i].largest);
    for (auto i = r; i < all.size(); i += rows) {
      sum += all[i].sum * std::exp(all[i].largest - largest);
      target += all[i].target;
    }
    const bool counts = targets[r] != no_target;
    losses[r] = counts ? static_cast<T>(largest + std::log(sum) - target) : T{0};
    T* const row = logits.data + r * logits.stride;
    for (std::size_t c = 0; c < logits.cols; ++c) {
      const double p = std::exp(static_cast<double>(row[c]) - largest) / sum;
      row[c] = static_cast<T>((counts ? scale : 0) * (p - (static_cast<int>(c) == targets[r] ? 1 : 0)));
    }
  });
}

template <class T>
double HostOps<T>::milliseconds(Mark begin, Mark end) const {
  const auto at = [this](Mark m) { return marks_[static_cast<std::size_t>(m)]; };
  return std::chrono::duration<double, std::milli>(at(end) - at(begin)).count();
}

template class HostOps<float>;
template class HostOps<double>;
static_assert(TrainingOps<HostOps<float>> && TrainingOps<HostOps<double>>);

}  // namespace shakedown::host
