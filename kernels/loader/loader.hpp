// Reads batches of packed sequences ahead of a training step. Worker threads fill a ring of slots; the step takes the
// slots in order. The batches depend only on the documents, the seed and the step.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "kernels/loader/packing.hpp"

namespace shakedown::loader {

/// A part of the sequences of each step: `batch` sequences for this rank of `ranks`.
struct Part {
  std::size_t batch = 1, seq = 1;
  std::uint64_t seed = 1;
  int rank = 0, ranks = 1;

  /// Returns the number of a sequence since the first step. Ranks take consecutive parts of a step.
  std::uint64_t sequence(std::uint64_t step, std::size_t in_batch) const {
    return (step * static_cast<std::uint64_t>(ranks) + static_cast<std::uint64_t>(rank)) * batch + in_batch;
  }
};

class Loader {
 public:
  /// Each slot holds part.batch * part.seq tokens. Documents and slots must outlive the loader. Errors: InputError if
  /// the documents are too short for one sequence.
  Loader(const Corpus&, const Part&, int workers, std::vector<std::span<Token>> slots, std::uint64_t first_step = 0);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Waits for the batch of the next step and returns its slot; nullopt if a worker could not read it (error).
  std::optional<std::size_t> take();
  /// Returns the first error of a worker; valid after take has returned nullopt.
  const std::string& error() const { return error_; }
  /// Gives the slot of the last take back to the workers.
  void release();
  /// Returns the step of the next take.
  std::uint64_t step() const { return next_; }

  /// Drops the batches that are ready, and reads nothing until resume. The next take returns the same batch as without
  /// a pause.
  void pause();
  void resume();

 private:
  void work(const std::stop_token&);
  void fill(std::uint64_t step, std::span<Token> slot);
  std::shared_ptr<const Packing> packing_of(std::uint64_t epoch);

  const Corpus& corpus_;
  const Part part_;
  const std::vector<std::span<Token>> slots_;
  std::shared_ptr<const Packing> packing_;  // of the last epoch that was needed
  std::uint64_t epoch_ = 0;
  std::uint64_t sequences_;  // in an epoch
  std::mutex packing_mutex_, mutex_;
  std::condition_variable_any is_free_;  // the workers wait for it
  std::condition_variable is_filled_;    // take and pause wait for it
  std::uint64_t next_, claimed_;         // the next step to take, and to read
  std::vector<bool> ready_;
  std::string error_;
  int busy_ = 0;
  bool paused_ = false;
  std::vector<std::jthread> workers_;  // last member, because the workers use the others
};

}  // namespace shakedown::loader
