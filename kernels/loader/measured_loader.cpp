#include "kernels/loader/measured_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/files.hpp"
#include "kernels/loader/packing.hpp"
#include "kernels/reference.hpp"

namespace shakedown::loader {

std::uint64_t checksum_of(std::span<const Token> tokens) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; 2 * i + 1 < tokens.size(); ++i) {
    const std::uint64_t word = tokens[2 * i] | static_cast<std::uint64_t>(tokens[2 * i + 1]) << 32;
    sum += reference::mix(word ^ reference::mix(i));
  }
  return sum;
}

MadeStream::MadeStream(const MadeCorpus& made, std::size_t seq, std::uint64_t seed)
    : made_(made), seq_(seq), seed_(seed) {
  std::uint64_t tokens = 0;
  for (std::size_t d = 0; d < made.documents; ++d) tokens += made.length(d) + 1;
  sequences_ = std::max<std::uint64_t>(tokens / seq, 1);
  begin(0);
}

void MadeStream::begin(std::uint64_t epoch) {
  epoch_ = epoch;
  order_ = shuffled(made_.documents, seed_, epoch);
  place_ = 0;
  first_ = 0;
}

void MadeStream::write(std::uint64_t sequence, std::span<Token> out) {
  const std::uint64_t start = sequence % sequences_ * seq_;
  if (sequence / sequences_ != epoch_ || start < first_) begin(sequence / sequences_);
  for (std::uint64_t i = 0; i < out.size(); ++i) {
    while (start + i > first_ + made_.length(order_[place_])) first_ += made_.length(order_[place_++]) + 1;
    const auto at = static_cast<std::size_t>(start + i - first_);
    out[i] = at == made_.length(order_[place_]) ? end_of_document : made_.token(order_[place_], at);
  }
}

MeasuredLoader::MeasuredLoader(const LoaderSpec& spec, std::unique_ptr<BatchMemory> memory)
    : spec_(spec), stream_({.documents = spec.documents}, spec.seq, part().seed), memory_(std::move(memory)) {}

Part MeasuredLoader::part() const {
  return {.batch = spec_.batch, .seq = spec_.seq, .rank = spec_.rank, .ranks = spec_.ranks};
}

void MeasuredLoader::connect(Group& group) {
  const auto why = input_error_of([&] {
    corpus_.emplace(make_corpus(spec_.folder, {.documents = spec_.documents}), spec_.folder);
    std::vector<std::span<Token>> slots;
    for (int i = 0; i < spec_.prefetch; ++i) slots.push_back(memory_->slot(static_cast<std::size_t>(i)));
    loader_ = std::make_unique<Loader>(*corpus_, part(), spec_.workers, std::move(slots));
    loader_->pause();
  });
  const auto& hosts = group.hosts();
  const auto answers = group.gather(why);
  for (std::size_t rank = 0; rank < answers.size() && obstacle_.empty(); ++rank) {
    if (!answers[rank].empty()) obstacle_ = fmt::format("rank {} ({}): {}", rank, hosts.at(rank), answers[rank]);
  }
}

void MeasuredLoader::stage(int /*repeats*/) {
  memory_->poison();
  if (!obstacle_.empty()) return;
  loader_->pause();
  corpus_->drop_cache();
  first_ = end_ = loader_->step();
}

void MeasuredLoader::enqueue() {
  if (!obstacle_.empty()) return;
  loader_->resume();
  for (std::size_t i = 0; i < spec_.batches && failed_.empty(); ++i) {
    const auto slot = loader_->take();
    if (!slot) {
      failed_ = loader_->error();
      return;
    }
    memory_->send(*slot);
    loader_->release();
    end_ = loader_->step();
  }
}

void MeasuredLoader::reset() { stage(0); }

std::vector<Token> MeasuredLoader::expected(std::uint64_t step) {
  std::vector<Token> tokens(spec_.batch * spec_.seq);
  for (std::size_t i = 0; i < spec_.batch; ++i) {
    stream_.write(part().sequence(step, i), std::span(tokens).subspan(i * spec_.seq, spec_.seq));
  }
  return tokens;
}

Check MeasuredLoader::verify() {
  if (!failed_.empty()) return {1, 1, failed_};
  if (first_ == end_) return {};
  Checker checker;
  std::uint64_t sum = 0;
  std::vector<Token> want;
  for (auto step = first_; step < end_; ++step) {
    want = expected(step);
    sum += checksum_of(want);
  }
  const auto got = memory_->received();
  for (std::size_t i = 0; i < want.size(); ++i) checker.expect_equal(i, got[i], want[i]);
  auto check = checker.result();
  ++check.compared;
  if (memory_->sum() != sum && check.mismatched++ == 0) {
    check.first = fmt::format("the checksum of one of {} batches is wrong", end_ - first_);
  }
  return check;
}

}  // namespace shakedown::loader
