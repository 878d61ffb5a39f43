// What the specs of the operations are written in: types of elements, who moves the bytes, and the model cost. An
// operation is one small struct; beside it stand, as one overload set, `key`, the name under which it is measured,
// stored and judged, `cost`, and `footprint`: bytes of device memory that one rank needs for it, workspaces left out,
// known before anything is allocated. Each backend makes a Work of it, but where the struct says which does: `only`.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/backend.hpp"
#include "base/key.hpp"
#include "base/names.hpp"

namespace shakedown {

/// This machine cannot do it: too little memory, no algorithm, no path. Becomes a waiver that all ranks agree on; where
/// it was asked for by name, a row that failed.
struct Unsupported : std::runtime_error {
  explicit Unsupported(const std::string& why, bool asked_by_name = false)
      : std::runtime_error(why), asked_for(asked_by_name) {}
  bool asked_for;
};

/// Software that the operation needs is missing or too old, though the machine is good.
struct MissingSoftware : Unsupported {
  using Unsupported::Unsupported;
};

enum class DType { f64, f32, tf32, f16, bf16, fp8_e4m3, int8, nvfp4, mxfp8 };
enum class Engine { cpu, sm, ce };  // who moves the bytes: CPU cores, a GPU kernel, a GPU copy engine

constexpr auto words(DType) { return names("f64", "f32", "tf32", "f16", "bf16", "fp8_e4m3", "int8", "nvfp4", "mxfp8"); }
constexpr auto words(Engine) { return names("cpu", "sm", "ce"); }

/// Bytes of one element. Errors: std::invalid_argument for packed types below one byte.
inline std::size_t size_of(DType dtype) {
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

/// Bytes of so many elements, packed types included.
inline std::size_t bytes_of(DType dtype, std::size_t elements) {
  return dtype == DType::nvfp4 ? (elements + 1) / 2 : elements * size_of(dtype);
}

/// Whether a backend makes a Work of this spec.
template <class Spec>
constexpr bool made_by(Backend backend) {
  if constexpr (requires { Spec::only; }) {
    return Spec::only == backend;
  } else {
    return true;
  }
}

/// Model cost of one operation on one rank.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

}  // namespace shakedown
