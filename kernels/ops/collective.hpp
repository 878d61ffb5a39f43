// Collectives: who sends what to whom, and so what must arrive.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/ops/operation.hpp"
#include "kernels/reference.hpp"
#include "kernels/trail.hpp"

namespace shakedown {

enum class CollectiveOp { all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv };
enum class Place { out, in };         // the output has its own buffer, or takes the place of the input
enum class Launch { stream, graph };  // operations are queued one by one, or a batch is recorded once and replayed

constexpr auto words(CollectiveOp) {
  return names("all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv");
}

/// Sum over all ranks. `bytes` is the size of one rank's input (nccl-tests' definition of size).
struct AllReduceSpec {
  static constexpr std::string_view description = "a sum over all ranks";

  DType dtype;
  std::size_t bytes;
  Place place = Place::out;
  Launch launch = Launch::stream;
};

/// allreduce/dtype:f32/bytes:1048576, and /place:in, /launch:graph behind it
inline std::string key(const AllReduceSpec& s) {
  Key key("allreduce");
  key.set("dtype", s.dtype).set("bytes", s.bytes);
  if (s.place == Place::in) key.set("place", "in");
  if (s.launch == Launch::graph) key.set("launch", "graph");
  return key.text();
}
inline Cost cost(const AllReduceSpec& s) { return {0, static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const AllReduceSpec& s) {
  return s.place == Place::in ? Trail::apart(s.bytes).room() : 2 * s.bytes;
}

/// One of the other collectives, out of place, between `ranks` ranks (the whole world). `bytes` is the size as
/// nccl-tests defines it: of everything that all ranks have together for all_gather, reduce_scatter and alltoall, of
/// one rank's buffer for the others. Rank 0 is the root; sendrecv is a ring, each rank sends to the next one.
struct CollectiveSpec {
  static constexpr std::string_view description = "a collective";

  CollectiveOp op;
  DType dtype;
  std::size_t bytes;
  int ranks = 1;
};

/// How the data of a collective lie: what one rank has for, or gets from, one other rank, and the whole buffers of a
/// rank. Where `bytes` does not divide by the ranks, a part is cut to whole vectors of 16 bytes, for alignment, or if
/// it has less to whole elements; it has at least one. Errors: std::invalid_argument without ranks or whole elements.
struct CollectiveLayout {
  std::size_t part, in, out;
};
inline CollectiveLayout layout(const CollectiveSpec& s) {
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

/// collectives/op:all_gather/dtype:f32/bytes:1048576
inline std::string key(const CollectiveSpec& s) {
  return Key("collectives").set("op", s.op).set("dtype", s.dtype).set("bytes", s.bytes).text();
}
/// The size that is really moved, which is not quite `bytes` where that does not divide into one part per rank.
inline Cost cost(const CollectiveSpec& s) {
  const auto sizes = layout(s);
  return {0, static_cast<double>(std::max(sizes.in, sizes.out))};
}
inline std::size_t footprint(const CollectiveSpec& s) {
  const auto sizes = layout(s);
  return sizes.in + sizes.out;
}

inline constexpr int collective_root = 0;

constexpr bool sums(CollectiveOp op) { return op == CollectiveOp::reduce || op == CollectiveOp::reduce_scatter; }

/// In a reduce only the root has an output.
constexpr bool has_output(CollectiveOp op, int rank) { return op != CollectiveOp::reduce || rank == collective_root; }

/// From whom a rank of the ring receives, and to whom it sends.
constexpr int previous_rank(int rank, int ranks) { return (rank + ranks - 1) % ranks; }
constexpr int next_rank(int rank, int ranks) { return (rank + 1) % ranks; }

/// The words that a rank must have received by an operation that only moves data, where rank r sent words 0, 1, ... of
/// writer r.
inline reference::Parts received(const CollectiveSpec& spec, int rank) {
  constexpr std::size_t word = 4;
  const auto sizes = layout(spec);
  const auto me = static_cast<std::uint64_t>(rank);
  switch (spec.op) {
    case CollectiveOp::all_gather: return {sizes.part / word, 0, 0};
    case CollectiveOp::alltoall: return {sizes.part / word, me * (sizes.part / word), 0};
    case CollectiveOp::broadcast: return {sizes.out / word, 0, collective_root};
    case CollectiveOp::sendrecv:
      return {sizes.out / word, 0, static_cast<std::uint64_t>(previous_rank(rank, spec.ranks))};
    case CollectiveOp::reduce:
    case CollectiveOp::reduce_scatter: break;
  }
  throw std::invalid_argument(std::string(name(spec.op)) + " sums, it does not move words");
}

}  // namespace shakedown
