// The only place that names backends, and the keys of the specs.
#include "kernels/device.hpp"

#include <algorithm>

#include "kernels/backends.hpp"
#include "kernels/chase.hpp"
#include "kernels/trail.hpp"
#include "kernels/training/buffers.hpp"

namespace shakedown {

namespace {

/// Arrays that an operation reads and writes.
std::size_t arrays(HbmOp op) {
  switch (op) {
    case HbmOp::read:
    case HbmOp::write: return 1;
    case HbmOp::copy:
    case HbmOp::scale: return 2;
    case HbmOp::add:
    case HbmOp::triad: return 3;
  }
  throw std::invalid_argument("unknown operation");
}

[[noreturn]] void unsupported(const Device& device, const std::string& what) {
  throw Unsupported(what + " is not implemented for " + device.info().name);
}

}  // namespace

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::tf32: return "tf32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::fp8_e4m3: return "fp8_e4m3";
    case DType::int8: return "int8";
    case DType::nvfp4: return "nvfp4";
    case DType::mxfp8: return "mxfp8";
  }
  throw std::invalid_argument("unknown dtype");
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32:
    case DType::tf32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::fp8_e4m3:
    case DType::mxfp8:
    case DType::int8: return 1;
    case DType::nvfp4: break;
  }
  throw std::invalid_argument("an element of " + std::string(name(dtype)) + " has no whole number of bytes");
}

std::size_t bytes_of(DType dtype, std::size_t elements) {
  return dtype == DType::nvfp4 ? (elements + 1) / 2 : elements * size_of(dtype);
}

std::size_t product_size_of(DType dtype) {
  switch (dtype) {
    case DType::fp8_e4m3:
    case DType::nvfp4:
    case DType::mxfp8: return 2;
    case DType::int8: return 4;
    default: return size_of(dtype);
  }
}

std::string_view name(Engine engine) {
  switch (engine) {
    case Engine::cpu: return "cpu";
    case Engine::sm: return "sm";
    case Engine::ce: return "ce";
  }
  throw std::invalid_argument("unknown engine");
}

std::string_view name(CopyOp op) { return op == CopyOp::read ? "read" : "write"; }

std::string_view name(HbmOp op) {
  switch (op) {
    case HbmOp::copy: return "copy";
    case HbmOp::read: return "read";
    case HbmOp::write: return "write";
    case HbmOp::scale: return "scale";
    case HbmOp::add: return "add";
    case HbmOp::triad: return "triad";
  }
  throw std::invalid_argument("unknown operation");
}

std::string_view name(TestPattern pattern) {
  switch (pattern) {
    case TestPattern::address: return "address";
    case TestPattern::complement: return "complement";
    case TestPattern::alternating: return "alternating";
    case TestPattern::random: return "random";
  }
  throw std::invalid_argument("unknown pattern");
}

std::string_view name(PcieOp op) {
  switch (op) {
    case PcieOp::h2d: return "h2d";
    case PcieOp::d2h: return "d2h";
    case PcieOp::both: return "both";
  }
  throw std::invalid_argument("unknown operation");
}

std::string_view name(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::all_gather: return "all_gather";
    case CollectiveOp::reduce_scatter: return "reduce_scatter";
    case CollectiveOp::alltoall: return "alltoall";
    case CollectiveOp::broadcast: return "broadcast";
    case CollectiveOp::reduce: return "reduce";
    case CollectiveOp::sendrecv: return "sendrecv";
  }
  throw std::invalid_argument("unknown operation");
}

std::string_view name(Backend backend) { return backend == Backend::host ? "host" : "cuda"; }

std::size_t accesses(const PeerLatencySpec& s) { return chase::nodes(s.bytes); }

/// What is not the default comes last, so that names stay what they were when a variant is added.
std::string key(const GemmSearchSpec& s) { return "gemm/dtype:" + std::string(name(s.dtype)) + "/shape:best"; }

std::string key(const GemmSpec& s) {
  auto key = "gemm/dtype:" + std::string(name(s.dtype)) + "/m:" + std::to_string(s.m) + "/n:" + std::to_string(s.n) +
             "/k:" + std::to_string(s.k);
  if (s.accumulate == Accumulate::exact) key += "/accumulate:exact";
  if (s.data == MatrixData::zeros) key += "/data:zeros";
  if (s.load == Load::sustained) key += "/load:sustained";
  if (s.active) key += "/active:one/rank:" + std::to_string(*s.active);
  return key;
}

std::string key(const HbmSpec& s) {
  return "hbm/op:" + std::string(name(s.op)) + "/engine:" + std::string(name(s.engine)) +
         "/bytes:" + std::to_string(s.bytes);
}

std::string key(const MemoryTestSpec& s) {
  return "memtest/pattern:" + std::string(name(s.pattern)) + "/bytes:" + (s.bytes ? std::to_string(*s.bytes) : "free");
}

std::string key(const PeerCopySpec& s) {
  return "p2p/op:" + std::string(name(s.op)) + "/engine:" + std::string(name(s.engine)) + (s.both ? "/dir:both" : "") +
         "/src:" + std::to_string(s.src) + "/dst:" + std::to_string(s.dst) + "/bytes:" + std::to_string(s.bytes);
}

std::string key(const PeerShiftSpec& s) {
  return "p2p/op:" + std::string(name(s.op)) + "/engine:" + std::string(name(s.engine)) +
         "/shift:" + std::to_string(s.shift) + "/bytes:" + std::to_string(s.bytes);
}

std::string key(const PeerLatencySpec& s) {
  return "p2p/op:latency/engine:" + std::string(name(s.engine)) + "/src:" + std::to_string(s.src) +
         "/dst:" + std::to_string(s.dst) + "/bytes:" + std::to_string(s.bytes);
}

std::string key(const PcieSpec& s) {
  return "pcie/op:" + std::string(name(s.op)) + (s.active ? "/active:one/rank:" + std::to_string(*s.active) : "") +
         (s.far ? "/numa:far" : "") + "/bytes:" + std::to_string(s.bytes);
}

std::string key(const AllReduceSpec& s) {
  return "allreduce/dtype:" + std::string(name(s.dtype)) + "/bytes:" + std::to_string(s.bytes) +
         (s.place == Place::in ? "/place:in" : "") + (s.launch == Launch::graph ? "/launch:graph" : "");
}

std::string key(const CollectiveSpec& s) {
  return "collectives/op:" + std::string(name(s.op)) + "/dtype:" + std::string(name(s.dtype)) +
         "/bytes:" + std::to_string(s.bytes);
}

std::string key(const LoraStepSpec& s) {
  return "lora_step/model:" + s.model + (s.dtype == DType::bf16 ? "" : "/dtype:" + std::string(name(s.dtype))) +
         "/batch:" + std::to_string(s.batch) + "/seq:" + std::to_string(s.seq) +
         (s.accumulation == 1 ? "" : "/accumulation:" + std::to_string(s.accumulation)) +
         (s.retain == training::Retain::all ? "" : "/retain:" + std::string(training::name(s.retain))) +
         (s.sums == DType::f32 ? "" : "/sums:" + std::string(name(s.sums))) +
         (s.bucket == LoraStepSpec{}.bucket ? "" : "/bucket:" + std::to_string(s.bucket));
}

Cost cost(const GemmSearchSpec&) { return {}; }
Cost cost(const GemmSpec& s) { return {2.0 * s.m * s.n * s.k, 0}; }
Cost cost(const HbmSpec& s) { return {0, static_cast<double>(arrays(s.op)) * static_cast<double>(s.bytes)}; }
Cost cost(const MemoryTestSpec& s) { return {0, 2.0 * static_cast<double>(s.bytes.value_or(0))}; }
Cost cost(const PeerCopySpec& s) { return {0, (s.both ? 2.0 : 1.0) * static_cast<double>(s.bytes)}; }
Cost cost(const PeerShiftSpec& s) { return {0, static_cast<double>(s.bytes)}; }
Cost cost(const PeerLatencySpec& s) { return {0, 8.0 * static_cast<double>(accesses(s))}; }
Cost cost(const PcieSpec& s) { return {0, (s.op == PcieOp::both ? 2.0 : 1.0) * static_cast<double>(s.bytes)}; }
Cost cost(const AllReduceSpec& s) { return {0, static_cast<double>(s.bytes)}; }
Cost cost(const CollectiveSpec& s) {
  const auto sizes = layout(s);
  return {0, static_cast<double>(std::max(sizes.in, sizes.out))};
}
Cost cost(const LoraStepSpec& s) {
  const auto shape = training::step_shape(s);
  const auto tokens = static_cast<double>(shape.accumulation * shape.tokens());
  return {tokens * training::token_flops(shape.model, shape.lora, shape.seq).total(), 0};
}

std::size_t footprint(const GemmSearchSpec& s) {
  return footprint(GemmSpec{s.dtype, GemmSearchSpec::longest, GemmSearchSpec::longest, GemmSearchSpec::longest});
}

std::size_t footprint(const GemmSpec& s) {
  const auto m = static_cast<std::size_t>(s.m), n = static_cast<std::size_t>(s.n), k = static_cast<std::size_t>(s.k);
  return bytes_of(s.dtype, m * k) + bytes_of(s.dtype, k * n) + m * n * product_size_of(s.dtype);
}
std::size_t footprint(const HbmSpec& s) { return arrays(s.op) * s.bytes; }
std::size_t footprint(const MemoryTestSpec& s) { return s.bytes.value_or(0); }
std::size_t footprint(const PeerCopySpec& s) { return 2 * s.bytes; }
std::size_t footprint(const PeerShiftSpec& s) { return 2 * s.bytes; }
std::size_t footprint(const PeerLatencySpec& s) { return s.bytes; }
std::size_t footprint(const PcieSpec& s) { return (s.op == PcieOp::both ? 2 : 1) * s.bytes; }
std::size_t footprint(const AllReduceSpec& s) {
  return s.place == Place::in ? Trail::apart(s.bytes).room() : 2 * s.bytes;
}
std::size_t footprint(const CollectiveSpec& s) {
  const auto sizes = layout(s);
  return sizes.in + sizes.out;
}
std::size_t footprint(const LoraStepSpec& s) {
  const auto element = size_of(s.dtype);
  return training::plan(training::step_shape(s), element, std::max<std::size_t>(element, 4), 0).bytes;
}

CollectiveLayout layout(const CollectiveSpec& s) {
  const auto element = size_of(s.dtype);
  if (s.ranks < 1) throw std::invalid_argument("a collective needs at least one rank");
  if (s.bytes == 0 || s.bytes % element != 0) {
    throw std::invalid_argument("a collective needs a positive whole number of elements");
  }
  if (s.op == CollectiveOp::broadcast || s.op == CollectiveOp::reduce || s.op == CollectiveOp::sendrecv) {
    return {s.bytes, s.bytes, s.bytes};
  }
  const auto ranks = static_cast<std::size_t>(s.ranks);
  constexpr std::size_t vector = 16;
  std::size_t part = s.bytes / ranks;
  if (s.bytes % ranks != 0 || part % element != 0) {
    const auto unit = part >= vector ? vector : element;
    part = std::max(part / unit * unit, element);
  }
  const auto whole = part * ranks;
  return {part, s.op == CollectiveOp::all_gather ? part : whole, s.op == CollectiveOp::reduce_scatter ? part : whole};
}

std::unique_ptr<Work> Device::prepare(const GemmSpec&) { unsupported(*this, "gemm"); }
std::unique_ptr<Work> Device::prepare(const GemmSearchSpec&) { unsupported(*this, "the search for a shape"); }
std::unique_ptr<Work> Device::prepare(const HbmSpec&) { unsupported(*this, "hbm"); }
std::unique_ptr<Work> Device::prepare(const MemoryTestSpec&) { unsupported(*this, "memtest"); }
std::unique_ptr<Work> Device::prepare(const PeerCopySpec&) { unsupported(*this, "p2p"); }
std::unique_ptr<Work> Device::prepare(const PeerShiftSpec&) { unsupported(*this, "p2p"); }
std::unique_ptr<Work> Device::prepare(const PeerLatencySpec&) { unsupported(*this, "p2p"); }
std::unique_ptr<Work> Device::prepare(const PcieSpec&) {
  throw Unsupported("the host backend has no GPU to copy to or from");
}
std::unique_ptr<Work> Device::prepare(const AllReduceSpec&) { unsupported(*this, "allreduce"); }
std::unique_ptr<Work> Device::prepare(const CollectiveSpec&) { unsupported(*this, "collectives"); }
std::unique_ptr<Work> Device::prepare(const LoraStepSpec&) { unsupported(*this, "lora_step"); }

Availability probe(Backend backend) { return backend == Backend::host ? host::probe() : cuda::probe(); }

std::unique_ptr<Device> open_device(Backend backend, const Placement& placement) {
  return backend == Backend::host ? host::open_device(placement) : cuda::open_device(placement);
}

}  // namespace shakedown
