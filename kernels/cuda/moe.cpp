// The exchange of tokens with experts over the memory of peers, on one host. dispatch writes tokens to the memory of
// the ranks of their experts; combine reads the outputs of these ranks and adds them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/archive.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/moe.hpp"
#include "kernels/cuda/peer_memory.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::size_t counter_bytes = max_moe_ranks * sizeof(unsigned);

template <class T>
Buffer upload(const Gpu& gpu, const std::vector<T>& values) {
  Buffer buffer(std::max<std::size_t>(values.size(), 1) * sizeof(T));
  if (!values.empty()) gpu.write(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

/// Returns the seconds of the slowest rank for `repeats` operations in a row. Collective.
double slowest_seconds(const Gpu& gpu, Group& group, int repeats, const std::function<void()>& enqueue) {
  group.barrier();
  const auto begin = make_event(), end = make_event();
  check(cudaEventRecord(begin.get(), gpu.stream()));
  for (int i = 0; i < repeats; ++i) enqueue();
  check(cudaEventRecord(end.get(), gpu.stream()));
  gpu.synchronize();
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  const auto all = gather(group, static_cast<double>(milliseconds));
  return *std::max_element(all.begin(), all.end()) / 1e3;
}

class Moe final : public Work {
 public:
  Moe(const MoeSpec& spec, Gpu& gpu)
      : spec_(spec),
        routing_(spec),
        gpu_(gpu),
        trail_((sends() ? routing_.most_received() : spec.tokens) * token_bytes(spec)),
        data_bytes_((sends() ? trail_.room() : routing_.most_received() * token_bytes(spec)) / 256 * 256 + 256),
        memory_(gpu, data_bytes_ + counter_bytes),
        own_(sends() ? spec.tokens * token_bytes(spec) : trail_.room()),
        progress_(sizeof(MoeProgress)) {}

  void connect(Group& world) override {
    if (world.size() != spec_.ranks) throw std::logic_error("an exchange was prepared for another number of ranks");
    compare_routing(world, routing_);
    group_ = &world.on_host();
    if (group_->size() != spec_.ranks) {
      throw Unsupported("moe: the ranks are on several hosts, and this row uses peer memory of one host");
    }
    me_ = group_->rank();
    gpu_.fill(progress_, 0);
    gpu_.fill(View(memory_.shared()).part(data_bytes_, counter_bytes), 0);
    gpu_.synchronize();
    memory_.exchange_all(*group_);
    peers_.ranks = spec_.ranks;
    peers_.rank = me_;
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      auto* const memory = rank == me_ ? memory_.shared().at(0) : static_cast<std::byte*>(memory_.mapped(rank));
      peers_.data[rank] = memory;
      peers_.finished[rank] = reinterpret_cast<unsigned*>(memory + data_bytes_);
    }
    write_tables();
    if (spec_.ranks > 1) measure_peer_copy();
    reset();
    group_->barrier();  // no rank may write while another still fills its buffers
    constexpr int warm_ups = 3;
    for (int i = 0; i < warm_ups; ++i) enqueue();
    gpu_.synchronize();
  }

  void enqueue() override {
    const auto place = trail_.next();
    ++number_;
    auto* const progress = progress_.data<MoeProgress>();
    if (sends()) {
      dispatch_tokens(gpu_, copies_, peers_, own_.data(), place, number_, progress);
    } else {
      combine_tokens(gpu_, copies_, peers_, own_.at(place), number_, progress);
    }
  }

  void stage(int repeats) override { stage_trail(gpu_, outputs(), trail_, repeats, poison_byte); }

  void reset() override {
    if (sends()) {
      fill_parts(gpu_, own_, {spec_.tokens * words_of_token(), 0, rank()});
    } else {
      fill_outputs(gpu_, View(memory_.shared()).part(0, received_bytes()), tokens_.data<MoeToken>(), numbers(), me_);
    }
    gpu_.fill(outputs(), poison_byte);
    trail_.restart();
    gpu_.synchronize();
  }

  Check verify() override {
    if (const auto late = gpu_.read(progress_.data<MoeProgress>()).late; late > 0) {
      return {1, 1, fmt::format("local rank {} did not finish its operation within 10 s", late - 1)};
    }
    const auto got = last();
    const auto tally = sends() ? count_wrong_tokens(gpu_, got, tokens_.data<MoeToken>(), spec_)
                               : count_wrong_sums(gpu_, got, copies_, numbers(), me_);
    Check check{tally.compared, tally.mismatched, ""};
    if (tally.mismatched > 0) check.first = sends() ? wrong_word(tally.first) : wrong_sum(tally.first);
    check_trail(gpu_, outputs(), trail_, check);
    return check;
  }

  std::optional<std::uint64_t> digest() const override { return digest_of(gpu_, last()); }
  bool runs_in_connect() const override { return true; }

  /// Times further operations, to compare their rate with that of copies by the copy engine, all ranks at once.
  Metrics metrics() override {
    if (spec_.ranks == 1) return {};
    constexpr int repeats = 20;
    const double seconds = slowest_seconds(gpu_, *group_, repeats, [this] { enqueue(); }) / repeats;
    return {{"peer_copy_gb_per_s", peer_copy_ / 1e9}, {"of_peer_copy", cost().bytes / seconds / peer_copy_}};
  }

  Cost cost() const override { return {0, static_cast<double>(routing_.busiest() * token_bytes(spec_))}; }
  std::size_t bytes() const override { return memory_.shared().bytes() + own_.bytes(); }
  bool collective() const override { return true; }
  void corrupt() override { flip_one_bit(gpu_, last()); }

 private:
  bool sends() const { return spec_.op == MoeOp::dispatch; }
  std::size_t rank() const { return static_cast<std::size_t>(me_); }
  std::size_t words_of_token() const { return token_bytes(spec_) / sizeof(std::uint32_t); }
  std::size_t received_bytes() const { return routing_.received(rank()) * token_bytes(spec_); }
  MoeNumbers numbers() const { return {spec_.tokens, spec_.hidden}; }
  View outputs() const { return sends() ? View(memory_.shared()).part(0, trail_.room()) : View(own_); }
  View last() const { return outputs().part(trail_.last(), sends() ? received_bytes() : trail_.bytes()); }

  std::string wrong_word(std::size_t i) const {
    const auto words = words_of_token();
    const auto token = gpu_.read(tokens_.data<const MoeToken>() + i / words);
    const auto want = reference::Parts{spec_.tokens * words, 0, token.of}.at(token.index * words + i % words);
    return fmt::format("word {} of token {} of rank {} is 0x{:08x}, expected 0x{:08x}", i % words, token.index,
                       token.of, gpu_.read(last().data<const std::uint32_t>() + i), want);
  }
  std::string wrong_sum(std::size_t i) const {
    const auto token = static_cast<std::uint32_t>(i / spec_.hidden);
    unsigned sum = 0;
    for (std::size_t at = 0; at < static_cast<std::size_t>(spec_.ranks); ++at) {
      const auto& tokens = routing_.tokens(rank(), at);
      if (!std::binary_search(tokens.begin(), tokens.end(), token)) continue;
      sum += numbers().weight(rank(), at, token) * numbers().output(rank(), at, token, i % spec_.hidden);
    }
    return fmt::format("number {} of token {} has the bits 0x{:04x}, expected 0x{:04x}", i % spec_.hidden, token,
                       gpu_.read(last().data<const std::uint16_t>() + i), MoeNumbers::bits(sum));
  }

  /// Writes where the copies of the tokens of this rank are, and which tokens other ranks have copied to this one.
  void write_tables() {
    const auto ranks = static_cast<std::size_t>(spec_.ranks);
    std::vector<std::vector<MoeCopy>> of_token(spec_.tokens);
    std::vector<MoeToken> received;
    for (std::size_t other = 0; other < ranks; ++other) {
      auto place = static_cast<std::uint32_t>(routing_.place(rank(), other));
      for (const auto token : routing_.tokens(rank(), other)) {
        const auto weight = static_cast<float>(numbers().weight(rank(), other, token));
        of_token[token].push_back({static_cast<std::uint32_t>(other), place++, weight});
      }
      for (const auto token : routing_.tokens(other, rank())) {
        received.push_back({static_cast<std::uint32_t>(other), token});
      }
    }
    std::vector<std::uint32_t> first{0};
    std::vector<MoeCopy> copies;
    for (const auto& some : of_token) {
      copies.insert(copies.end(), some.begin(), some.end());
      first.push_back(static_cast<std::uint32_t>(copies.size()));
    }
    first_ = upload(gpu_, first);
    copies_of_tokens_ = upload(gpu_, copies);
    tokens_ = upload(gpu_, received);
    constexpr std::size_t vector = 16;
    copies_ = {first_.data<const std::uint32_t>(), copies_of_tokens_.data<const MoeCopy>(),
               static_cast<std::uint32_t>(spec_.tokens), static_cast<std::uint32_t>(token_bytes(spec_) / vector)};
  }

  /// Measures copies to the next rank (dispatch) or from it (combine), all ranks at once.
  void measure_peer_copy() {
    const auto bytes = std::min(own_.bytes(), data_bytes_);
    auto* const peer = peers_.data[(me_ + 1) % spec_.ranks];
    const auto copy = [&] {
      void* const to = sends() ? peer : own_.at(0);
      const void* const from = sends() ? own_.at(0) : peer;
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu_.stream()));
    };
    constexpr int repeats = 20;
    slowest_seconds(gpu_, *group_, 1, copy);  // the first copy is slower
    peer_copy_ = repeats * static_cast<double>(bytes) / slowest_seconds(gpu_, *group_, repeats, copy);
  }

  MoeSpec spec_;
  MoeRouting routing_;
  Gpu& gpu_;
  Group* group_ = nullptr;
  int me_ = 0;
  Trail trail_;
  std::size_t data_bytes_;
  PeerMemory memory_;  // data that other ranks write or read, and their counters of finished operations
  Buffer own_;         // data that only this rank accesses
  Buffer progress_, first_, copies_of_tokens_, tokens_;
  MoeCopies copies_{};
  MoePeers peers_{};
  unsigned number_ = 0;
  double peer_copy_ = 0;  // bytes per second
};

}  // namespace

std::unique_ptr<Work> make(const MoeSpec& spec, CudaDevice& device) {
  if (spec.ranks > max_moe_ranks) throw Unsupported("moe: the cuda backend has at most 16 ranks, on one host");
  require_memory(footprint(spec));
  return std::make_unique<Moe>(spec, device.gpu());
}

}  // namespace shakedown::cuda
