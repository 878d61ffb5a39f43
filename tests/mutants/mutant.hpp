// Included by mutated copies of sources (tests/mutants/mutants.py): one build holds all mutants, and the variable
// MUTANT says which one lives in a process. MUTANT_REACHED names a file of bytes in which each mutant that is asked for
// leaves a 1.
#pragma once
#pragma GCC system_header  // no warnings of comparisons that were made elsewhere

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <concepts>
#include <cstdlib>
#include <utility>

namespace mutation {

inline constexpr int most = 4096;

inline int chosen() {
  static const int number = [] {
    const char* const text = std::getenv("MUTANT");
    return text == nullptr ? -1 : std::atoi(text);
  }();
  return number;
}

inline char* reached() {
  static char* const bytes = [] {
    const char* const file = std::getenv("MUTANT_REACHED");
    const int descriptor = file == nullptr ? -1 : ::open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0 || ::ftruncate(descriptor, most) != 0) return static_cast<char*>(nullptr);
    void* const begin = ::mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    return begin == MAP_FAILED ? nullptr : static_cast<char*>(begin);
  }();
  return bytes;
}

/// Whether mutant `number` lives.
inline bool lives(int number) {
  if (char* const bytes = reached()) bytes[number] = 1;
  return chosen() == number;
}

/// A comparison that is another one where its mutant lives: a < Less<7>() < b. It binds as the comparison does.
enum class Compare { less, less_equal, greater, greater_equal, equal, not_equal };
template <Compare, int>
struct Between {};
template <class Left, Compare how, int number>
struct Half {
  Left&& left;
};

template <Compare how, class Left, class Right>
bool compared(Left&& left, Right&& right) {
  if constexpr (how == Compare::less) return left < right;
  if constexpr (how == Compare::less_equal) return left <= right;
  if constexpr (how == Compare::greater) return left > right;
  if constexpr (how == Compare::greater_equal) return left >= right;
  if constexpr (how == Compare::equal) return left == right;
  if constexpr (how == Compare::not_equal) return left != right;
}
constexpr Compare other(Compare how) {
  switch (how) {
    case Compare::less: return Compare::less_equal;
    case Compare::less_equal: return Compare::less;
    case Compare::greater: return Compare::greater_equal;
    case Compare::greater_equal: return Compare::greater;
    case Compare::equal: return Compare::not_equal;
    case Compare::not_equal: return Compare::equal;
  }
  return how;
}

template <class Left, Compare how, int number>
Half<Left, how, number> operator<(Left&& left, Between<how, number>) {
  return {std::forward<Left>(left)};
}
template <class Left, Compare how, int number>
Half<Left, how, number> operator==(Left&& left, Between<how, number>) {
  return {std::forward<Left>(left)};
}
template <class Left, Compare how, int number, class Right>
bool operator<(Half<Left, how, number>&& half, Right&& right) {
  return lives(number) ? compared<other(how)>(half.left, right) : compared<how>(half.left, right);
}
template <class Left, Compare how, int number, class Right>
bool operator==(Half<Left, how, number>&& half, Right&& right) {
  return lives(number) ? compared<other(how)>(half.left, right) : compared<how>(half.left, right);
}

}  // namespace mutation
