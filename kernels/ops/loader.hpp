// Batches of tokens from a disk to a device, as a training step takes them.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/ops/operation.hpp"

namespace shakedown {

/// Batches of packed documents. Worker threads read them ahead from a file that this rank has made. One operation takes
/// many batches, so that its time depends little on what was read ahead before it.
struct LoaderSpec {
  static constexpr std::string_view description = "the batches of a data loader";

  int workers = 4;
  int prefetch = 8;  // number of batches that are read ahead
  std::size_t batch = 2, seq = 4096;
  std::size_t batches = 64;        // of one operation
  std::size_t documents = 32'768;  // 32 to 2,047 tokens each
  std::string folder = {};         // of the file, which has no name
  int rank = 0, ranks = 1;
};

/// Returns the key, such as loader/workers:4/prefetch:8/batch:2/seq:4096.
inline std::string key(const LoaderSpec& s) {
  Key key("loader");
  key.set("workers", s.workers).set("prefetch", s.prefetch).set("batch", s.batch).set("seq", s.seq);
  return key.text();
}
/// Counts the bytes of the tokens.
inline Cost cost(const LoaderSpec& s) {
  return {0, static_cast<double>(s.batches * s.batch * s.seq * sizeof(std::uint32_t))};
}
inline std::size_t footprint(const LoaderSpec& s) { return s.batch * s.seq * sizeof(std::uint32_t); }

}  // namespace shakedown
