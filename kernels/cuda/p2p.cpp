// Copy between the GPUs of two ranks of one host: the destination pulls (read) or the source pushes (write), by copy
// engine or by our kernel. The rank that does not drive shares its buffer through CUDA IPC; the rank that drives maps
// it and measures, and the value stands at the destination.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/stream.hpp"
#include "kernels/cuda/words.hpp"

namespace shakedown::cuda {

namespace {

/// All SMs full of threads that walk over the buffer: NVLink needs about a megabyte in flight, this gives several.
constexpr StreamShape kernel_shape{512, 4, 4, Hint::streaming};

/// What a rank that only stands by holds, so that it has something real to check.
constexpr std::size_t guard_bytes = 4096;

class PeerCopy final : public Work {
 public:
  PeerCopy(const PeerCopySpec& spec, Gpu& gpu)
      : spec_(spec),
        gpu_(gpu),
        is_source_(gpu.local_rank() == spec.src),
        is_target_(gpu.local_rank() == spec.dst),
        drives_(spec.op == CopyOp::write ? is_source_ : is_target_),
        own_(is_source_ || is_target_ ? spec.bytes : guard_bytes, Buffer::shareable) {}

  ~PeerCopy() override {
    peer_.reset();
    if (shared_) gpu_.retire(std::move(own_));
  }

  void connect(Peers& world) override {
    Peers& local = world.local();
    const auto world_ranks = local.gather(std::to_string(world.rank()));
    gpu_.free_retired();  // every rank of this host is here, so that no mapping of an earlier Work is left
    if (drives_) credited_ = std::stoi(world_ranks[static_cast<std::size_t>(spec_.dst)]);

    std::string trouble;
    const auto handles = local.gather(is_endpoint() && !drives_ ? share(trouble) : "");
    const auto owner = static_cast<std::size_t>(spec_.op == CopyOp::write ? spec_.dst : spec_.src);
    if (drives_ && !handles[owner].empty()) map(handles[owner], trouble);
    const auto troubles = local.gather(trouble);
    for (std::size_t r = 0; r < troubles.size(); ++r) {
      if (troubles[r].empty()) continue;
      throw Unsupported("local rank " + std::to_string(r) + ": " + troubles[r] +
                        "; CUDA IPC needs every rank to see both GPUs, in one IPC and process namespace");
    }
    reset();
  }

  void enqueue() override {
    if (!drives_) return;
    void* const source = is_source_ ? own_.data() : peer_.get();
    void* const target = is_target_ ? own_.data() : peer_.get();
    if (spec_.engine == Engine::sm) {
      copy(gpu_.stream(), source, target, spec_.bytes, kernel_shape, gpu_.multiprocessors());
    } else {
      check(cudaMemcpyAsync(target, source, spec_.bytes, cudaMemcpyDefault, gpu_.stream()));
    }
  }

  void reset() override {
    if (is_target_) {
      poison(gpu_, own_);
    } else {
      fill_words(gpu_, own_, source_id());
    }
    gpu_.synchronize();  // before any rank copies
  }

  /// The destination checks what arrived, the source that its data is unchanged, a rank that only stands by that nobody
  /// wrote into its memory.
  Check verify() override { return check_words(gpu_, own_, source_id()); }

  Cost cost() const override { return {0, static_cast<double>(spec_.bytes)}; }
  std::size_t bytes() const override { return own_.bytes(); }
  bool collective() const override { return false; }
  std::optional<int> credited_rank(int) const override { return credited_; }
  void corrupt() override { flip_one_bit(gpu_, own_); }

 private:
  bool is_endpoint() const { return is_source_ || is_target_; }
  std::uint64_t source_id() const { return static_cast<std::uint64_t>(spec_.src); }

  /// The handle of this rank's buffer as bytes, or nothing and why.
  std::string share(std::string& trouble) {
    cudaIpcMemHandle_t handle{};
    if (failed(cudaIpcGetMemHandle(&handle, own_.data()), "cudaIpcGetMemHandle", trouble)) return "";
    shared_ = true;
    return {reinterpret_cast<const char*>(&handle), sizeof handle};
  }

  void map(const std::string& bytes, std::string& trouble) {
    cudaIpcMemHandle_t handle{};
    if (bytes.size() != sizeof handle) throw std::runtime_error("p2p: the handle of the peer has a wrong size");
    std::memcpy(&handle, bytes.data(), sizeof handle);
    void* memory = nullptr;
    const auto status = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
    if (!failed(status, "cudaIpcOpenMemHandle", trouble)) peer_.reset(memory);
  }

  static bool failed(cudaError_t status, const char* call, std::string& trouble) {
    if (status == cudaSuccess) return false;
    static_cast<void>(cudaGetLastError());  // else the next launch would report it again
    trouble = std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
    return true;
  }

  PeerCopySpec spec_;
  Gpu& gpu_;
  bool is_source_, is_target_, drives_;
  bool shared_ = false;
  Buffer own_;  // the source, the target, or the guard of a rank that stands by
  IpcMapping peer_;
  std::optional<int> credited_;
};

}  // namespace

std::unique_ptr<Work> make_peer_copy(const PeerCopySpec& spec, Gpu& gpu) {
  if (spec.engine == Engine::cpu)
    throw Unsupported("the cuda backend copies by engine:sm or engine:ce, not by the CPU");
  if (spec.bytes == 0) throw std::invalid_argument("a copy needs at least one byte");
  if (spec.src < 0 || spec.dst < 0 || spec.src == spec.dst) {
    throw std::invalid_argument("a peer copy needs two different local ranks");
  }
  if (std::max(spec.src, spec.dst) >= gpu.local_size()) {
    throw Unsupported("this host has only " + std::to_string(gpu.local_size()) + " ranks");
  }
  require_memory(spec.bytes);
  return std::make_unique<PeerCopy>(spec, gpu);
}

}  // namespace shakedown::cuda
