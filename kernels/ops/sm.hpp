// Operations in which each SM of a GPU does the same work, so that a wrong result names its SM on one GPU alone. On the
// host, a worker thread takes the place of an SM.
#pragma once

#include "kernels/ops/gemm.hpp"
#include "kernels/ops/operation.hpp"

namespace shakedown {

/// Tile products: each SM computes the same products C (m x n) = A (m x k) B (k x n) in turns, `products` in one
/// operation, and compares every word with the exact result. The numbers are integers whose sums are exact in f32.
struct TileProductSpec {
  static constexpr std::string_view description = "the same matrix products on every SM";

  DType dtype = DType::bf16;
  int m = 128, n = 256, k = 8192;
  int products = 64;
  Load load = Load::burst;
};

/// Returns the key, such as sm/op:product/dtype:bf16/m:128/n:256/k:8192[/load:sustained].
inline std::string key(const TileProductSpec& s) {
  Key key("sm");
  key.set("op", "product").set("dtype", s.dtype).set("m", s.m).set("n", s.n).set("k", s.k);
  if (s.load == Load::sustained) key.set("load", "sustained");
  return key.text();
}
/// Returns the work of one SM, because a spec does not know how many there are.
inline Cost cost(const TileProductSpec& s) { return {2.0 * s.m * s.n * s.k * s.products, 0}; }
inline std::size_t footprint(const TileProductSpec&) { return std::size_t{8} << 20; }

/// Page reads: each page of 2 MiB is written by one SM, another one in each operation, and every SM reads and compares
/// every page. The hash from addresses to memory channels is not public, so a page is the smallest unit of memory that
/// a finding can name.
struct PageReadSpec {
  static constexpr std::string_view description = "reads of the same pages by every SM";
  static constexpr Backend only = Backend::cuda;
  static constexpr std::size_t page_bytes = std::size_t{2} << 20;

  std::size_t bytes;

  std::size_t pages() const { return bytes / page_bytes; }
};

/// Returns the key, such as sm/op:read/bytes:1073741824.
inline std::string key(const PageReadSpec& s) { return Key("sm").set("op", "read").set("bytes", s.bytes).text(); }
/// Returns the work of one SM.
inline Cost cost(const PageReadSpec& s) { return {0, static_cast<double>(s.bytes)}; }
inline std::size_t footprint(const PageReadSpec& s) { return s.bytes; }

}  // namespace shakedown
