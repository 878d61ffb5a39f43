// Copy inside the memory of this host by all cores of the rank. The C library's memcpy uses non-temporal stores at
// sizes far beyond the cache, so the traffic is what is read plus what is written.
#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"

namespace shakedown::host {

namespace {

class MemoryCopy final : public Work {
 public:
  MemoryCopy(const HbmSpec& spec, Team& team)
      : team_(team), spec_(spec), bytes_(spec.bytes), source_(map_memory(bytes_)), target_(map_memory(bytes_)) {
    fill_words(source(), source_id, team_);
  }

  void enqueue() override { team_.copy(source(), target()); }
  void reset() override { poison(target(), team_); }
  Check verify() override { return check_words(target(), source_id); }
  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return footprint(spec_); }
  bool collective() const override { return false; }
  void corrupt() override { flip_one_bit(target()); }

 private:
  static constexpr std::uint64_t source_id = 0;

  std::span<std::byte> source() const { return {source_.get(), bytes_}; }
  std::span<std::byte> target() const { return {target_.get(), bytes_}; }

  Team& team_;
  HbmSpec spec_;
  std::size_t bytes_;
  Mapping source_, target_;
};

}  // namespace

std::unique_ptr<Work> make_hbm(const HbmSpec& spec, Team& team) {
  if (spec.engine != Engine::cpu) throw Unsupported("the host backend has no GPU engine: engine:cpu only");
  if (spec.bytes == 0 || spec.bytes % 8 != 0)
    throw std::invalid_argument("a copy needs a positive multiple of 8 bytes");
  return std::make_unique<MemoryCopy>(spec, team);
}

}  // namespace shakedown::host
