// The values of all ranks for one metric of a row. Results of 10,000 GPUs have 27 million values, so a column can be
// compressed without loss.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "base/optional_double.hpp"

namespace shakedown {

/// Has the interface of std::vector<OptionalDouble>, as far as it is used. Reads leave a compressed column compressed.
/// Access that permits changes restores 8 bytes for each value.
class RankValues {
 public:
  using value_type = OptionalDouble;
  class const_iterator;

  RankValues() = default;
  explicit RankValues(std::size_t count, OptionalDouble value = {}) : values_(count, value) {}
  RankValues(std::initializer_list<OptionalDouble> values) : values_(values) {}
  RankValues(std::vector<OptionalDouble> values) : values_(std::move(values)) {}

  std::size_t size() const { return bytes_.empty() ? values_.size() : count_; }
  bool empty() const { return size() == 0; }
  OptionalDouble operator[](std::size_t i) const { return bytes_.empty() ? values_[i] : compressed(i); }
  OptionalDouble at(std::size_t) const;
  OptionalDouble front() const { return (*this)[0]; }
  OptionalDouble back() const { return (*this)[size() - 1]; }
  inline const_iterator begin() const;
  inline const_iterator end() const;

  OptionalDouble& operator[](std::size_t i) { return restored()[i]; }
  OptionalDouble& at(std::size_t i) { return restored().at(i); }
  OptionalDouble& front() { return restored().front(); }
  OptionalDouble& back() { return restored().back(); }
  std::vector<OptionalDouble>::iterator begin() { return restored().begin(); }
  std::vector<OptionalDouble>::iterator end() { return restored().end(); }
  void push_back(OptionalDouble value) { restored().push_back(value); }
  template <class Value>
  OptionalDouble& emplace_back(const Value& value) {
    return restored().emplace_back(value);
  }
  void reserve(std::size_t count) { restored().reserve(count); }
  void resize(std::size_t count) { restored().resize(count); }
  void assign(std::size_t count, OptionalDouble value) { restored().assign(count, value); }
  void clear() { restored().clear(); }

  /// Stores the differences from the least value, in as few bytes as the largest one needs. Equal values need no bytes,
  /// temperatures one, rates of a fleet six or seven.
  void compress();

  friend bool operator==(const RankValues&, const RankValues&);

 private:
  OptionalDouble compressed(std::size_t i) const;
  std::vector<OptionalDouble>& restored();

  std::vector<OptionalDouble> values_;  // empty if the column is compressed
  std::vector<unsigned char> bytes_;    // the codes of a compressed column; empty if it is not compressed
  std::size_t count_ = 0;
  std::uint64_t least_ = 0, mask_ = 0;
  std::uint64_t missing_codes_ = 0;  // 1 if a value is missing, whose code is 0; else 0
  unsigned width_ = 0, shift_ = 0;   // bytes of a code; zero bits at the end of all differences
};

/// Reads values by random access. The values have no address, because they may be compressed.
class RankValues::const_iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = OptionalDouble;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = OptionalDouble;

  const_iterator() = default;
  const_iterator(const RankValues& values, std::size_t index) : values_(&values), index_(index) {}

  OptionalDouble operator*() const { return (*values_)[index_]; }
  OptionalDouble operator[](difference_type n) const { return *(*this + n); }
  const_iterator& operator+=(difference_type n) {
    index_ += static_cast<std::size_t>(n);
    return *this;
  }
  const_iterator& operator-=(difference_type n) { return *this += -n; }
  const_iterator& operator++() { return *this += 1; }
  const_iterator& operator--() { return *this += -1; }
  const_iterator operator++(int) { return std::exchange(*this, *this + 1); }
  const_iterator operator--(int) { return std::exchange(*this, *this - 1); }

  friend const_iterator operator+(const_iterator at, difference_type n) { return at += n; }
  friend const_iterator operator+(difference_type n, const_iterator at) { return at += n; }
  friend const_iterator operator-(const_iterator at, difference_type n) { return at -= n; }
  friend difference_type operator-(const const_iterator& a, const const_iterator& b) {
    return static_cast<difference_type>(a.index_) - static_cast<difference_type>(b.index_);
  }
  friend bool operator==(const const_iterator& a, const const_iterator& b) { return a.index_ == b.index_; }
  friend auto operator<=>(const const_iterator& a, const const_iterator& b) { return a.index_ <=> b.index_; }

 private:
  const RankValues* values_ = nullptr;
  std::size_t index_ = 0;
};

inline RankValues::const_iterator RankValues::begin() const { return {*this, 0}; }
inline RankValues::const_iterator RankValues::end() const { return {*this, size()}; }

}  // namespace shakedown
