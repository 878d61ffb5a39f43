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
#include "kernels/check.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown {

// ---------------------------------------------------------------------------------------------------------------------
// Work

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

  /// A sum over all bits of the output of the last operation (digest_of), the same for each operation from the same
  /// input. Nothing: this rank has no output, it need not have the same bits, or it is larger than most_digested. The
  /// same answer on this rank each time.
  virtual std::optional<std::uint64_t> digest() const { return std::nullopt; }

  /// True if connect has run the operation just as it will be timed, so that a digest tells of that.
  virtual bool runs_in_connect() const { return false; }

  virtual Cost cost() const = 0;

  /// Bytes of device memory that the prepared operation holds.
  virtual std::size_t bytes() const = 0;

  /// True if one call needs all ranks, so that ranks wait for each other inside it.
  virtual bool collective() const = 0;
  /// Of these only the ranks of one host: every host does it by itself.
  virtual bool on_host() const { return false; }

  /// True if what is timed are the calls themselves, on this rank's processor: a device's clock, and its sensors, say
  /// nothing of them.
  virtual bool on_processor() const { return false; }

  /// True if a device that can should run one more operation, untimed, in front of each sample of a collective Work, so
  /// that the launch and the ranks' arrival are not in it. The same on every rank.
  virtual bool needs_lead_in() const { return false; }

  /// Nothing: samples follow each other without rests. Valid after connect, the same on every rank.
  virtual std::optional<Bursts> bursts() const { return std::nullopt; }

  /// The rank of the world at which the time measured on this rank is reported: itself by default, the destination for
  /// a peer copy, nullopt for a rank that only stands by. Valid after connect.
  virtual std::optional<int> credited_rank(int own_rank) const { return own_rank; }

  /// Further figures of this rank after verify. A collective Work may ask its peers, and measure.
  virtual Metrics metrics() { return {}; }

  /// What kept the operations since the last reset from being done though nobody has computed anything wrong: a disk
  /// that is full. The same on all ranks; empty where they were done.
  virtual std::string obstacle() const { return ""; }

  /// What a library chose for it, for the record: "RING/LL128". Empty where it does not say.
  virtual std::string chosen() const { return ""; }

  /// Damages one element of the output; lets the tests prove that verify sees it.
  virtual void corrupt() {}

  /// Makes one number of the input not a number; lets the tests prove that it does not become a result. Errors:
  /// std::logic_error for an operation that has no such test.
  virtual void poison_input() { throw std::logic_error("this operation has no test with a number that is none"); }
};

// ---------------------------------------------------------------------------------------------------------------------
// Spec

template <class Device>
using Maker = std::function<std::unique_ptr<Work>(Device&)>;

namespace host {

class HostDevice;

/// Calls `std::unique_ptr<Work> make(const S&, HostDevice&)`, which the file of the Work defines in this namespace and
/// no header lists. Empty if the backend does not make it.
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

/// The same for CUDA. Empty in a build without it, too, where there is no CudaDevice to ask for it.
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

/// What can be measured: any operation's own spec (kernels/ops/) with its makers. It names no operation, so that a new
/// one changes no file of others, and a program links only those that it measures.
struct Spec {
  template <class S>
    requires requires { S::description; }
  Spec(const S& spec)
      : description(S::description),
        bytes([spec] { return footprint(spec); }),
        host_maker(host::maker(spec)),
        cuda_maker(cuda::maker(spec)) {}

  std::string_view description;
  std::function<std::size_t()> bytes;  // its footprint
  Maker<host::HostDevice> host_maker;
  Maker<cuda::CudaDevice> cuda_maker;
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
/// operation, the median over samples.
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

  /// All ranks have met, and time this Work next: the last moment of this rank before its time of arrival.
  virtual void ready(Work&) {}

  /// Of what was timed since the last call; nothing where the backend or the operation does not tell.
  virtual std::optional<ClockCount> take_clock() { return std::nullopt; }

  /// What tuning chose, by key, in words of the backend. A Work whose key is here when it connects takes that instead
  /// of tuning; one that tunes adds its choice, the same on every rank.
  Choices& choices() { return choices_; }

  /// What an earlier run has chosen on such devices, the same on every rank. A Work takes one turn of it against the
  /// likeliest before it takes it; where the slowest rank loses by it, it tunes.
  Choices& remembered() { return remembered_; }

  /// What to call now and then while this rank waits inside an operation for others and its device answers: a rank that
  /// does not call it is not known to be well. A device that cannot look while it waits never calls it.
  virtual void while_waiting(std::function<void()>) {}

  /// A group comes to its end: what was made for it goes. Collective over the group; its patience counts.
  virtual void leave(Group&) {}

  /// Every rank of this host has given back its Works: memory that one of them still had mapped goes, too.
  virtual void settle() {}

  /// Called from another thread when the job is being ended: aborts communicators so that blocked calls return.
  virtual void abort() noexcept {}

  /// Local: allocates and plans. Unsupported where this device or backend cannot do it; the text says why, with numbers
  /// ("needs 17.2 GB, 12.9 GB free"). That of this class is for a spec that the backend has no maker of.
  virtual std::unique_ptr<Work> prepare(const Spec&);

 private:
  Choices choices_, remembered_;
};

/// Whether what was remembered is still no slower than the likeliest for the slowest rank; the same on every rank.
/// Seconds of one turn each; HUGE_VAL: it does not run. Collective.
bool still_best(Group&, double remembered, double likeliest);

// ---------------------------------------------------------------------------------------------------------------------
// Backends

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
