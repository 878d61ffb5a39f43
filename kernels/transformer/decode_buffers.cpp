#include "kernels/transformer/decode_buffers.hpp"

namespace shakedown {

namespace training {

Plan plan(const DecodeSpec& spec, std::size_t element, std::size_t master, std::size_t workspace_bytes) {
  const auto shape = decode_shape(spec);
  return dry_run(element, master, [&]<class Element, class Master>(Arena& arena) {
    static_cast<void>(DecodeBuffers<Element, Master>(arena, spec, shape, workspace_bytes));
  });
}

Plan planned(const DecodeSpec& s) {
  const auto element = s.dtype == DType::fp8_e4m3 ? size_of(DType::bf16) : size_of(s.dtype);
  return plan(s, element, std::max<std::size_t>(element, 4), 0);
}

}  // namespace training

std::size_t footprint(const DecodeSpec& s) { return training::planned(s).bytes; }

}  // namespace shakedown
