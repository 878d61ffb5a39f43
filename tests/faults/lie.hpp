// Selects the fault of a simulated library: SHAKEDOWN_LIE=KIND[@RANK][+N], for example skip, part, or illegal@2+40. The
// libraries in this folder replace the real ones with LD_PRELOAD. The product knows nothing about them.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/reference.hpp"

namespace lie {

struct Order {
  std::string kind;
  int rank = -1;   // -1: all ranks
  long after = 0;  // number of correct calls before the first fault
};

inline const Order& order() {
  static const Order parsed = [] {
    const char* const text = std::getenv("SHAKEDOWN_LIE");
    Order order;
    if (text == nullptr) return order;
    order.kind = text;
    if (const auto plus = order.kind.find('+'); plus != std::string::npos) {
      order.after = std::atol(order.kind.c_str() + plus + 1);
      order.kind.resize(plus);
    }
    if (const auto at = order.kind.find('@'); at != std::string::npos) {
      order.rank = std::atoi(order.kind.c_str() + at + 1);
      order.kind.resize(at);
    }
    return order;
  }();
  return parsed;
}

/// True if this rank must have this fault.
inline bool told(const char* kind) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return order().kind == kind && (order().rank < 0 || order().rank == std::atoi(rank == nullptr ? "0" : rank));
}

/// Counts the calls of one function and selects the faulty ones.
class Calls {
 public:
  /// True for every third call after the correct ones.
  bool every_third() {
    const auto n = count_++;
    return n >= order().after && n % 3 == 2;
  }
  /// True for a random tenth of the calls after the correct ones, the same in every run.
  bool one_in_ten() {
    const auto n = count_++;
    return n >= order().after && shakedown::reference::mix(static_cast<std::uint64_t>(n)) % 10 == 0;
  }
  /// True for the first call after the correct ones.
  bool just_one() { return count_++ == order().after; }
  bool all_later() { return count_++ >= order().after; }

 private:
  std::atomic<long> count_{0};
};

/// Returns the real function that this library replaces.
template <class Function>
Function* real(const char* name, Function* /*of this type*/) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "lie: there is no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace lie
