// Selects how attention sums its gradient, by the capabilities of the library.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "kernels/ops/operation.hpp"

namespace shakedown::training {

/// The first cuDNN version whose deterministic attention gradient runs on Blackwell (NVIDIA/TransformerEngine#2584), in
/// the format of cudnnGetVersion(). Earlier architectures need less.
inline constexpr std::size_t cudnn_for_attention = 91801;

/// Returns the version as text, such as "9.18.1" for 91801.
inline std::string cudnn_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

/// Returns make(true), with a deterministic gradient, or make(false) if the library does not support that. `version` is
/// the version of the cuDNN that `make` uses, nullopt if there is none. Errors: MissingSoftware, with the version
/// needed and the version found, if neither is supported.
template <class Make>
auto choose_attention(const Make& make, std::optional<std::size_t> version) -> decltype(make(true)) {
  try {
    return make(true);
  } catch (const Unsupported&) {  // a nondeterministic gradient may still be supported
  }
  try {
    return make(false);
  } catch (const Unsupported& reason) {
    const std::string needed = cudnn_text(cudnn_for_attention);
    if (!version) throw MissingSoftware("attention needs cuDNN " + needed + " or newer, and this build has none");
    if (*version >= cudnn_for_attention) {
      throw MissingSoftware("attention needs a cuDNN newer than " + cudnn_text(*version) + ": " + reason.what());
    }
    throw MissingSoftware("attention needs cuDNN " + needed + " or newer, and this is " + cudnn_text(*version) + ": " +
                          reason.what());
  }
}

}  // namespace shakedown::training
