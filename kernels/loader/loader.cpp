#include "kernels/loader/loader.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/files.hpp"

namespace shakedown::loader {

Loader::Loader(const Corpus& corpus, const Part& part, int workers, std::vector<std::span<Token>> slots,
               std::uint64_t first_step)
    : corpus_(corpus),
      part_(part),
      slots_(std::move(slots)),
      packing_(std::make_shared<Packing>(corpus, part.seq, part.seed, 0)),
      sequences_(packing_->sequences()),
      next_(first_step),
      claimed_(first_step),
      ready_(slots_.size()) {
  if (sequences_ == 0) {
    throw InputError("the documents have fewer than " + std::to_string(part.seq) +
                     " tokens, the length of a sequence; add documents");
  }
  for (int i = 0; i < workers; ++i) workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

std::optional<std::size_t> Loader::take() {
  std::unique_lock lock(mutex_);
  const auto slot = static_cast<std::size_t>(next_ % slots_.size());
  is_filled_.wait(lock, [&] { return ready_[slot] || !error_.empty(); });
  return ready_[slot] ? std::optional(slot) : std::nullopt;
}

void Loader::release() {
  {
    const std::lock_guard lock(mutex_);
    ready_[static_cast<std::size_t>(next_++ % slots_.size())] = false;
  }
  is_free_.notify_one();
}

void Loader::pause() {
  std::unique_lock lock(mutex_);
  paused_ = true;
  is_filled_.wait(lock, [&] { return busy_ == 0; });
  ready_.assign(ready_.size(), false);
  claimed_ = next_;
}

void Loader::resume() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(paused_, false)) return;
  }
  is_free_.notify_all();
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto may_read = [&] { return !paused_ && error_.empty() && claimed_ < next_ + slots_.size(); };
  while (is_free_.wait(lock, stop, may_read)) {
    const std::uint64_t step = claimed_++;
    const auto slot = static_cast<std::size_t>(step % slots_.size());
    ++busy_;
    lock.unlock();
    std::string error;
    try {
      fill(step, slots_[slot]);
    } catch (const std::exception& thrown) {  // belongs to the caller of take
      error = thrown.what();
    }
    lock.lock();
    --busy_;
    if (error_.empty()) error_ = error;
    ready_[slot] = error.empty();
    is_filled_.notify_one();
  }
}

void Loader::fill(std::uint64_t step, std::span<Token> slot) {
  for (std::size_t i = 0; i < part_.batch; ++i) {
    const std::uint64_t sequence = part_.sequence(step, i);
    const auto packing = packing_of(sequence / sequences_);
    const auto out = slot.subspan(i * part_.seq, part_.seq);
    for (const Piece& piece : packing->pieces(static_cast<std::size_t>(sequence % sequences_))) {
      const std::size_t tokens = piece.count - (piece.has_end ? 1 : 0);
      if (tokens > 0) corpus_.read(piece.document, piece.first, out.subspan(piece.at, tokens));
      if (piece.has_end) out[piece.at + tokens] = end_of_document;
    }
  }
}

std::shared_ptr<const Packing> Loader::packing_of(std::uint64_t epoch) {
  const std::lock_guard lock(packing_mutex_);
  if (epoch != epoch_) {
    packing_ = std::make_shared<Packing>(corpus_, part_.seq, part_.seed, epoch);
    epoch_ = epoch;
  }
  return packing_;
}

}  // namespace shakedown::loader
