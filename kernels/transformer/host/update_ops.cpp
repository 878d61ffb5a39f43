// The operations of transformer/ops.hpp that follow the backward pass: sums over values and over ranks, and the update
// of the parameters.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/short_floats.hpp"
#include "kernels/transformer/host/training_ops.hpp"
#include "kernels/transformer/rounding.hpp"

namespace shakedown::host {

using namespace training;

template <class T>
void HostOps<T>::add_sum(const T* values, std::size_t count, double scale, double* to) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  *to += scale * sum;
}

template <class T>
void HostOps<T>::summarize(const T* values, std::size_t first, std::size_t count, Summary* summary) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    summary->squared_norm += value * value;
    summary->projection += training::is_negative(training::signs_from(first + i)) ? -value : value;
    if (!std::isfinite(value)) ++summary->non_finite;
    summary->checksum += training::checksum_term(std::bit_cast<Bits>(values[i]), first + i);
  }
}

template <class T>
template <class Store>
void HostOps<T>::update(const ParameterSlot<T>& slot, const auto& state, const AdamW& s, double clip,
                        const Store& store) {
  const auto step = static_cast<double>(s.step);
  const double correction1 = 1 - std::pow(s.beta1, step), correction2 = 1 - std::pow(s.beta2, step);
  const double kept = slot.decays ? 1 - s.lr * s.weight_decay : 1;
  each(slot.place.rows * slot.place.cols, 20, [&](std::size_t inside) {
    const auto i = slot.offset + inside;
    const double g = clip * static_cast<double>(state.gradient[i + slot.gradient_behind]);
    const double m = s.beta1 * static_cast<double>(state.first_moment[i]) + (1 - s.beta1) * g;
    const double v = s.beta2 * static_cast<double>(state.second_moment[i]) + (1 - s.beta2) * g * g;
    const double decayed = static_cast<double>(state.parameters[i]) * kept;
    store(inside, decayed - s.lr * (m / correction1) / (std::sqrt(v) / std::sqrt(correction2) + s.eps), m, v);
  });
}

namespace {

bool is_finite(const Summary& gradient) { return gradient.non_finite == 0 && std::isfinite(gradient.squared_norm); }

double clip_of(const AdamW& settings, const Summary& gradient) {
  return std::min(1.0, settings.max_norm / (std::sqrt(gradient.squared_norm) + 1e-6));
}

}  // namespace

template <class T>
void HostOps<T>::adamw(const FlatState<T>& state, const AdamW& s, const Summary* gradient, Summary* updated,
                       std::size_t first, std::size_t slots) {
  for (const auto& slot : std::span(slots_).subspan(first, slots)) {
    if (is_finite(*gradient)) {
      update(slot, state, s, clip_of(s, *gradient), [&](std::size_t inside, double p, double m, double v) {
        const auto i = slot.offset + inside;
        state.first_moment[i] = static_cast<T>(m);
        state.second_moment[i] = static_cast<T>(v);
        state.parameters[i] = static_cast<T>(p);
      });
      write_copy(slot, state.parameters);
    }
    summarize(state.parameters + slot.offset, slot.offset, slot.place.rows * slot.place.cols, updated);
  }
}

template <class T>
void HostOps<T>::adamw(const Bf16State<T, T>& state, const AdamW& s, const Summary* gradient, Summary* updated,
                       std::size_t first, std::size_t slots) {
  const auto rounded = [](double value, std::uint32_t random) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return static_cast<T>(from_bf16(rounded_at_random(bits, random)));
  };
  for (const auto& slot : std::span(slots_).subspan(first, slots)) {
    if (is_finite(*gradient)) {
      update(slot, state, s, clip_of(s, *gradient), [&](std::size_t inside, double p, double m, double v) {
        const auto i = slot.offset + inside;
        const RoundingOfFour random(s.seed, s.step, slot.position + inside);
        const auto which = static_cast<unsigned>((slot.position + inside) % 4);
        state.first_moment[i] = rounded(m, random.first_moment(which));
        state.second_moment[i] = rounded(v, random.second_moment(which));
        state.parameters[i] = rounded(p, random.parameter(which));
      });
    }
    summarize(state.parameters + slot.offset, slot.offset, slot.place.rows * slot.place.cols, updated);
  }
}

template <class T>
void HostOps<T>::round_to_bf16(const T* from, T* to, std::size_t count) {
  std::transform(from, from + count, to,
                 [](T value) { return static_cast<T>(from_bf16(to_bf16(static_cast<float>(value)))); });
}

template <class T>
void HostOps<T>::write_copies(const T* parameters) {
  for (const auto& slot : slots_) write_copy(slot, parameters);
}

template <class T>
void HostOps<T>::write_copy(const training::ParameterSlot<T>& slot, const T* parameters) {
  const auto& to = slot.place;
  for (std::size_t r = 0; r < to.rows; ++r) {
    for (std::size_t c = 0; c < to.cols; ++c) {
      const auto value = static_cast<double>(parameters[slot.offset + r * to.cols + c]);
      to.data[r * to.stride + c] = static_cast<T>(slot.scale * value);
    }
  }
}

template <class T>
void HostOps<T>::gather_tokens(Matrix<T> all) {
  const auto count = all.rows * all.cols / static_cast<std::size_t>(together_->size());
  const T* const own = all.data + count * static_cast<std::size_t>(together_->rank());
  const std::vector<T> mine(own, own + count);
  together_->all_gather(std::as_bytes(std::span(mine)),
                        std::as_writable_bytes(std::span(all.data, all.rows * all.cols)));
}

/// Computes the sum of all tokens and copies this rank's part. Overwrites `all` with NaN, because a GPU may overwrite
/// it and no caller may read it afterwards.
template <class T>
void HostOps<T>::scatter_tokens(Matrix<T> all, Matrix<T> own) {
  const auto whole = all.rows * all.cols, count = own.rows * own.cols;
  summed_.assign(all.data, all.data + whole);
  sum(*together_, summed_.data(), whole);
  std::fill_n(all.data, whole, std::numeric_limits<T>::quiet_NaN());
  std::copy_n(summed_.data() + count * static_cast<std::size_t>(together_->rank()), count, own.data);
}

template <class T>
void HostOps<T>::sum(Group& group, T* values, std::size_t count) {
  const std::span<T> all(values, count);
  group.sum(std::span<const T>(all), all);
}

template <class T>
void HostOps<T>::all_reduce(T* values, std::size_t count) {
  if (group_ == nullptr || group_->size() == 1) return;
  exchange([&] { sum(*group_, values, count); });
}

template <class T>
void HostOps<T>::sum(Group& group, Summary* summary) {
  std::vector<Summary> of_ranks(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(summary, 1)), std::as_writable_bytes(std::span(of_ranks)));
  *summary = {};
  for (const auto& s : of_ranks) *summary = *summary + s;
}

/// Adds all ranks' values of this share in the order of ranks. Overwrites `all` with NaN, because a GPU may overwrite
/// it and no caller may read it afterwards.
template <class T>
std::size_t HostOps<T>::reduce_scatter(T* all, T* own, std::size_t count, bool add,
                                       const training::ShareSummaries& told) {
  const auto whole = count * static_cast<std::size_t>(group_->size());
  const auto mine = count * static_cast<std::size_t>(group_->rank());
  if (told.before != nullptr) summarize(all + mine, told.first, count, told.before);
  std::vector<T> parts(whole);
  exchange([&] {
    group_->all_to_all(std::as_bytes(std::span<const T>(all, whole)), std::as_writable_bytes(std::span(parts)));
  });
  std::fill(all, all + whole, std::numeric_limits<T>::quiet_NaN());
  summed_.assign(count, 0);
  for (std::size_t part = 0; part < whole; part += count) {
    for (std::size_t i = 0; i < count; ++i) summed_[i] += parts[part + i];
    Summary came{};
    if (told.fetched != nullptr && part != mine) summarize(parts.data() + part, told.first, count, &came);
    if (told.fetched != nullptr) told.fetched->checksum += came.checksum;
  }
  for (std::size_t i = 0; i < count; ++i) own[i] = add ? own[i] + summed_[i] : summed_[i];
  if (told.after != nullptr) summarize(own, told.first, count, told.after);
  return 0;
}

template <class T>
std::size_t HostOps<T>::all_gather(const T* own, T* all, std::size_t count) {
  const std::vector<T> share(own, own + count);  // `own` may overlap `all`
  exchange([&] {
    group_->all_gather(std::as_bytes(std::span(share)),
                       std::as_writable_bytes(std::span(all, count * static_cast<std::size_t>(group_->size()))));
  });
  return 0;
}

template class HostOps<float>;
template class HostOps<double>;

}  // namespace shakedown::host
