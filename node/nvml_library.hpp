// NVML as it was loaded, and calls of its functions. Private to node/nvml.cpp and node/xid_watch.cpp.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/driver_library.hpp"
#include "base/timed_call.hpp"
#include "node/answer.hpp"
#include "node/nvml_abi.hpp"

namespace shakedown {

namespace abi = nvml_abi;

template <class Number>
Number number_of(const abi::FieldValue& field) {
  switch (field.type) {
    case abi::as_double: return static_cast<Number>(field.value.as_double);
    case abi::as_uint: return static_cast<Number>(field.value.as_uint);
    case abi::as_ulong: return static_cast<Number>(field.value.as_ulong);
    case abi::as_longlong: return static_cast<Number>(field.value.as_longlong);
    case abi::as_int: return static_cast<Number>(field.value.as_int);
    case abi::as_ushort: return static_cast<Number>(field.value.as_ushort);
    default: return static_cast<Number>(field.value.as_ulonglong);
  }
}

/// The loaded library. A function is looked up by name at each call; the lookup is much faster than the function.
class NvmlLibrary {
 public:
  explicit NvmlLibrary(Library handle) : handle_(std::move(handle)) {}
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;
  ~NvmlLibrary() { static_cast<void>(call(abi::shutdown)); }

  /// Calls a function. If it fails, returns the reason, else an empty text.
  template <class Signature, class... Arguments>
  std::string call(const abi::Function<Signature>& function, Arguments... arguments) const {
    bool unsupported = false;
    const auto status = try_call(function, unsupported, arguments...);
    return unsupported ? std::string(function.name) + " is missing from the library" : reason(status);
  }

  template <class Signature, class... Arguments>
  abi::Return try_call(const abi::Function<Signature>& function, bool& missing, Arguments... arguments) const {
    auto* const found = reinterpret_cast<Signature*>(dlsym(handle_.get(), function.name));
    missing = found == nullptr;
    const TimedCall call(CallKind::driver, function.name);
    return missing ? abi::function_not_found : found(arguments...);
  }

  /// Returns what a status means; empty on success.
  static std::string reason(abi::Return status);

  /// Returns the value that a function stores through its last argument.
  template <class T, class Signature, class... Arguments>
  Answer<T> get(const abi::Function<Signature>& function, Arguments... arguments) const {
    T value{};
    auto why = call(function, arguments..., &value);
    if (!why.empty()) return Answer<T>::unknown(std::move(why));
    return value;
  }

  template <class Signature, class... Arguments>
  Answer<std::string> text(const abi::Function<Signature>& function, Arguments... arguments) const {
    std::array<char, 128> buffer{};  // NVML's own limits are below 100
    auto why = call(function, arguments..., buffer.data(), static_cast<unsigned>(buffer.size()));
    if (!why.empty()) return Answer<std::string>::unknown(std::move(why));
    return std::string(buffer.data(), strnlen(buffer.data(), buffer.size()));
  }

  template <class Number>
  Answer<Number> field(abi::Device device, unsigned field, unsigned scope = 0) const {
    abi::FieldValue value{};
    value.field = field;
    value.scope = scope;
    auto why = call(abi::field_values, device, 1, &value);
    if (why.empty()) why = reason(value.status);
    if (!why.empty()) return Answer<Number>::unknown(std::move(why));
    return number_of<Number>(value);
  }

 private:
  Library handle_;
};

inline abi::Device handle(void* device) { return static_cast<abi::Device>(device); }

}  // namespace shakedown
