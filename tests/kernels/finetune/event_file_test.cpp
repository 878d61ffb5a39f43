// Event files of TensorBoard, read by a second implementation of their format, and the lines of JSON.
#include "kernels/finetune/event_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"

namespace shakedown::finetune {
namespace {

namespace fs = std::filesystem;

/// Computes the checksum bit by bit, by the polynomial as it is written.
std::uint32_t slow_crc(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool is_set = ((crc ^ (static_cast<unsigned char>(byte) >> bit)) & 1U) != 0;
      crc = (crc >> 1) ^ (is_set ? 0x82f63b78U : 0U);
    }
  }
  return crc ^ 0xffffffffU;
}

/// Returns the data of all records, and checks their checksums.
std::vector<std::string> records_of(const fs::path& file) {
  const auto text = read_file(file);
  const auto masked = [](std::string_view bytes) {
    const auto crc = slow_crc(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
  };
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t length = 0;
    std::uint32_t first = 0, second = 0;
    std::memcpy(&length, &text.at(at), 8);
    std::memcpy(&first, &text.at(at + 8), 4);
    EXPECT_EQ(first, masked(std::string_view(text).substr(at, 8)));
    all.push_back(text.substr(at + 12, length));
    std::memcpy(&second, &text.at(at + 12 + length), 4);
    EXPECT_EQ(second, masked(all.back()));
    at += 16 + length;
  }
  return all;
}

fs::path event_file_in(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) return entry.path();
  }
  return {};
}

TEST(FinetuneEvents, HaveTheChecksumsOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);            // the check value of CRC-32/ISCSI
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(FinetuneEvents, AreRecordsWithStepTagAndValue) {
  const TemporaryFolder folder;
  EventFile events(folder.path());
  events.add(300, std::array<Scalar, 2>{{{"train/loss", 1.5}, {"train/lr", 0}}});
  const auto records = records_of(event_file_in(folder.path()));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].substr(9),
            "\x1a\x0d"
            "brain.Event:2");                                                   // after the time: field 3, 13 bytes
  EXPECT_EQ(records[1].substr(9), std::string("\x10\x00\x3a\x02\x08\x01", 6));  // step 0, a session starts
  // step 300; a summary of two values, each with a tag and 4 bytes
  EXPECT_EQ(records[2].substr(9),
            std::string("\x10\xac\x02\x2a\x24\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\xc0\x3f", 24) +
                std::string("\x0a\x0f\x0a\x08train/lr\x15\x00\x00\x00\x00", 17));
  double time = 0;
  std::memcpy(&time, records[2].data() + 1, sizeof time);
  EXPECT_GT(time, 1.7e9);
}

TEST(FinetuneEvents, AreLinesOfJsonWithoutTheStepsThatAResumedRunRepeats) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  const auto add = [](EventFile& events, std::int64_t step, double loss) {
    events.add(step, std::array<Scalar, 1>{{{"loss", loss}}});
  };
  {
    EventFile events(folder.path());
    for (std::int64_t step = 0; step < 4; ++step) add(events, step, 4);
  }
  write_file(path, read_file(path) + "{\"step\": 1, ");  // the run died
  EventFile events(folder.path(), 2);
  add(events, 2, std::numeric_limits<double>::quiet_NaN());
  std::vector<std::string> steps;
  const auto lines = lines_of(path);
  for (const auto& line : lines.value()) {
    const auto json = nlohmann::json::parse(line);
    steps.push_back(json["step"].dump() + " " + json["loss"].dump());
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"0 4.0", "1 4.0", "2 null"}));
}

TEST(FinetuneEvents, SayIfTheyCannotBeWritten) { EXPECT_THROW(EventFile("/proc/nothing"), CannotWrite); }

}  // namespace
}  // namespace shakedown::finetune
