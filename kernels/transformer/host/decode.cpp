// Decode on the host, in f32 or f64 and plain loops. Sums run in double.
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/host/host_device.hpp"
#include "kernels/transformer/host/decode_ops.hpp"
#include "kernels/transformer/measured_decode.hpp"

namespace shakedown::host {

namespace {

/// Adds what a timed Work needs.
template <class T>
class TimedDecodeOps : public DecodeOps<T> {
 public:
  explicit TimedDecodeOps(Team& team) : DecodeOps<T>(team), team_(team) {}

  static training::DecodeErrors errors() {
    constexpr double u = std::numeric_limits<T>::epsilon() / 2;
    return {u, u, 1e-5, u};
  }
  static std::uint64_t digest(const void* from, std::size_t bytes) {
    return digest_of({static_cast<const std::byte*>(from), bytes});
  }
  void record(std::function<void()> queue) { queue_ = std::move(queue); }
  void replay() { queue_(); }

  double seconds(const std::function<void()>& queue) {
    const auto begin = std::chrono::steady_clock::now();
    queue();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void read(const std::byte* from, std::size_t bytes) {
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(team_.size()));
    const auto words = bytes / sizeof(std::uint64_t), each = words / sums.size();
    team_.run([&](int member) {
      const auto index = static_cast<std::size_t>(member);
      const auto* const word = reinterpret_cast<const std::uint64_t*>(from) + index * each;
      sums[index] = std::accumulate(word, word + each, std::uint64_t{0});
    });
    sum_ = std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
  }

 private:
  Team& team_;
  std::function<void()> queue_;
  volatile std::uint64_t sum_ = 0;  // keeps the compiler from leaving out the reads
};

template <class T>
std::unique_ptr<Work> make_decode(const DecodeSpec& spec, HostDevice& device) {
  using Ops = TimedDecodeOps<T>;
  return std::make_unique<training::MeasuredDecode<Ops>>(spec, std::make_unique<Ops>(device.team()), device,
                                                         [](Ops& ops, Group& group) { ops.connect(group); });
}

}  // namespace

std::unique_ptr<Work> make(const DecodeSpec& spec, HostDevice& device) {
  if (spec.dtype == DType::f64) return make_decode<double>(spec, device);
  if (spec.dtype == DType::f32 || spec.dtype == DType::fp8_e4m3) return make_decode<float>(spec, device);
  throw Unsupported("the host backend decodes in f32, f64 and fp8 only, not in " + std::string(name(spec.dtype)));
}

}  // namespace shakedown::host
