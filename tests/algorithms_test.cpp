// Algorithms of an earlier run: read from its result, refused where they mean nothing.
#include "fixtures/algorithms.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace shakedown {
namespace {

const std::string key = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

Context gpus(const std::string& device = "NVIDIA H200", const std::string& cublaslt = "13.0.2") {
  Context context;
  context.suite = {"0.1.0", "abc1234", "Release", false};
  context.run_id = "run-1";
  context.complete = true;
  context.backend = "cuda";
  context.tier = "quick";
  context.world_size = context.hosts = 1;
  context.ranks.resize(1);
  context.ranks[0].host = "node1";
  context.ranks[0].device = device;
  context.versions["cublaslt"] = cublaslt;
  return context;
}

class Algorithms : public ::testing::Test {
 protected:
  Algorithms() : file_(std::filesystem::temp_directory_path() / ("algorithms-" + std::to_string(getpid()) + ".json")) {}
  ~Algorithms() override { std::filesystem::remove(file_); }

  void store(const Context& context) const {
    const auto row =
        R"({"name": ")" + key + R"(", "run_type": "iteration", "real_time": 1.0, "time_unit": "us", "tflops": 700.0})";
    replace_file(file_, write_results(R"({"context": {}, "benchmarks": [)" + row + "]}", context, {}));
  }
  std::string refusal(const Context& here) const {
    try {
      read_algorithms(file_, here);
      return "accepted";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  std::filesystem::path file_;
};

TEST_F(Algorithms, OfTheSameGpuAndLibraryAreTaken) {
  auto earlier = gpus();
  earlier.algorithms[key] = "0 3 00ff";
  store(earlier);
  EXPECT_EQ(read_algorithms(file_, gpus()), earlier.algorithms);
}

TEST_F(Algorithms, OfOthersAreRefusedInOneLineThatNamesBoth) {
  auto earlier = gpus();
  earlier.algorithms[key] = "0 3 00ff";
  store(earlier);
  EXPECT_EQ(refusal(gpus("NVIDIA H100 80GB HBM3")),
            file_.string() +
                ": its algorithms are of NVIDIA H200 with cuBLASLt 13.0.2, here is NVIDIA H100 80GB HBM3 "
                "with cuBLASLt 13.0.2; leave --algorithms out, then this run chooses them");
  EXPECT_NE(refusal(gpus("NVIDIA H200", "13.1.0")).find("here is NVIDIA H200 with cuBLASLt 13.1.0"), std::string::npos);
  auto host = gpus();
  host.backend = "host";
  EXPECT_NE(refusal(host).find("only the cuda backend"), std::string::npos);
}

TEST_F(Algorithms, OfAnUnknownLibraryAreRefused) {
  auto unknown = gpus();
  unknown.versions.clear();
  unknown.algorithms[key] = "0 3 00ff";
  store(unknown);
  EXPECT_NE(refusal(unknown), "accepted");
}

TEST_F(Algorithms, OfAFileWithoutAnyAreRefused) {
  store(gpus());
  EXPECT_NE(refusal(gpus()).find("has no algorithms"), std::string::npos);
}

TEST_F(Algorithms, OfNoFileAreRefused) { EXPECT_NE(refusal(gpus()).find("no such file"), std::string::npos); }

}  // namespace
}  // namespace shakedown
