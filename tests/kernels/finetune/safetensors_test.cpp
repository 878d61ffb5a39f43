// Files of tensors: what the library safetensors has written, damaged headers, and what this program writes.
#include "kernels/finetune/safetensors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/temporary_folder.hpp"
#include "finetune_data.hpp"
#include "kernels/reference.hpp"

namespace shakedown::finetune {
namespace {

namespace fs = std::filesystem;

std::string file_text(std::string_view header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text.append(header).append(data, 'x');
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string error_of(std::string_view text) const {
    write_file(path_, text);
    return input_error_of([&] { SafetensorsFile{path_}; });
  }
  void expect_refused(std::string_view text, const char* words) const {
    const auto error = error_of(text);
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
    EXPECT_TRUE(error.starts_with(path_.string()));
  }

  const TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "model.safetensors";
};

TEST_F(SafetensorsTest, ReadsTheFileOfTheLibrary) {
  const SafetensorsFile file(stored("tiny_qwen2"));
  const auto names = file.names();
  EXPECT_EQ(names.size(), 26U);  // two layers of 12 tensors, the embedding and the last norm: the head is tied
  const auto& embedding = file.at("model.embed_tokens.weight");
  EXPECT_EQ(embedding.dtype, DType::f32);
  EXPECT_EQ(embedding.shape, (std::vector<std::int64_t>{1024, 64}));
  std::vector<float> values(embedding.elements());
  to_floats(embedding, values);
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 0.06, 0.001);  // as they were drawn
  EXPECT_FALSE(file.contains("lm_head.weight"));
  EXPECT_THROW(file.at("lm_head.weight"), InputError);
}

TEST_F(SafetensorsTest, WritesWhatItReads) {
  const SafetensorsFile file(stored("tiny_qwen2"));
  std::map<std::string, Tensor> tensors;
  for (const auto& name : file.names()) tensors.emplace(name, file.at(name));
  write_safetensors(path_, tensors);
  const SafetensorsFile copy(path_);
  EXPECT_EQ(copy.names(), file.names());
  for (const auto& name : file.names()) {
    EXPECT_EQ(copy.at(name).shape, file.at(name).shape);
    EXPECT_TRUE(std::ranges::equal(copy.at(name).bytes, file.at(name).bytes));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);  // no temporary file
}

TEST_F(SafetensorsTest, ReadsShardsByTheirIndex) {
  const std::vector<float> values{1, 2, 3};
  const Tensor tensor{DType::f32, {3}, std::as_bytes(std::span(values))};
  write_safetensors(folder_.path() / "a.safetensors", {{"one", tensor}});
  write_safetensors(folder_.path() / "b.safetensors", {{"two", tensor}});
  const auto index = folder_.path() / "model.safetensors.index.json";
  const auto error = [&](const char* map) {
    write_file(index, std::string(R"({"weight_map": )") + map + "}");
    return input_error_of([&] { SafetensorsFile{folder_.path()}; });
  };
  EXPECT_EQ(error(R"({"one": "a.safetensors", "two": "b.safetensors"})"), "");
  EXPECT_EQ(SafetensorsFile(folder_.path()).names(), (std::vector<std::string>{"one", "two"}));
  EXPECT_NE(error(R"({"one": "b.safetensors"})").find("tensor one"), std::string::npos);
  EXPECT_NE(error(R"({"one": "../a.safetensors"})").find("index.json"), std::string::npos);
  EXPECT_NE(error(R"({"one": 3})").find("index.json"), std::string::npos);
  EXPECT_NE(error(R"({"one": "absent.safetensors"})").find("absent.safetensors"), std::string::npos);
  EXPECT_NE(error("[]").find("has no weight_map"), std::string::npos);
}

TEST_F(SafetensorsTest, RefusesDamagedFiles) {
  expect_refused("", "is empty");
  expect_refused("short", "too short for a header");
  expect_refused(std::string(8, '\xff') + "{}", "its header has");
  expect_refused(file_text("[]", 0), "not a JSON object");
  expect_refused(file_text(std::string(100'000, '['), 0), "not a JSON object");
  expect_refused(file_text(R"({"a":1})", 0), "has no dtype");
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"("dtype":{},"shape":{},"data_offsets":{})", dtype, shape, offsets);
  };
  const auto refused = [&](const std::string& tensor, std::size_t data, const char* words) {
    expect_refused(file_text("{\"a\":{" + tensor + "}}", data), words);
  };
  EXPECT_EQ(error_of(file_text("{\"a\":{" + one("\"F32\"", "[2]", "[0,8]") + "}}", 8)), "");
  refused(one("\"F8_E4M3\"", "[2]", "[0,2]"), 2, "dtype \"F8_E4M3\" is not supported");
  refused(one("7", "[2]", "[0,8]"), 8, "dtype 7 is not supported");
  refused(one("\"F32\"", "[-2]", "[0,8]"), 8, "shape is not a list of sizes");
  refused(one("\"F32\"", "{}", "[0,8]"), 8, "shape is not a list");
  refused(one("\"F32\"", "[2]", "[8,0]"), 8, "data_offsets");
  refused(one("\"F32\"", "[2]", "[0]"), 8, "data_offsets");
  refused(one("\"F32\"", "[2]", "[0,8]"), 7, "ends at byte 8 of the data, but the file has 7");
  refused(one("\"F32\"", "[3]", "[0,8]"), 8, "which its shape and dtype do not have");
  refused(one("\"F32\"", "[9223372036854775807,9223372036854775807]", "[0,8]"), 8,
          "which its shape and dtype do not have");
  refused(one("\"F32\"", "[2]", "[0,8]"), 9, "data after its last tensor");
  refused(one("\"F32\"", "[2]", "[4,12]"), 12, "has a gap");
  refused(one("\"F32\"", "[2]", "[0,8]") + "},\"b\":{" + one("\"F32\"", "[2]", "[4,12]"), 12, "overlap");
  refused(one("\"F32\"", "[2]", "[0,8]") + "},\"a\":{" + one("\"F32\"", "[2]", "[0,8]"), 8, "names a tensor twice");
}

TEST_F(SafetensorsTest, ReadsOrRefusesDamagedHeaders) {
  const std::vector<float> values{1, 2, 3, 4};
  const Tensor tensor{DType::f32, {2, 2}, std::as_bytes(std::span(values))};
  write_safetensors(path_, {{"one", tensor}, {"two", tensor}});
  const auto good = read_file(path_);
  std::size_t refused = 0;
  constexpr std::uint64_t rounds = 500;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    auto text = good;
    for (std::uint64_t i = 0; i <= round % 3; ++i) {
      const auto at = reference::mix(8 * round + i) % (good.size() - 2 * tensor.bytes.size());
      text[at] = static_cast<char>(reference::mix(8 * round + i + 4));
    }
    const auto error = error_of(text);  // any other exception ends the test
    EXPECT_TRUE(error.empty() || error.starts_with(path_.string())) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
    refused += error.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, rounds / 2);
  EXPECT_LT(refused, rounds);  // some bytes are only of a name
}

TEST_F(SafetensorsTest, RefusesPathsThatAreNoModel) {
  EXPECT_NE(input_error_of([&] { SafetensorsFile{folder_.path()}; }).find("has neither"), std::string::npos);
  EXPECT_NE(input_error_of([&] { SafetensorsFile{folder_.path() / "absent"}; }).find("absent"), std::string::npos);
  EXPECT_NE(input_error_of([] { SafetensorsFile{"/dev/null"}; }).find("/dev/null"), std::string::npos);
  EXPECT_THROW(write_safetensors(folder_.path() / "no/folder", std::map<std::string, Tensor>{}), CannotWrite);
}

TEST_F(SafetensorsTest, ConvertsEachHalfPrecisionNumberAndBack) {
  for (const auto dtype : {DType::f16, DType::bf16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const Tensor tensor{dtype, {1}, std::as_bytes(std::span(&half, 1))};
      float value = 0;
      to_floats(tensor, std::span(&value, 1));
      if (std::isnan(value)) continue;
      EXPECT_TRUE(std::ranges::equal(from_floats(std::span(&value, 1), dtype), tensor.bytes)) << bits;
    }
  }
  // Halves: 1 + 2^-11 is a tie and goes to the even 1; 65,520 is a tie between the largest number and infinity.
  const std::vector<float> values{1 + 0x1p-11F, 1 + 0x1.8p-10F, 65519, 65520, 0x1p-25F, 0x1.8p-25F};
  const std::vector<std::uint16_t> expected{0x3c00, 0x3c02, 0x7bff, 0x7c00, 0, 1};
  EXPECT_TRUE(std::ranges::equal(from_floats(values, DType::f16), std::as_bytes(std::span(expected))));
}

}  // namespace
}  // namespace shakedown::finetune
