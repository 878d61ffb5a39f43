// The interface between benchmarks and backends: the operation to measure (Work) and where it runs (Device). Streams,
// events, buffers and libraries are private to a backend; the fixtures see only this file. Each backend is a folder:
// host/, cuda/ or virtual/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/group.hpp"
#include "base/names.hpp"
#include "base/nccl_link.hpp"
#include "base/product_tiling.hpp"
#include "kernels/check.hpp"
#include "kernels/ops/operation.hpp"
#include "kernels/profile.hpp"

namespace shakedown {

// ---------------------------------------------------------------------------------------------------------------------
// Work

/// How to sample an operation that a device can run at full speed only briefly. After `load` seconds of it the device
/// rests for `rest` seconds; after less load it rests proportionally less.
struct Bursts {
  double load, rest;

  double rest_after(double seconds) const { return seconds < load ? rest * seconds / load : rest; }
};

/// Additional metrics of this rank. The name "checksum" is special: equal inputs and equal algorithms must give equal
/// values on all ranks (an integer below 2^53).
using Metrics = std::vector<std::pair<std::string, double>>;

/// One prepared operation with its buffers, descriptors, known data, cost and check. Life cycle: prepared by a Device
/// (local), connect (collective, once), then any number of { reset, timed runs of enqueue, verify }.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  /// Collective part of the setup, for example exchanging handles or broadcasting the tuned algorithm. This function
  /// may throw Unsupported only after all ranks have made all collective calls of connect; then any subset of ranks may
  /// throw it. Any other exception ends the job.
  virtual void connect(Group&) {}

  /// Queues the operation once on the device's stream. Neither allocates nor waits.
  virtual void enqueue() = 0;

  /// Prepares `repeats` operations in a row; called on all ranks outside of the timed region, before they synchronize.
  /// Poisons the outputs, so that verify detects operations that did not run (see trail.hpp). Returns when that is
  /// done.
  virtual void stage(int /*repeats*/) {}

  /// Queues `repeats` operations back to back.
  virtual void enqueue_batch(int repeats) {
    for (int i = 0; i < repeats; ++i) enqueue();
  }

  /// Fills inputs with known data and poisons outputs. Local; may be called again before each series.
  virtual void reset() = 0;

  /// Checks the output of the last operation against an independent reference, and that every operation since the last
  /// stage or reset has left its own output. Local, except for a collective: all its ranks call it together, and it may
  /// communicate.
  virtual Check verify() = 0;

  /// Returns a sum over all bits of the output of the last operation (digest_of), which is equal for equal inputs.
  /// Returns nullopt if this rank has no output, if its bits may vary, or if it is larger than most_digested. Whether
  /// there is a value does not change between calls on a rank.
  virtual std::optional<std::uint64_t> digest() const { return std::nullopt; }

  /// True if connect has run the operation exactly as it will be timed, so that a digest after connect is valid.
  virtual bool runs_in_connect() const { return false; }

  virtual Cost cost() const = 0;

  /// Returns the bytes of device memory that the prepared operation holds.
  virtual std::size_t bytes() const = 0;

  /// True if one call needs all ranks, so that ranks wait for each other inside it.
  virtual bool collective() const = 0;
  /// True if a collective Work only involves the ranks of one host; each host then runs it independently.
  virtual bool on_host() const { return false; }

  /// True if the calls themselves are timed on this rank's CPU. The clock and the sensors of the device are then
  /// irrelevant.
  virtual bool on_processor() const { return false; }

  /// True if the device should run one untimed operation before each sample of a collective Work, to exclude the launch
  /// and the arrival of the ranks. The same on every rank.
  virtual bool needs_lead_in() const { return false; }

  /// Returns how to sample in bursts; nullopt if samples follow each other without rests. Valid after connect; the same
  /// on every rank.
  virtual std::optional<Bursts> bursts() const { return std::nullopt; }

  /// Returns the seconds of one operation that connect has measured; 0 if it has not. The same on every rank.
  virtual double expected_seconds() const { return 0; }

  /// Returns the world rank that the time measured on this rank is reported for: by default this rank, the destination
  /// for a peer copy, nullopt for an idle rank. Valid after connect.
  virtual std::optional<int> credited_rank(int own_rank) const { return own_rank; }

  /// Returns additional metrics of this rank after verify. For a collective, all ranks call it together,
  /// and it may communicate and time further operations.
  virtual Metrics metrics() { return {}; }

  /// Runs more operations after verify, and returns how each divides its time; nullopt if this Work has no such
  /// division. Collective if the Work is; whether there is a value is the same on every rank.
  virtual std::optional<StepProfile> profile() { return std::nullopt; }

  /// Returns an external reason, such as a full disk, why operations since the last reset were not done; empty if they
  /// were done. The same on all ranks.
  virtual std::string obstacle() const { return ""; }

  /// Returns the choice of a library, for the record: "RING/LL128". Empty if the library does not report it.
  virtual std::string chosen() const { return ""; }

  /// Returns the software that the operation uses in place of the usual one, if that makes it slower: "attention by
  /// ...". Empty: none. The time of such a Work says nothing about the hardware.
  virtual std::string fallback() const { return ""; }

  /// Corrupts one element of the output, so that tests can prove that verify detects it.
  virtual void corrupt() {}

  /// Sets one number of the input to NaN, so that tests can prove that it does not become a result. Errors:
  /// std::logic_error if the operation has no such test.
  virtual void poison_input() { throw std::logic_error("this operation cannot inject NaN"); }
};

// ---------------------------------------------------------------------------------------------------------------------
// Spec

template <class Device>
using Maker = std::function<std::unique_ptr<Work>(Device&)>;

namespace host {

class HostDevice;

/// Returns a function that calls `std::unique_ptr<Work> make(const S&, HostDevice&)`. The source file of the Work
/// defines `make` in this namespace; no header declares it. Empty if the backend does not support the operation.
template <class S>
Maker<HostDevice> maker(const S& spec) {
  if constexpr (made_by<S>(Backend::host)) {
    std::unique_ptr<Work> make(const S&, HostDevice&);
    return [spec](HostDevice& device) { return make(spec, device); };
  } else {
    return nullptr;
  }
}

}  // namespace host

namespace cuda {

class CudaDevice;

/// Returns the function `make` for CUDA. Empty if CUDA does not support the operation, and in a build without CUDA,
/// which has no CudaDevice.
template <class S>
Maker<CudaDevice> maker(const S& spec) {
  if constexpr (SHAKEDOWN_WITH_CUDA && made_by<S>(Backend::cuda)) {
    std::unique_ptr<Work> make(const S&, CudaDevice&);
    return [spec](CudaDevice& device) { return make(spec, device); };
  } else {
    return nullptr;
  }
}

}  // namespace cuda

/// An operation to measure. This type consists of the specification of any operation (kernels/ops/) and its makers. The
/// type names no operation, so that a new operation changes no other files, and a program links only the operations
/// that it measures.
struct Spec {
  template <class S>
  requires requires { S::description; }
  Spec(const S& spec)
      : description(S::description),
        bytes([spec] { return footprint(spec); }),
        key_text([spec] { return key(spec); }),
        model_cost([spec] { return cost(spec); }),
        host_maker(host::maker(spec)),
        cuda_maker(cuda::maker(spec)) {}

  std::string_view description;
  std::function<std::size_t()> bytes;  // returns the memory footprint
  std::function<std::string()> key_text;
  std::function<Cost()> model_cost;
  Maker<host::HostDevice> host_maker;
  Maker<cuda::CudaDevice> cuda_maker;
};

// ---------------------------------------------------------------------------------------------------------------------
// Device

/// Facts about the device of this rank. An unknown fact is nullopt, never an empty string.
struct DeviceInfo {
  std::string name;                 // for a GPU such as "NVIDIA H200", for the host the CPU model
  std::optional<std::string> uuid;  // "GPU-4f2a..."
  std::optional<std::string> serial;
  std::optional<std::string> pci;  // "0000:1b:00.0"
  std::optional<std::uint64_t> memory_bytes;
  /// Versions of driver, cuda, cublaslt, cudnn and nccl; an absent one is unknown.
  std::map<std::string, std::string> versions;
  std::optional<std::string> nvls;  // "on" or "off"
  std::optional<bool> multicast;    // true if the GPU and its fabric support it, which NVLS needs
  /// Time in which the driver compiled the first kernels from PTX; 0 if it did not need to.
  std::optional<double> jit_seconds;
  std::vector<NcclLink> nccl_links;  // links that NCCL has made so far, as far as this rank knows
};

/// The processor clock that a device counted while operations ran. The count has the mean in MHz, and the cycles of one
/// operation (median over samples).
struct ClockCount {
  double mhz, cycles;
};

using Choices = std::map<std::string, std::string>;
using Tilings = std::map<std::string, ProductTiling>;

/// The device of one rank. Prepares Works and times them.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;

  /// Runs `repeats` back-to-back operations, waits for the last one, and returns the total seconds of device time. The
  /// caller must have staged them.
  virtual double seconds(Work&, int repeats) = 0;

  /// Called after all ranks have synchronized, right before this rank records its time of arrival and times this Work.
  virtual void ready(Work&) {}

  /// Returns the clock of the operations timed since the last call; nullopt if the backend or the operation does not
  /// support it.
  virtual std::optional<ClockCount> take_clock() { return std::nullopt; }

  /// Returns the choices of the tuner by key, in the backend's own format. When a Work connects and finds its key here,
  /// it uses that choice instead of tuning; a Work that tunes adds its choice. The same on every rank.
  Choices& choices() { return choices_; }

  /// Returns how the chosen algorithms divide their products, by key; for the record. A Work adds those that its
  /// library reports.
  Tilings& tilings() { return tilings_; }

  /// Returns the choices that an earlier run made on the same kind of device; the same on every rank. A Work compares
  /// such a choice with the most likely candidate in one turn. The Work tunes again if the choice is slower on the
  /// slowest rank.
  Choices& remembered() { return remembered_; }

  /// Sets a function to call regularly while this rank waits for others inside an operation and its device responds.
  /// The calls show that the rank is healthy. A device that cannot check while it waits never calls it.
  virtual void while_waiting(std::function<void()>) {}

  /// Sets a function to call after each part of long work outside of `seconds`, such as a candidate of a tuner. The
  /// calls renew the deadline of this rank.
  virtual void while_working(std::function<void()>) {}

  /// Leaves the device without work for this time.
  virtual void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  /// Returns the times of a device that has a clock of its own, for the row; none for real devices.
  virtual Metrics own_clock() { return {}; }

  /// Releases resources of a group. Collective over the group and subject to its patience.
  virtual void leave(Group&) {}

  /// Called after all ranks of this host have destroyed their Works: frees memory that one of them still had mapped.
  virtual void settle() {}

  /// Called from another thread when the job is being ended: aborts communicators so that blocked calls return.
  virtual void abort() noexcept {}

  /// Allocates and plans an operation. Local. Throws Unsupported if this device or backend does not support it; the
  /// text gives the reason with numbers ("needs 17.2 GB, 12.9 GB free"). This base version handles specs that the
  /// backend has no maker for.
  virtual std::unique_ptr<Work> prepare(const Spec&);

 private:
  Choices choices_, remembered_;
  Tilings tilings_;
};

/// True if a remembered choice is no slower than the most likely candidate on the slowest rank; the same on every rank.
/// The arguments are seconds of one turn; HUGE_VAL if it does not run. Collective.
bool still_best(Group&, double remembered, double likeliest);

// ---------------------------------------------------------------------------------------------------------------------
// Backends

/// The position of this rank on its host.
struct Placement {
  int local_rank = 0;
  int local_size = 1;
  int threads = 1;  // the cores that this rank may use, for BLAS and for copy threads
};

/// Tells whether a backend can be used in this process, without opening a device.
struct Availability {
  int devices = 0;
  std::string reason;  // the reason why there is no device; empty if there is one
};

Availability probe(Backend);

/// Opens the device for this rank. Errors: std::runtime_error if there are more ranks on this host than devices, or if
/// the device cannot be opened; the text says what to do.
std::unique_ptr<Device> open_device(Backend, const Placement&);

}  // namespace shakedown
