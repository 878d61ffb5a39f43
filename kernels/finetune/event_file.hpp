// Values of a training for TensorBoard and for scripts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/held_folder.hpp"

namespace shakedown::finetune {

struct Scalar {
  std::string_view tag;  // "train/loss"
  double value;
};

/// Returns the CRC-32C (Castagnoli; RFC 3720, B.4) of bytes.
std::uint32_t crc32c(std::string_view bytes);

/// Appends each step to two files of a folder: an event file of TensorBoard (records of TFRecord with protobuf Event
/// messages, tensorflow/core/util/event.proto) and metrics.jsonl, one object {"step", "time", TAG: value, ...} a line.
class EventFile {
 public:
  /// Creates a new event file, and appends to metrics.jsonl. Lines from step `first_step` on are removed, because a
  /// resumed run writes them again. Errors: CannotWrite.
  explicit EventFile(const std::filesystem::path& folder, std::int64_t first_step = 0);

  /// A value that is no number is null in metrics.jsonl. Errors: CannotWrite.
  void add(std::int64_t step, std::span<const Scalar>);

 private:
  std::optional<RunFile> events_, lines_;
};

}  // namespace shakedown::finetune
