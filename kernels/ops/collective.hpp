// Collectives, with the data that each rank sends and the data that must therefore arrive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/group.hpp"
#include "kernels/ops/operation.hpp"
#include "kernels/reference.hpp"
#include "kernels/trail.hpp"

namespace shakedown {

enum class CollectiveOp { all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv };
enum class Place { out, in };  // whether the output has its own buffer or replaces the input
/// Whether operations are queued one by one, or a batch is recorded once and replayed.
enum class Launch { stream, graph };
enum class Scope { world, node };        // whether it runs between all ranks, or within each host on all hosts at once
enum class Memory { plain, symmetric };  // whether NCCL knows the buffers of all ranks as windows at the same offsets
enum class Via { any, net };  // whether the library chooses the path, or all data crosses the network, also in a host

constexpr auto words(CollectiveOp) {
  return names("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv");
}

/// One operation between the `ranks` ranks of a group. `bytes` is the size as nccl-tests defines it: the total over all
/// ranks for all_gather, reduce_scatter and alltoall, and one rank's buffer for the other operations. Rank 0 is the
/// root. sendrecv is a ring in which each rank sends to the next rank; with two ranks, optionally only one sends
/// (`sender`). Only all_reduce can be in place, from a graph, over the network only or in
/// symmetric memory.
struct CollectiveSpec {
  static constexpr std::string_view description = "a collective";

  CollectiveOp op;
  DType dtype;
  std::size_t bytes;
  int ranks = 1;
  Place place = Place::out;
  Launch launch = Launch::stream;
  Scope scope = Scope::world;
  std::optional<int> sender = std::nullopt;
  Via via = Via::any;
  Memory memory = Memory::plain;
};

/// Buffer sizes of a collective: the part that one rank sends to or receives from one other rank, and the whole buffers
/// of a rank. If `bytes` is not divisible by the number of ranks, a part is rounded down to whole vectors of 16 bytes,
/// for alignment. A part smaller than that is rounded down to whole elements; it has at least one. Errors:
/// std::invalid_argument without ranks or whole elements, or for a variant that the operation does not have.
struct CollectiveLayout {
  std::size_t part, in, out;
};
inline CollectiveLayout layout(const CollectiveSpec& s) {
  const auto element = size_of(s.dtype);
  if (s.ranks < 1) throw std::invalid_argument("a collective needs at least one rank");
  if (s.bytes == 0 || s.bytes % element != 0) {
    const std::string what = s.op == CollectiveOp::all_reduce ? "an AllReduce" : "a collective";
    throw std::invalid_argument(what + " needs a positive whole number of elements");
  }
  if (s.op != CollectiveOp::all_reduce &&
      (s.place == Place::in || s.launch == Launch::graph || s.via == Via::net || s.memory == Memory::symmetric)) {
    throw std::invalid_argument(
        "only an AllReduce has a variant in place, from a graph, over the network only or in symmetric memory");
  }
  if (s.op == CollectiveOp::all_reduce || s.op == CollectiveOp::broadcast || s.op == CollectiveOp::reduce ||
      s.op == CollectiveOp::sendrecv) {
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

/// collectives/op:all_gather/dtype:f32/bytes:1048576. AllReduce, the oldest operation, has its own family:
/// allreduce/dtype:f32/bytes:1048576, optionally followed by /place:in, /launch:graph, /via:net or /memory:symmetric.
inline std::string key(const CollectiveSpec& s) {
  Key key(s.op == CollectiveOp::all_reduce ? "allreduce" : "collectives");
  if (s.op != CollectiveOp::all_reduce) key.set("op", s.op);
  key.set("dtype", s.dtype).set("bytes", s.bytes);
  if (s.place == Place::in) key.set("place", "in");
  if (s.launch == Launch::graph) key.set("launch", "graph");
  if (s.via == Via::net) key.set("via", "net");
  if (s.memory == Memory::symmetric) key.set("memory", "symmetric");
  if (s.scope == Scope::node) key.set("scope", "node");
  return key.text();
}
/// Returns the size that is actually moved. The moved size differs slightly from `bytes` if `bytes` is not divisible by
/// the number of ranks.
inline Cost cost(const CollectiveSpec& s) {
  const auto sizes = layout(s);
  return {0, static_cast<double>(std::max(sizes.in, sizes.out))};
}
inline std::size_t footprint(const CollectiveSpec& s) {
  const auto sizes = layout(s);
  return s.place == Place::in ? Trail::apart(s.bytes).room() : sizes.in + sizes.out;
}

/// Returns busbw / algbw as nccl-tests defines it (doc/PERFORMANCE.md): the minimum that each rank must send and
/// receive. With n parts, a rank must send or receive all but its own, which is (n - 1) / n. An AllReduce does both. If
/// every rank receives or sends everything, busbw equals algbw.
constexpr double bus_factor(CollectiveOp op, int ranks) {
  switch (op) {
    case CollectiveOp::all_reduce: return 2.0 * (ranks - 1) / ranks;
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::alltoall: return static_cast<double>(ranks - 1) / ranks;
    case CollectiveOp::broadcast:
    case CollectiveOp::reduce:
    case CollectiveOp::sendrecv: return 1;
  }
  throw std::invalid_argument("unknown operation");
}

inline constexpr int collective_root = 0;

constexpr bool sums(CollectiveOp op) {
  return op == CollectiveOp::all_reduce || op == CollectiveOp::reduce || op == CollectiveOp::reduce_scatter;
}

/// True if the rank has an output. In a reduce only the root has one; a sole sender has none.
inline bool has_output(const CollectiveSpec& s, int rank) {
  return s.sender ? rank != *s.sender : s.op != CollectiveOp::reduce || rank == collective_root;
}

/// Returns the words that a rank must send.
inline reference::Parts sent(const CollectiveSpec& s, int rank) {
  return {layout(s).in / sizeof(std::uint32_t), 0, static_cast<std::uint64_t>(rank)};
}

/// Returns the group that runs the collective, from the group of all ranks. Errors: Unsupported, on all ranks of a
/// host, if that host has a different number of ranks; std::logic_error if the group of all ranks has.
inline Group& group_of(const CollectiveSpec& s, Group& world) {
  Group& group = s.scope == Scope::node ? world.on_host() : world;
  if (group.size() == s.ranks) return group;
  if (s.scope == Scope::world) throw std::logic_error("a collective was prepared for another number of ranks");
  throw Unsupported("this host has " + std::to_string(group.size()) + " ranks, others have " + std::to_string(s.ranks));
}

/// The neighbours of a rank in the ring. A rank receives from the previous rank and sends to the next rank.
constexpr int previous_rank(int rank, int ranks) { return (rank + ranks - 1) % ranks; }
constexpr int next_rank(int rank, int ranks) { return (rank + 1) % ranks; }

/// Returns the words that a rank must have received from an operation that only moves data, if rank r sent words 0, 1,
/// ... of writer r.
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
    case CollectiveOp::all_reduce:
    case CollectiveOp::reduce:
    case CollectiveOp::reduce_scatter: break;
  }
  throw std::invalid_argument(std::string(name(spec.op)) + " sums, it does not move words");
}

}  // namespace shakedown
