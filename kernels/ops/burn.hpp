// The highest load that a machine can have: products, copies and sums at the same time on all ranks. It shows weak
// power supplies and cooling, which no operation alone does.
#pragma once

#include <optional>

#include "kernels/ops/collective.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/gemm.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown {

/// Each rank multiplies. Meanwhile it copies `bytes` from the next rank of its host, or in its own memory if it is the
/// only one, and all ranks add up `bytes` in an AllReduce of f32. `engine` makes the copies.
struct BurnSpec {
  static constexpr std::string_view description = "products, copies and sums at once";

  GemmSpec gemm;
  Engine engine;
  std::size_t bytes;
  int ranks = 1, ranks_per_host = 1;
};

inline std::optional<PeerShiftSpec> peer_copy_of(const BurnSpec& s) {
  if (s.ranks_per_host < 2) return std::nullopt;
  return PeerShiftSpec{CopyOp::read, s.engine, 1, s.bytes};
}
inline HbmSpec own_copy_of(const BurnSpec& s) { return {HbmOp::copy, s.engine, s.bytes}; }
inline std::optional<CollectiveSpec> sum_of(const BurnSpec& s) {
  if (s.ranks < 2) return std::nullopt;
  return CollectiveSpec{CollectiveOp::all_reduce, DType::f32, s.bytes, s.ranks};
}

/// Returns the key, such as burn/dtype:bf16/m:8192/n:8192/k:8192/bytes:1073741824.
inline std::string key(const BurnSpec& s) {
  Key key("burn");
  key.set("dtype", s.gemm.dtype).set("m", s.gemm.m).set("n", s.gemm.n).set("k", s.gemm.k);
  return key.set("bytes", s.bytes).text();
}
/// Returns the cost of one product. How many products an operation has is only known after connect.
inline Cost cost(const BurnSpec& s) { return cost(s.gemm); }
inline std::size_t footprint(const BurnSpec& s) {
  const auto copy = peer_copy_of(s);
  const auto sum = sum_of(s);
  return footprint(s.gemm) + (copy ? footprint(*copy) : footprint(own_copy_of(s))) + (sum ? footprint(*sum) : 0);
}

}  // namespace shakedown
