// Copy from the memory of one rank into that of another on the same host, through a window of shared memory: "write"
// pushes into a window of the destination, "read" pulls from a window of the source.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kernels/host/buffer.hpp"
#include "kernels/host/host_device.hpp"

namespace shakedown::host {

namespace {

/// Owns a file descriptor.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

class PeerCopy final : public Work {
 public:
  PeerCopy(const PeerCopySpec& spec, Team& team) : spec_(spec), team_(team) {}

  void connect(Peers& world) override {
    Peers& local = world.local();
    const bool exists = std::max(spec_.src, spec_.dst) < local.size();  // a host may have fewer ranks than another
    is_source_ = exists && local.rank() == spec_.src;
    is_target_ = exists && local.rank() == spec_.dst;
    const bool owns_window = spec_.op == CopyOp::write ? is_target_ : is_source_;

    File window;
    std::string path;
    if (owns_window) {
      window = File(memfd_create("shakedown-window", MFD_CLOEXEC));
      const bool ready = window.get() >= 0 && ftruncate(window.get(), static_cast<off_t>(spec_.bytes)) == 0;
      if (ready) path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(window.get());
    }
    const auto paths = local.gather(path);
    const bool takes_part = is_source_ || is_target_;
    if (takes_part && !owns_window) {
      const auto& owner = paths[static_cast<std::size_t>(spec_.op == CopyOp::write ? spec_.dst : spec_.src)];
      window = File(open(owner.c_str(), O_RDWR | O_CLOEXEC));
    }
    if (!local.all(!takes_part || window.get() >= 0)) {
      throw Unsupported("local ranks " + std::to_string(spec_.src) + " and " + std::to_string(spec_.dst) +
                        " cannot share memory (memfd through /proc)");
    }
    if (takes_part) window_ = map_memory(spec_.bytes, window.get());
    const bool needs_own = spec_.op == CopyOp::write ? is_source_ : is_target_;
    if (needs_own) own_ = map_memory(spec_.bytes);
    if (!takes_part) own_ = map_memory(guard_bytes);

    // The value stands at the destination; the rank that drives the copy measures it.
    const auto world_ranks = local.gather(std::to_string(world.rank()));
    const bool drives = spec_.op == CopyOp::write ? is_source_ : is_target_;
    if (drives) credited_ = std::stoi(world_ranks[static_cast<std::size_t>(spec_.dst)]);
    drives_ = drives;
  }

  void enqueue() override {
    if (drives_) team_.copy(source(), target());
  }

  void reset() override {
    if (is_source_) fill_words(source(), source_id(), team_);
    if (is_target_) poison(target(), team_);
    if (!is_source_ && !is_target_) fill_words(guard(), source_id(), team_);
  }

  /// The destination checks what arrived, the source that its data is unchanged, a rank that only stands by that nobody
  /// wrote into its memory.
  Check verify() override {
    if (is_target_) return check_words(target(), source_id());
    return check_words(is_source_ ? source() : guard(), source_id());
  }

  Cost cost() const override { return shakedown::cost(spec_); }
  std::size_t bytes() const override { return is_source_ || is_target_ ? footprint(spec_) : guard_bytes; }
  bool collective() const override { return false; }
  std::optional<int> credited_rank(int) const override { return credited_; }
  void corrupt() override { flip_one_bit(is_target_ ? target() : is_source_ ? source() : guard()); }

 private:
  static constexpr std::size_t guard_bytes = 4096;

  std::uint64_t source_id() const { return static_cast<std::uint64_t>(spec_.src) + 1; }
  std::span<std::byte> window() const { return {window_.get(), spec_.bytes}; }
  std::span<std::byte> own() const { return {own_.get(), spec_.bytes}; }
  std::span<std::byte> guard() const { return {own_.get(), guard_bytes}; }
  std::span<std::byte> source() const { return spec_.op == CopyOp::write ? own() : window(); }
  std::span<std::byte> target() const { return spec_.op == CopyOp::write ? window() : own(); }

  PeerCopySpec spec_;
  Team& team_;
  bool is_source_ = false, is_target_ = false, drives_ = false;
  std::optional<int> credited_;
  Mapping window_, own_;
};

}  // namespace

std::unique_ptr<Work> make_peer_copy(const PeerCopySpec& spec, Team& team) {
  if (spec.engine != Engine::cpu) throw Unsupported("the host backend has no GPU engine: engine:cpu only");
  if (spec.bytes == 0 || spec.bytes % 8 != 0)
    throw std::invalid_argument("a copy needs a positive multiple of 8 bytes");
  return std::make_unique<PeerCopy>(spec, team);
}

}  // namespace shakedown::host
