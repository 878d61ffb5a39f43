// THE SEAM: what is measured (Work) and what it runs on (Device). Streams, events, buffers and libraries are private to
// a backend; the fixtures see only this file. Backends are folders: host/ and cuda/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/group.hpp"
#include "base/names.hpp"
#include "base/nccl_link.hpp"
#include "kernels/training/shape.hpp"

namespace shakedown {

// ---------------------------------------------------------------------------------------------------------------------
// Specs: one small struct per operation. `key` gives the name under which a spec is measured, stored and judged.

enum class DType { f64, f32, tf32, f16, bf16, fp8_e4m3, int8, nvfp4, mxfp8 };
enum class Engine { cpu, sm, ce };  // who moves the bytes: CPU cores, a GPU kernel, a GPU copy engine
enum class CopyOp { read, write };  // who drives a peer copy: the destination pulls, or the source pushes
enum class HbmOp { copy, read, write, scale, add, triad };
enum class PcieOp { h2d, d2h, both };
enum class TestPattern { address, complement, alternating, random };  // of the memory test
enum class CollectiveOp { all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv };
enum class Place { out, in };         // the output has its own buffer, or takes the place of the input
enum class Launch { stream, graph };  // operations are queued one by one, or a batch is recorded once and replayed

enum class Accumulate {
  fast,
  exact
};  // fp8: in the short accumulator of the tensor core, or promoted to f32 on the way
enum class MatrixData { normal, zeros };  // zeros switch few transistors: less power, higher clocks, a comparison only
enum class Load { burst, sustained };     // sustained: so long that power and cooling set the pace

constexpr auto words(DType) { return names("f64", "f32", "tf32", "f16", "bf16", "fp8_e4m3", "int8", "nvfp4", "mxfp8"); }
constexpr auto words(Engine) { return names("cpu", "sm", "ce"); }
constexpr auto words(CopyOp) { return names("read", "write"); }
constexpr auto words(HbmOp) { return names("copy", "read", "write", "scale", "add", "triad"); }
constexpr auto words(PcieOp) { return names("h2d", "d2h", "both"); }
constexpr auto words(TestPattern) { return names("address", "complement", "alternating", "random"); }
constexpr auto words(CollectiveOp) {
  return names("all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv");
}

/// Bytes of one element. Errors: std::invalid_argument for packed types below one byte.
std::size_t size_of(DType);
/// Bytes of so many elements, packed types included.
std::size_t bytes_of(DType, std::size_t elements);
/// Bytes of one element of a product of this type: bf16 for the 4-bit and 8-bit floats, int32 for int8, else the type.
std::size_t product_size_of(DType);

/// C (m x n) = A (m x k) B (k x n), seeded standard normal inputs rounded to the type (int8: of standard deviation 32).
/// Cost: 2 m n k flops.
struct GemmSpec {
  DType dtype;
  int m, n, k;
  Accumulate accumulate = Accumulate::fast;
  MatrixData data = MatrixData::normal;
  Load load = Load::burst;
  std::optional<int> active = std::nullopt;  // the local rank that multiplies while the others of its host stand by
};
/// Looks for the shape with the highest rate of this type, then measures it. The search takes `seconds` on every rank;
/// rank 0's find counts. Its cost is known after connect.
struct GemmSearchSpec {
  static constexpr int longest = 16384;  // of m, n and k

  DType dtype;
  double seconds;
};
/// A stream over arrays in this device's memory, of `bytes` bytes each: copy c = a, read (the sum of a), write c,
/// scale c = 3 a, add c = a + b, triad c = a + 3 b, the last three of f64. `copy_gb_per_s` counts a copy's bytes once,
/// `hbm_gb_per_s` whatever is read and written.
struct HbmSpec {
  HbmOp op;
  Engine engine;
  std::size_t bytes;
};
/// A walk over this device's memory: writes a pattern and reads it back. Without `bytes`: nearly all that is free, the
/// same on all ranks.
struct MemoryTestSpec {
  TestPattern pattern;
  std::optional<std::size_t> bytes;
};
/// A copy between the memories of two ranks of one host; src and dst are local indices. Every host does it at once.
/// `both`: at the same time another one back, and the figure is the sum of the two.
struct PeerCopySpec {
  CopyOp op;
  Engine engine;
  int src, dst;
  std::size_t bytes;
  bool both = false;
};
/// All ranks of a host at once: each local rank r copies to (r + shift) mod n.
struct PeerShiftSpec {
  CopyOp op;
  Engine engine;
  int shift;
  std::size_t bytes;
};
/// Local rank dst walks over a chain of pointers in the memory of src, one load after another.
struct PeerLatencySpec {
  Engine engine;
  int src, dst;
  std::size_t bytes;
};
/// Loads of one walk: far fewer than the buffer has words.
std::size_t accesses(const PeerLatencySpec&);
/// A copy between a GPU and page-locked memory of its host: all ranks at once, or one local rank alone (`active`); on
/// the GPU's own NUMA node or on another (`far`). Of both directions the figure is the sum.
struct PcieSpec {
  PcieOp op;
  std::size_t bytes;
  std::optional<int> active = std::nullopt;
  bool far = false;
};
/// Sum over all ranks. `bytes` is the size of one rank's input (nccl-tests' definition of size).
struct AllReduceSpec {
  DType dtype;
  std::size_t bytes;
  Place place = Place::out;
  Launch launch = Launch::stream;
};
/// One of the other collectives, out of place, between `ranks` ranks (the whole world). `bytes` is the size as
/// nccl-tests defines it: of everything that all ranks have together for all_gather, reduce_scatter and alltoall, of
/// one rank's buffer for the others. Rank 0 is the root; sendrecv is a ring, each rank sends to the next one.
struct CollectiveSpec {
  CollectiveOp op;
  DType dtype;
  std::size_t bytes;
  int ranks = 1;
};
/// One step of LoRA fine-tuning, data parallel over `ranks` ranks (the whole world): forward, backward, sum of the
/// gradients, AdamW, with random weights. `batch` sequences of `seq` tokens on each rank at a time, `accumulation`
/// times per update. All ranks get the same tokens, so that equal devices must compute the same bits.
struct LoraStepSpec {
  std::string model;  // a training::preset
  int batch = 1, seq = 1;
  DType dtype = DType::bf16;  // of weights and activations; gradients and trainable parameters are f32, or f64 with f64
  int ranks = 1;
  int accumulation = 1;
  training::Retain retain = training::Retain::all;
  DType sums = DType::f32;  // in which the gradients travel between ranks; f64 if dtype is
  std::size_t bucket = 0;   // bytes of f32 gradients that are summed together, at least; 0: what is faster of a
                            // layer's, beside the backward pass, and nearly all of them at its end
};

std::string key(const GemmSpec&);         // gemm/dtype:bf16/m:8192/n:8192/k:8192[/load:sustained][/active:one/rank:2]
std::string key(const GemmSearchSpec&);   // gemm/dtype:bf16/shape:best
std::string key(const HbmSpec&);          // hbm/op:copy/engine:sm/bytes:4294967296
std::string key(const MemoryTestSpec&);   // memtest/pattern:random/bytes:free
std::string key(const PeerCopySpec&);     // p2p/op:read/engine:ce/src:0/dst:3/bytes:1073741824
std::string key(const PeerShiftSpec&);    // p2p/op:write/engine:sm/shift:1/bytes:1073741824
std::string key(const PeerLatencySpec&);  // p2p/op:latency/engine:sm/src:0/dst:3/bytes:2097152
std::string key(const PcieSpec&);         // pcie/op:h2d/active:one/rank:2/numa:far/bytes:268435456
std::string key(const AllReduceSpec&);    // allreduce/dtype:f32/bytes:1048576, and /place:in, /launch:graph behind it
std::string key(const CollectiveSpec&);   // collectives/op:all_gather/dtype:f32/bytes:1048576
std::string key(const LoraStepSpec&);     // lora_step/model:qwen2_7b/batch:2/seq:4096, and what is not the default

/// Model cost of one operation on one rank. gemm: 2mnk flops. hbm: bytes read plus bytes written, as
/// BabelStream counts them (src/benchmark.h). Memory test: bytes written plus bytes read, 0 while unknown. Peer copy:
/// bytes moved, once. AllReduce: the size of the input (algbw = bytes / time). Collectives: the size that is really
/// moved, which is not quite `bytes` where that does not divide into one part per rank. LoRA step: the operations of
/// the model (training::token_flops) for this rank's tokens; what is computed a second time does not count.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

Cost cost(const GemmSpec&);
Cost cost(const GemmSearchSpec&);
Cost cost(const HbmSpec&);
Cost cost(const MemoryTestSpec&);
Cost cost(const PeerCopySpec&);
Cost cost(const PeerShiftSpec&);
Cost cost(const PeerLatencySpec&);
Cost cost(const PcieSpec&);
Cost cost(const AllReduceSpec&);
Cost cost(const CollectiveSpec&);
Cost cost(const LoraStepSpec&);

/// Bytes of device memory that one rank needs for the operation, workspaces left out. Known before anything is
/// allocated.
std::size_t footprint(const GemmSpec&);
std::size_t footprint(const GemmSearchSpec&);
std::size_t footprint(const HbmSpec&);
std::size_t footprint(const MemoryTestSpec&);
std::size_t footprint(const PeerCopySpec&);
std::size_t footprint(const PeerShiftSpec&);
std::size_t footprint(const PeerLatencySpec&);
std::size_t footprint(const PcieSpec&);
std::size_t footprint(const AllReduceSpec&);
std::size_t footprint(const CollectiveSpec&);
std::size_t footprint(const LoraStepSpec&);

/// How the data of a collective lie: what one rank has for, or gets from, one other rank, and the whole buffers of a
/// rank. Where `bytes` does not divide by the ranks, a part is cut to whole vectors of 16 bytes, for alignment, or if
/// it has less to whole elements; it has at least one. Errors: std::invalid_argument without ranks or whole elements.
struct CollectiveLayout {
  std::size_t part, in, out;
};
CollectiveLayout layout(const CollectiveSpec&);

// ---------------------------------------------------------------------------------------------------------------------
// Work

/// Outcome of a data check. Nothing compared is a failed check.
struct Check {
  std::size_t compared = 0;
  std::size_t mismatched = 0;
  std::string first;  // where, got, expected; empty when nothing is wrong
  bool passed() const { return compared > 0 && mismatched == 0; }
};

/// This machine cannot do it: too little memory, no algorithm, no path. Becomes a waiver that all ranks agree on.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How an operation is sampled that a device runs fast for a moment only: after at most `load` seconds of it the device
/// rests for `rest` seconds, after less in proportion.
struct Bursts {
  double load, rest;

  double rest_after(double seconds) const { return seconds < load ? rest * seconds / load : rest; }
};

/// Further figures of this rank. The name "checksum" is special: equal inputs and algorithm must give equal values on
/// all ranks (an integer below 2^53).
using Metrics = std::vector<std::pair<std::string, double>>;

/// One operation, fully prepared: buffers, descriptors, known data, its cost and its own check. Life cycle: prepared by
/// a Device (local), connect (collective, once), then any number of { reset, timed runs of enqueue, verify }.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  /// Collective part of the set-up, for example exchanging handles or broadcasting the tuned algorithm. Unsupported may
  /// be thrown only when every collective call of connect has been made by every rank, and by any subset of ranks; any
  /// other exception ends the job.
  virtual void connect(Group&) {}

  /// Queues the operation once on the device's stream. Allocates nothing, waits for nothing.
  virtual void enqueue() = 0;

  /// Called on all ranks before they meet to queue `repeats` operations in a row, outside of what is timed: poisons
  /// what these will write, so that verify sees whether each of them has run (see trail.hpp). Returns when that is
  /// done.
  virtual void stage(int /*repeats*/) {}

  /// Queues that many operations back to back.
  virtual void enqueue_batch(int repeats) {
    for (int i = 0; i < repeats; ++i) enqueue();
  }

  /// Fills inputs with known data and poisons outputs. Local, may be called again before each series.
  virtual void reset() = 0;

  /// Checks the output of the last operation against an independent reference, and that every operation enqueued since
  /// the last stage or reset has left its own. Local; a collective Work may ask its peers.
  virtual Check verify() = 0;

  virtual Cost cost() const = 0;

  /// Bytes of device memory that the prepared operation holds.
  virtual std::size_t bytes() const = 0;

  /// True if one call needs all ranks, so that ranks wait for each other inside it.
  virtual bool collective() const = 0;

  /// Nothing: samples follow each other without rests. Valid after connect, the same on every rank.
  virtual std::optional<Bursts> bursts() const { return std::nullopt; }

  /// The rank of the world at which the time measured on this rank is reported: itself by default, the destination for
  /// a peer copy, nullopt for a rank that only stands by. Valid after connect.
  virtual std::optional<int> credited_rank(int own_rank) const { return own_rank; }

  /// Further figures of this rank after verify. A collective Work may ask its peers, and measure.
  virtual Metrics metrics() { return {}; }

  /// What a library chose for it, for the record: "RING/LL128". Empty where it does not say.
  virtual std::string chosen() const { return ""; }

  /// Damages one element of the output; lets the tests prove that verify sees it.
  virtual void corrupt() {}

  /// Makes one number of the input not a number; lets the tests prove that it does not become a result. Errors:
  /// std::logic_error for an operation that has no such test.
  virtual void spoil() { throw std::logic_error("this operation has no test with a number that is none"); }
};

// ---------------------------------------------------------------------------------------------------------------------
// Device

/// Facts about the device of this rank. Unknown is nullopt, never an empty string.
struct DeviceInfo {
  std::string name;                 // "NVIDIA H200"; for the host the CPU model
  std::optional<std::string> uuid;  // "GPU-4f2a..."
  std::optional<std::string> serial;
  std::optional<std::string> pci;  // "0000:1b:00.0"
  std::optional<std::uint64_t> memory_bytes;
  std::map<std::string, std::string> versions;  // driver, cuda, cublaslt, cudnn, nccl; absent = unknown
  std::optional<std::string> nvls;              // "on" | "off"
  std::vector<NcclLink> nccl_links;             // that NCCL has made so far, as far as this rank knows them
};

/// What a device counted of its processors' clock while operations ran: the mean in MHz, and the cycles of one
/// operation.
struct ClockCount {
  double mhz, cycles;
};

using Choices = std::map<std::string, std::string>;

/// What one rank measures on. Prepares Works and times them.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;

  /// Seconds of device time for `repeats` back-to-back operations (the total), after waiting for the last one. The
  /// caller has staged them.
  virtual double seconds(Work&, int repeats) = 0;

  /// Of what was timed since the last call; nothing where the backend or the operation does not tell.
  virtual std::optional<ClockCount> take_clock() { return std::nullopt; }

  /// What tuning chose, by key, in words of the backend. A Work whose key is here when it connects takes that instead
  /// of tuning; one that tunes adds its choice, the same on every rank.
  Choices& choices() { return choices_; }

  /// What to call now and then while this rank waits inside an operation for others and its device answers: a rank that
  /// does not call it is not known to be well. A device that cannot look while it waits never calls it.
  virtual void while_waiting(std::function<void()>) {}

  /// Called from another thread when the job is being ended: aborts communicators so that blocked calls return.
  virtual void abort() noexcept {}

  /// One overload per spec. Local: allocates and plans. Unsupported where this device or backend cannot do it; the text
  /// says why, with numbers ("needs 17.2 GB, 12.9 GB free").
  virtual std::unique_ptr<Work> prepare(const GemmSpec&);
  virtual std::unique_ptr<Work> prepare(const GemmSearchSpec&);
  virtual std::unique_ptr<Work> prepare(const HbmSpec&);
  virtual std::unique_ptr<Work> prepare(const MemoryTestSpec&);
  virtual std::unique_ptr<Work> prepare(const PeerCopySpec&);
  virtual std::unique_ptr<Work> prepare(const PeerShiftSpec&);
  virtual std::unique_ptr<Work> prepare(const PeerLatencySpec&);
  virtual std::unique_ptr<Work> prepare(const PcieSpec&);
  virtual std::unique_ptr<Work> prepare(const AllReduceSpec&);
  virtual std::unique_ptr<Work> prepare(const CollectiveSpec&);
  virtual std::unique_ptr<Work> prepare(const LoraStepSpec&);

 private:
  Choices choices_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Backends

enum class Backend { host, cuda };
constexpr auto words(Backend) { return names("host", "cuda"); }

/// Where this rank stands on its host.
struct Placement {
  int local_rank = 0;
  int local_size = 1;
  int threads = 1;  // cores that this rank may use; BLAS and copy threads
};

/// Whether a backend can be used in this process, without opening a device.
struct Availability {
  int devices = 0;
  std::string reason;  // why there is no device; empty if there is one
};

Availability probe(Backend);

/// Opens the device for this rank. Errors: std::runtime_error when there are more ranks on this host than devices, or
/// the device cannot be opened; the text says what to do.
std::unique_ptr<Device> open_device(Backend, const Placement&);

}  // namespace shakedown
