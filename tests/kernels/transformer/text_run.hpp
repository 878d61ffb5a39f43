// Two hundred steps of a small GPT-2 on a text with bytes as tokens. Each step uses the next windows of the text,
// divided among the ranks.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/kernels/transformer/host_step.hpp"

namespace shakedown {

/// Returns the text of tests/data/text.txt, in which every byte is below 128.
inline std::string training_text() {
  std::ifstream file(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "tests/data/text.txt");
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
class TextRun {
 public:
  static constexpr std::size_t sequences = 4, steps = 200;

  explicit TextRun(int ranks, Group* group = nullptr)
      : rank_(group == nullptr ? 0 : group->rank()), text_(training_text()), host_(shape_for(ranks), 1, group) {
    host_.step.initialize();
  }

  /// Returns the losses on the sequences of this rank.
  std::vector<double> losses() {
    for (std::size_t step = 0; step < steps; ++step) {
      host_.load(window(step));
      host_.step.run({.lr = 5e-3});
    }
    std::vector<double> losses;
    for (const auto& record : host_.step.records()) losses.push_back(record.loss);
    return losses;
  }
  std::vector<T> parameters() { return host_.parameters(); }
  training::Record last() { return host_.step.records().back(); }

 private:
  static training::StepShape shape_for(int ranks) {
    auto model = training::preset("gpt2_tiny").model;
    model.layers = 1;
    model.hidden = 24;
    model.heads = model.kv_heads = 2;
    model.head_dim = 12;
    model.intermediate = 48;
    model.vocab = 128;
    return {.model = model,
            .lora = training::no_adapters,
            .trains = training::Trains::all,
            .batch = sequences / static_cast<std::size_t>(ranks),
            .seq = 16,
            .ranks = ranks};
  }

  Batch window(std::size_t step) const {
    const auto& shape = host_.step.shape();
    Batch batch;
    for (std::size_t s = 0; s < shape.batch; ++s) {
      const auto sequence = step * sequences + static_cast<std::size_t>(rank_) * shape.batch + s;
      const auto first = sequence * shape.seq % (text_.size() - shape.seq - 1);
      for (std::size_t i = 0; i < shape.seq; ++i) {
        batch.inputs.push_back(static_cast<unsigned char>(text_[first + i]));
        batch.targets.push_back(static_cast<unsigned char>(text_[first + i + 1]));
      }
    }
    return batch;
  }

  int rank_;
  std::string text_;
  HostStep<T> host_;
};

}  // namespace shakedown
