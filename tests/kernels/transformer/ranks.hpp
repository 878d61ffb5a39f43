// Ranks as threads of a test: a Group that sums and gathers through shared memory.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/group.hpp"

namespace shakedown {

class ThreadRank : public GroupOfOne<Group> {
 public:
  struct Shared {
    explicit Shared(int ranks) : met(ranks), messages(static_cast<std::size_t>(ranks)) {}
    std::barrier<> met;
    std::vector<std::string> messages;
  };

  ThreadRank(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.messages.size()); }
  void barrier() override { shared_.met.arrive_and_wait(); }
  std::vector<std::string> gather(const std::string& message) override {
    shared_.messages[static_cast<std::size_t>(rank_)] = message;
    barrier();
    auto all = shared_.messages;
    barrier();
    return all;
  }
  void broadcast(std::span<std::byte> data, int root) override {
    const auto all = gather(text(data));
    std::memcpy(data.data(), all[static_cast<std::size_t>(root)].data(), data.size());
  }
  std::unique_ptr<Group> split(int, int) override { throw std::logic_error("threads have no groups of some of them"); }
  void sum(std::span<const float> in, std::span<float> out) override { add(in, out); }
  void sum(std::span<const double> in, std::span<double> out) override { add(in, out); }
  void reduce_scatter(std::span<const float> in, std::span<float> out) override {
    std::vector<float> all(in.size());
    add(in, std::span<float>(all));
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(rank_) * std::ssize(out), out.size(), out.begin());
  }
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out) override {
    const auto part = in.size() / static_cast<std::size_t>(size());
    auto* to = out.data();
    for (const auto& each : gather(text(in))) {
      std::memcpy(to, each.data() + static_cast<std::size_t>(rank_) * part, part);
      to += part;
    }
  }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    auto* to = out.data();
    for (const auto& each : gather(text(in))) {
      std::memcpy(to, each.data(), each.size());
      to += each.size();
    }
  }

 private:
  static std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// Adds in rank order.
  template <class T>
  void add(std::span<const T> in, std::span<T> out) {
    const auto all = gather(text(std::as_bytes(in)));
    std::vector<T> one(in.size()), sum(in.size());
    for (const auto& each : all) {
      std::memcpy(one.data(), each.data(), each.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    std::copy(sum.begin(), sum.end(), out.begin());
  }

  Shared& shared_;
  int rank_;
};

/// Runs `what` on `ranks` threads at once. An exception ends the program.
inline void run_ranks(int ranks, const std::function<void(Group&)>& what) {
  ThreadRank::Shared shared(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRank group(shared, rank);
      what(group);
    });
  }
}

}  // namespace shakedown
