#include "kernels/loader/measured_loader.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/files.hpp"
#include "base/statistics.hpp"

namespace shakedown::loader {

namespace {

constexpr int waiting_steps = 5;

using Clock = std::chrono::steady_clock;

/// A file that this process has made. It has no name any more, so that it vanishes with the process.
Corpus made_corpus(const MadeCorpus& made, const std::filesystem::path& folder, int rank) {
  const auto path = folder / fmt::format("shakedown-tokens.{}.{}", ::getpid(), rank);
  const auto remove = [&] {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  };
  try {
    write_corpus(path, made);
    Corpus corpus(path);
    remove();
    return corpus;
  } catch (...) {
    remove();
    throw;
  }
}

}  // namespace

MeasuredLoader::MeasuredLoader(const LoaderSpec& spec, std::unique_ptr<BatchMemory> memory)
    : spec_(spec), made_{.documents = spec.documents}, memory_(std::move(memory)) {}

MeasuredLoader::~MeasuredLoader() = default;

Part MeasuredLoader::part() const {
  return {.batch = spec_.batch, .seq = spec_.seq, .rank = spec_.rank, .ranks = spec_.ranks};
}

void MeasuredLoader::connect(Group& group) {
  const auto why = input_error_of([&] {
    corpus_.emplace(made_corpus(made_, spec_.folder, spec_.rank));
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
  if (obstacle_.empty()) loader_->pause();
}

void MeasuredLoader::take() {
  loader_->resume();
  const auto slot = loader_->take();
  memory_->send(slot);
  last_ = loader_->step();
  loader_->release();
}

void MeasuredLoader::enqueue() {
  for (std::size_t i = 0; i < spec_.batches && obstacle_.empty(); ++i) take();
}

void MeasuredLoader::reset() {
  last_.reset();
  memory_->poison();
  if (!obstacle_.empty()) return;
  loader_->pause();
  corpus_->drop_cache();
}

Check MeasuredLoader::verify() {
  if (!last_) return {};
  Checker checker;
  const auto got = memory_->received();
  for (std::size_t i = 0; i < spec_.batch; ++i) {
    expect_sequence(part().sequence(*last_, i), std::span(got).subspan(i * spec_.seq, spec_.seq), checker);
  }
  return checker.result();
}

void MeasuredLoader::expect_sequence(std::uint64_t sequence, std::span<const Token> got, Checker& checker) const {
  std::uint64_t tokens = 0;  // of an epoch
  for (std::size_t d = 0; d < made_.documents; ++d) tokens += made_.length(d) + 1;
  const std::uint64_t in_epoch = tokens / spec_.seq;
  const auto order = shuffled(made_.documents, part().seed, sequence / in_epoch);
  std::uint64_t skipped = sequence % in_epoch * spec_.seq;  // tokens before the sequence
  std::size_t place = 0;
  for (; skipped > made_.length(order[place]); ++place) skipped -= made_.length(order[place]) + 1;
  auto at = static_cast<std::size_t>(skipped);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool ends = at == made_.length(order[place]);
    checker.expect_equal(i, got[i], ends ? end_of_document : made_.token(order[place], at));
    at = ends ? 0 : at + 1;
    place += ends ? 1 : 0;
  }
}

Metrics MeasuredLoader::metrics() {
  if (!obstacle_.empty()) return {};
  std::vector<double> waited;
  loader_->resume();
  for (int i = 0; i < waiting_steps; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(spec_.step_seconds));
    const auto begin = Clock::now();
    take();
    waited.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  loader_->pause();
  return {{"starved_ms", median(std::move(waited)) * 1e3}};
}

}  // namespace shakedown::loader
