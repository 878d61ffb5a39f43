// Common parts of the specs of operations: element types, engines, and model cost. An operation is one small struct
// with a set of overloaded functions next to it. `key` is the name under which the operation is measured, stored and
// judged. `cost` is its model cost. `footprint` is the bytes of device memory that one rank needs, without workspaces,
// known before anything is allocated. Every backend makes a Work of it, unless the struct names a single backend as
// `only`.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/backend.hpp"
#include "base/key.hpp"
#include "base/names.hpp"

namespace shakedown {

/// This machine does not support the operation: too little memory, no algorithm, no path. The exception becomes a
/// waiver that all ranks agree on, or a failed row if the user requested the operation by name.
struct Unsupported : std::runtime_error {
  explicit Unsupported(const std::string& why, bool asked_by_name = false)
      : std::runtime_error(why), asked_for(asked_by_name) {}
  bool asked_for;
};

/// Software that the operation needs is missing or too old. The hardware is not at fault.
struct MissingSoftware : Unsupported {
  using Unsupported::Unsupported;
};

enum class DType { f64, f32, tf32, f16, bf16, fp8_e4m3, int8, nvfp4, mxfp8 };
enum class Engine { cpu, sm, ce };  // what moves the bytes: CPU cores, a GPU kernel or a GPU copy engine

constexpr auto words(DType) { return names("f64", "f32", "tf32", "f16", "bf16", "fp8_e4m3", "int8", "nvfp4", "mxfp8"); }
constexpr auto words(Engine) { return names("cpu", "sm", "ce"); }

/// Returns the bytes of one element. Errors: std::invalid_argument for packed types below one byte.
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

/// Returns the bytes of `elements` elements, packed types included.
inline std::size_t bytes_of(DType dtype, std::size_t elements) {
  return dtype == DType::nvfp4 ? (elements + 1) / 2 : elements * size_of(dtype);
}

/// True if the backend makes a Work of this spec.
template <class Spec>
constexpr bool made_by(Backend backend) {
  if constexpr (requires { Spec::only; }) {
    return Spec::only == backend;
  } else {
    return true;
  }
}

/// The cost of one operation on one rank according to the model.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

}  // namespace shakedown
