// What a library that lies is told to do: SHAKEDOWN_LIE=KIND[@RANK][+N], for example skip, part, or illegal@2+40. The
// libraries beside this file are put in front of the real ones with LD_PRELOAD; the product knows nothing of them.
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
  int rank = -1;   // -1: all
  long after = 0;  // calls that are left alone first
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

/// Whether this is what this rank was told.
inline bool told(const char* kind) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return order().kind == kind && (order().rank < 0 || order().rank == std::atoi(rank == nullptr ? "0" : rank));
}

/// Counts the calls of one function: is this the one to lie in?
class Calls {
 public:
  /// Every third one after those that are left alone.
  bool every_third() {
    const auto n = count_++;
    return n >= order().after && n % 3 == 2;
  }
  /// One in ten of those after, by chance, the same in every run.
  bool one_in_ten() {
    const auto n = count_++;
    return n >= order().after && shakedown::reference::mix(static_cast<std::uint64_t>(n)) % 10 == 0;
  }
  /// The one after those that are left alone.
  bool just_one() { return count_++ == order().after; }
  bool all_later() { return count_++ >= order().after; }

 private:
  std::atomic<long> count_{0};
};

/// The function that would have been called without us.
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
