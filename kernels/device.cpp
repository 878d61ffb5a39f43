// The only place that names backends, and the keys of the specs.
#include "kernels/device.hpp"

#include <algorithm>

#include "base/key.hpp"
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

std::size_t accesses(const PeerLatencySpec& s) { return chase::nodes(s.bytes); }

std::string key(const GemmSearchSpec& s) { return Key("gemm").set("dtype", s.dtype).set("shape", "best").text(); }

std::string key(const GemmSpec& s) {
  Key key("gemm");
  key.set("dtype", s.dtype).set("m", s.m).set("n", s.n).set("k", s.k);
  if (s.accumulate == Accumulate::exact) key.set("accumulate", "exact");
  if (s.data == MatrixData::zeros) key.set("data", "zeros");
  if (s.load == Load::sustained) key.set("load", "sustained");
  if (s.active) key.set("active", "one").set("rank", s.active);
  return key.text();
}

std::string key(const HbmSpec& s) {
  return Key("hbm").set("op", s.op).set("engine", s.engine).set("bytes", s.bytes).text();
}

std::string key(const MemoryTestSpec& s) {
  return Key("memtest").set("pattern", s.pattern).set("bytes", "free").set("bytes", s.bytes).text();
}

std::string key(const PeerCopySpec& s) {
  Key key("p2p");
  key.set("op", s.op).set("engine", s.engine);
  if (s.both) key.set("dir", "both");
  return key.set("src", s.src).set("dst", s.dst).set("bytes", s.bytes).text();
}

std::string key(const PeerShiftSpec& s) {
  return Key("p2p").set("op", s.op).set("engine", s.engine).set("shift", s.shift).set("bytes", s.bytes).text();
}

std::string key(const PeerLatencySpec& s) {
  Key key("p2p");
  key.set("op", "latency").set("engine", s.engine).set("src", s.src).set("dst", s.dst);
  return key.set("bytes", s.bytes).text();
}

std::string key(const PcieSpec& s) {
  Key key("pcie");
  key.set("op", s.op);
  if (s.active) key.set("active", "one").set("rank", s.active);
  if (s.far) key.set("numa", "far");
  return key.set("bytes", s.bytes).text();
}

std::string key(const AllReduceSpec& s) {
  Key key("allreduce");
  key.set("dtype", s.dtype).set("bytes", s.bytes);
  if (s.place == Place::in) key.set("place", "in");
  if (s.launch == Launch::graph) key.set("launch", "graph");
  return key.text();
}

std::string key(const CollectiveSpec& s) {
  return Key("collectives").set("op", s.op).set("dtype", s.dtype).set("bytes", s.bytes).text();
}

std::string key(const LoraStepSpec& s) {
  const LoraStepSpec usual;
  Key key("lora_step");
  key.set("model", s.model).set_unless(usual.dtype, "dtype", s.dtype).set("batch", s.batch).set("seq", s.seq);
  key.set_unless(usual.accumulation, "accumulation", s.accumulation).set_unless(usual.retain, "retain", s.retain);
  return key.set_unless(usual.sums, "sums", s.sums).set_unless(usual.bucket, "bucket", s.bucket).text();
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
