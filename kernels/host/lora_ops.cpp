#include "kernels/host/lora_ops.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <type_traits>

#include "kernels/reference.hpp"

namespace shakedown::host {

using namespace training;

namespace {

/// Waking the team costs some microseconds; a core does about this much in the meantime.
constexpr double worth_a_team = 1e5;

double random_element(std::uint64_t tensor, std::uint64_t index, double stddev) {
  return stddev * reference::normal((tensor << 32) + index, 0);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Row of a head in packed rows of heads.
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
void LoraOps<T>::each(std::size_t count, double work_of_one, const std::function<void(std::size_t)>& task) {
  const auto range = [&task](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) task(i);
  };
  if (static_cast<double>(count) * work_of_one < worth_a_team) return range(0, count);
  team_.each_range(count, range);
}

/// Resident memory of this process.
template <class T>
std::size_t LoraOps<T>::used_bytes() const {
  std::size_t total = 0, resident = 0;  // in pages
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

template <class T>
void LoraOps<T>::fill_normal(Matrix<T> m, double stddev, std::uint64_t tensor) {
  each(m.rows, 100 * static_cast<double>(m.cols), [&](std::size_t r) {
    for (std::size_t c = 0; c < m.cols; ++c) {
      m.data[r * m.stride + c] = static_cast<T>(random_element(tensor, r * m.cols + c, stddev));
    }
  });
}

template <class T>
void LoraOps<T>::fill_normal(T* values, std::size_t count, double stddev, std::uint64_t tensor) {
  each(count, 100, [&](std::size_t i) { values[i] = static_cast<T>(random_element(tensor, i, stddev)); });
}

template <class T>
void LoraOps<T>::gemm(const Gemm<T, T>& g) {
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
      d.data[i * d.stride + j] = static_cast<T>(value);
    }
  });
}

template <class T>
void LoraOps<T>::copy(Matrix<const T> from, Matrix<T> to) {
  for (std::size_t r = 0; r < to.rows; ++r) std::copy_n(from.data + r * from.stride, to.cols, to.data + r * to.stride);
}

template <class T>
void LoraOps<T>::embedding(Matrix<const T> table, const int* tokens, Matrix<T> out) {
  for (std::size_t r = 0; r < out.rows; ++r) {
    std::copy_n(table.data + static_cast<std::size_t>(tokens[r]) * table.stride, out.cols, out.data + r * out.stride);
  }
}

template <class T>
void LoraOps<T>::rmsnorm(Matrix<const T> x, const T* weight, double eps, Matrix<T> n, T* rstd) {
  each(x.rows, 4 * static_cast<double>(x.cols), [&](std::size_t r) {
    const T* const row = x.data + r * x.stride;
    rstd[r] = static_cast<T>(1 / std::sqrt(dot(row, row, x.cols) / static_cast<double>(x.cols) + eps));
    for (std::size_t c = 0; c < x.cols; ++c) n.data[r * n.stride + c] = row[c] * rstd[r] * weight[c];
  });
}

template <class T>
void LoraOps<T>::rmsnorm_backward(Matrix<const T> dn, Matrix<const T> x, const T* weight, const T* rstd,
                                  bool accumulate, Matrix<T> dx, Matrix<T> n) {
  each(x.rows, 8 * static_cast<double>(x.cols), [&](std::size_t r) {
    const T *const row = x.data + r * x.stride, *const d = dn.data + r * dn.stride;
    const auto scale = static_cast<double>(rstd[r]);
    double mean = 0;  // of g x
    for (std::size_t c = 0; c < x.cols; ++c) {
      mean += static_cast<double>(d[c]) * static_cast<double>(weight[c]) * static_cast<double>(row[c]);
    }
    mean /= static_cast<double>(x.cols);
    for (std::size_t c = 0; c < x.cols; ++c) {
      const double g = static_cast<double>(d[c]) * static_cast<double>(weight[c]);
      T& out = dx.data[r * dx.stride + c];
      const double before = accumulate ? static_cast<double>(out) : 0;
      out = static_cast<T>(before + scale * (g - static_cast<double>(row[c]) * scale * scale * mean));
    }
    for (std::size_t c = 0; n && c < x.cols; ++c) n.data[r * n.stride + c] = row[c] * rstd[r] * weight[c];
  });
}

template <class T>
void LoraOps<T>::rope(Matrix<T> qkv, const T* table, const AttentionShape& s, Rotation rotation) {
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
void LoraOps<T>::attention(Matrix<const T> qkv, Matrix<T> o, T* lse, const AttentionShape& s) {
  const auto d = s.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  each(s.batch * s.heads, 2 * static_cast<double>(s.seq * s.seq * d), [&](std::size_t task) {
    const auto first = task / s.heads * s.seq, head = task % s.heads;
    const auto kv = head * s.kv_heads / s.heads;
    std::vector<double> weights(s.seq), out(d);
    for (std::size_t t = 0; t < s.seq; ++t) {
      const T* const q = head_row(qkv, first + t, head, d);
      double largest = -HUGE_VAL, sum = 0;
      for (std::size_t u = 0; u <= t; ++u) {
        weights[u] = scale * dot(q, head_row(qkv, first + u, s.heads + kv, d), d);
        largest = std::max(largest, weights[u]);
      }
      for (std::size_t u = 0; u <= t; ++u) sum += weights[u] = std::exp(weights[u] - largest);
      out.assign(d, 0);
      for (std::size_t u = 0; u <= t; ++u) {
        const T* const v = head_row(qkv, first + u, s.heads + s.kv_heads + kv, d);
        for (std::size_t i = 0; i < d; ++i) out[i] += weights[u] * static_cast<double>(v[i]);
      }
      for (std::size_t i = 0; i < d; ++i) head_row(o, first + t, head, d)[i] = static_cast<T>(out[i] / sum);
      lse[task * s.seq + t] = static_cast<T>(largest + std::log(sum));
    }
  });
}

template <class T>
void LoraOps<T>::attention_backward(Matrix<const T> qkv, Matrix<const T> o, const T* lse, Matrix<const T> d_o,
                                    Matrix<T> d_qkv, const AttentionShape& s) {
  const auto d = s.head_dim, group = s.heads / s.kv_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  // One task has a key head and the query heads that share it: no two tasks write to the same place.
  each(s.batch * s.kv_heads, 5 * static_cast<double>(group * s.seq * s.seq * d), [&](std::size_t task) {
    const auto b = task / s.kv_heads, kv = task % s.kv_heads, first = b * s.seq;
    std::vector<double> dk(s.seq * d, 0), dv(s.seq * d, 0), dq(d);
    for (std::size_t head = kv * group; head < (kv + 1) * group; ++head) {
      for (std::size_t t = 0; t < s.seq; ++t) {
        const T *const q = head_row(qkv, first + t, head, d), *const g = head_row(d_o, first + t, head, d);
        const double delta = dot(g, head_row(o, first + t, head, d), d);
        const auto log_sum = static_cast<double>(lse[(b * s.heads + head) * s.seq + t]);
        dq.assign(d, 0);
        for (std::size_t u = 0; u <= t; ++u) {
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
void LoraOps<T>::swiglu(Matrix<const T> gate_up, Matrix<T> h) {
  each(h.rows, 30 * static_cast<double>(h.cols), [&](std::size_t r) {
    const T* const gate = gate_up.data + r * gate_up.stride;
    for (std::size_t c = 0; c < h.cols; ++c) {
      const auto g = static_cast<double>(gate[c]), u = static_cast<double>(gate[h.cols + c]);
      h.data[r * h.stride + c] = static_cast<T>(g * sigmoid(g) * u);
    }
  });
}

template <class T>
void LoraOps<T>::swiglu_backward(Matrix<T> gate_up, Matrix<T> dh, bool emit_h) {
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
void LoraOps<T>::cross_entropy(Matrix<T> logits, const int* targets, double scale, T* losses) {
  each(logits.rows, 40 * static_cast<double>(logits.cols), [&](std::size_t r) {
    T* const row = logits.data + r * logits.stride;
    const auto target = static_cast<std::size_t>(targets[r]);
    const auto largest = static_cast<double>(*std::max_element(row, row + logits.cols));
    double sum = 0;
    for (std::size_t c = 0; c < logits.cols; ++c) sum += std::exp(static_cast<double>(row[c]) - largest);
    losses[r] = static_cast<T>(largest + std::log(sum) - static_cast<double>(row[target]));
    for (std::size_t c = 0; c < logits.cols; ++c) {
      const double p = std::exp(static_cast<double>(row[c]) - largest) / sum;
      row[c] = static_cast<T>(scale * (p - (c == target ? 1 : 0)));
    }
  });
}

template <class T>
void LoraOps<T>::add_sum(const T* values, std::size_t count, double scale, double* to) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  *to += scale * sum;
}

template <class T>
void LoraOps<T>::summarize(const T* values, std::size_t first, std::size_t count, Summary* summary) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    summary->squared_norm += value * value;
    if (!std::isfinite(value)) ++summary->non_finite;
    summary->checksum += training::checksum_term(std::bit_cast<Bits>(values[i]), first + i);
  }
}

template <class T>
void LoraOps<T>::adamw(const FlatState<T>& state, const AdamW& s, const Summary* gradient, Summary* updated) {
  if (gradient->non_finite > 0 || !std::isfinite(gradient->squared_norm)) {
    return summarize(state.parameters, 0, state.count, updated);
  }
  const double clip = std::min(1.0, s.max_norm / (std::sqrt(gradient->squared_norm) + 1e-6));
  const auto step = static_cast<double>(s.step);
  const double correction1 = 1 - std::pow(s.beta1, step), correction2 = 1 - std::pow(s.beta2, step);
  each(state.count, 20, [&](std::size_t i) {
    const double g = clip * static_cast<double>(state.gradient[i]);
    const double m = s.beta1 * static_cast<double>(state.first_moment[i]) + (1 - s.beta1) * g;
    const double v = s.beta2 * static_cast<double>(state.second_moment[i]) + (1 - s.beta2) * g * g;
    const double decayed = static_cast<double>(state.parameters[i]) * (1 - s.lr * s.weight_decay);
    state.first_moment[i] = static_cast<T>(m);
    state.second_moment[i] = static_cast<T>(v);
    state.parameters[i] =
        static_cast<T>(decayed - s.lr * (m / correction1) / (std::sqrt(v) / std::sqrt(correction2) + s.eps));
  });
  write_adapters(state.parameters);
  summarize(state.parameters, 0, state.count, updated);
}

template <class T>
void LoraOps<T>::write_adapters(const T* parameters) {
  for (const auto& slot : slots_) {
    const auto& to = slot.place;
    for (std::size_t r = 0; r < to.rows; ++r) {
      for (std::size_t c = 0; c < to.cols; ++c) {
        const auto value = static_cast<double>(parameters[slot.offset + r * to.cols + c]);
        to.data[r * to.stride + c] = static_cast<T>(slot.scale * value);
      }
    }
  }
}

template <class T>
void LoraOps<T>::all_reduce(T* values, std::size_t count) {
  const std::span<T> all(values, count);
  if (group_ != nullptr && group_->size() > 1) group_->sum(std::span<const T>(all), all);
}

template <class T>
double LoraOps<T>::milliseconds(Mark begin, Mark end) const {
  const auto at = [this](Mark m) { return marks_[static_cast<std::size_t>(m)]; };
  return std::chrono::duration<double, std::milli>(at(end) - at(begin)).count();
}

template class LoraOps<float>;
template class LoraOps<double>;
static_assert(TrainingOps<LoraOps<float>> && TrainingOps<LoraOps<double>>);

}  // namespace shakedown::host
