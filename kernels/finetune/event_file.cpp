#include "kernels/finetune/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/archive.hpp"
#include "base/files.hpp"
#include "base/host_name.hpp"

namespace shakedown::finetune {

namespace {

namespace fs = std::filesystem;

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes[i] = static_cast<char>(std::bit_cast<std::array<unsigned char, sizeof value>>(value)[i]);
  return bytes;
}
static_assert(std::endian::native == std::endian::little);

// Fields of protobuf messages (protobuf.dev/programming-guides/encoding): a number and a wire type, then the value.
enum class Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80U | (value & 0x7fU));
  return bytes + static_cast<char>(value);
}
std::string key(unsigned number, Wire wire) { return varint(number << 3 | static_cast<unsigned>(wire)); }
std::string number_field(unsigned number, std::uint64_t value) { return key(number, Wire::varint) + varint(value); }
std::string bytes_field(unsigned number, std::string_view bytes) {
  return key(number, Wire::bytes) + varint(bytes.size()) + std::string(bytes);
}
std::string double_field(unsigned number, double value) { return key(number, Wire::fixed64) + little_endian(value); }
std::string float_field(unsigned number, float value) { return key(number, Wire::fixed32) + little_endian(value); }

// Numbers of the fields of Event, SessionLog, Summary and Summary.Value (event.proto, summary.proto).
constexpr unsigned event_time = 1, event_step = 2, event_version = 3, event_summary = 5, event_session = 7;
constexpr unsigned session_status = 1, status_start = 1;
constexpr unsigned summary_value = 1, value_tag = 1, value_number = 2;

/// A record of a TFRecord file: the length, its masked checksum, the data and its masked checksum.
std::string record(const std::string& data) {
  const auto checksum = [](std::string_view bytes) {
    const auto crc = crc32c(bytes);
    return little_endian(static_cast<std::uint32_t>(std::rotr(crc, 15) + 0xa282ead8U));
  };
  const auto length = little_endian(std::uint64_t{data.size()});
  return length + checksum(length) + data + checksum(data);
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Removes the lines from a step on.
void keep_before(const fs::path& file, std::int64_t first_step) {
  const auto lines = lines_of(file);
  if (!lines) return;
  std::string kept;
  for (const auto& line : *lines) {
    const auto json = document_of_text(line);  // the last line may be incomplete
    const bool is_kept = json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
                         json["step"].get<std::int64_t>() < first_step;
    if (is_kept) kept += line + "\n";
  }
  replace_file(file, kept);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 0x100> rows{};
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      rows.at(i) = i;
      for (int bit = 0; bit < 8; ++bit) rows.at(i) = rows.at(i) >> 1 ^ ((rows.at(i) & 1U) != 0 ? 0x82f63b78U : 0U);
    }
    return rows;
  }();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = crc >> 8 ^ table.at((crc ^ static_cast<unsigned char>(byte)) & 0xffU);
  return ~crc;
}

EventFile::EventFile(const fs::path& folder, std::int64_t first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw CannotWrite(folder.string() + ": cannot be created: " + error.message());
  const auto lines = folder / "metrics.jsonl";
  keep_before(lines, first_step);
  lines_.emplace(lines, RunFile::Mode::append);
  const double time = now();
  const auto name = fmt::format("events.out.tfevents.{:.6f}.{}.{}", time, system_host_name(), ::getpid());
  events_.emplace(folder / name, RunFile::Mode::append);
  events_->write(record(double_field(event_time, time) + bytes_field(event_version, "brain.Event:2")));
  // TensorBoard then ignores the values that an earlier run has written from this step on.
  const auto start = bytes_field(event_session, number_field(session_status, status_start));
  events_->write(record(double_field(event_time, time) +
                        number_field(event_step, static_cast<std::uint64_t>(first_step)) + start));
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) {
  const double time = now();
  std::string summary;
  nlohmann::ordered_json line{{"step", step}, {"time", time}};
  for (const auto& [tag, value] : scalars) {
    summary +=
        bytes_field(summary_value, bytes_field(value_tag, tag) + float_field(value_number, static_cast<float>(value)));
    line[std::string(tag)] = value;  // null if it is not finite
  }
  events_->write(record(double_field(event_time, time) + number_field(event_step, static_cast<std::uint64_t>(step)) +
                        bytes_field(event_summary, summary)));
  lines_->write(line.dump() + "\n");
}

}  // namespace shakedown::finetune
