// Tests the examples of README.md and docs/verdict.md on a stored run, with and without a planted fault.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/report/acceptance_program.hpp"

namespace shakedown::readme_examples_test {
namespace {

using namespace acceptance_program;

class Readme : public ShakedownProgram {
 protected:
  static std::string text_of_source(const std::string& name) {
    std::ifstream in(std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  /// Compares the first output block after `heading`: `output` must contain each line. "..." stands for omitted lines.
  static void expect_first_block(const std::string& name, const std::string& output, const std::string& heading = "") {
    const std::string start = "```text\n", text = text_of_source(name);
    const auto begin = text.find(start, text.find(heading));
    ASSERT_NE(begin, std::string::npos) << name;
    const auto block = lines_of(text.substr(begin + start.size(), text.find("```", begin + 3) - begin - start.size()));
    ASSERT_GE(block.size(), 10u) << name;
    const auto said = lines_of(output);
    for (const std::string& line : block) {
      EXPECT_TRUE(line == "..." || std::find(said.begin(), said.end(), line) != said.end())
          << name << " shows \"" << line << "\", but the judge says:\n"
          << output;
    }
  }
  static std::string upper(std::string text) {
    std::ranges::transform(text, text.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
    return text;
  }
  /// Returns "1,566" or "55.1".
  static std::string with_commas(double value, int decimals) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(decimals) << value;
    auto text = out.str();
    const auto whole = std::min(text.find('.'), text.size());
    for (auto at = whole; at > 3; at -= 3) text.insert(at - 3, ",");
    return text;
  }
  const std::filesystem::path stored = SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/4ranks/1";
  const std::string profiles = " --thresholds=" SHAKEDOWN_SOURCE_DIR "/thresholds ";
};

TEST_F(Readme, ShowsWhatTheJudgeSaysOfAGpuWithSlowMemory) {
  constexpr std::size_t victim = 2;
  std::filesystem::create_directory(folder.path() / "run");
  for (const auto& entry : std::filesystem::directory_iterator(stored)) {
    std::ifstream in(entry.path());
    auto document = nlohmann::json::parse(in);
    for (auto& row : document["benchmarks"]) {
      if (entry.path().filename() != "hbm.json") break;
      auto& values = row["by_rank"]["hbm_gb_per_s"];
      auto& seconds = row["by_rank"]["seconds"];
      values[victim] = 0.9 * values[victim].get<double>();
      seconds[victim] = seconds[victim].get<double>() / 0.9;
      const double worst = *std::min_element(values.begin(), values.end());
      const double slower = row["hbm_gb_per_s"].get<double>() / worst;
      row["hbm_gb_per_s"] = worst;
      row["real_time"] = row["real_time"].get<double>() * slower;
      for (const char* rate : {"bytes_per_second", "copy_gb_per_s"}) {
        if (row.contains(rate)) row[rate] = row[rate].get<double>() / slower;
      }
    }
    folder.write("run/" + entry.path().filename().string(), document.dump());
  }
  const Outcome outcome = shakedown("report --results=" + path("run") + profiles);
  EXPECT_EQ(outcome.exit_code, 1);
  expect_first_block("README.md", outcome.output);
}

TEST_F(Readme, ShowsWhatTheJudgeSaysOfEightHostsWithOneBehindASlowCable) {
  const Outcome outcome =
      shakedown("report --families=pairs --results=" SHAKEDOWN_SOURCE_DIR "/tests/data/host-8hosts" + profiles);
  EXPECT_EQ(outcome.exit_code, 1);
  expect_first_block("docs/verdict.md", outcome.output, "### Between hosts");
}

TEST_F(Readme, ShowsWhatTheJudgeSaysOfAStoredRun) {
  const std::string judged = "report --results=" + stored.string() + profiles;
  expect_first_block("docs/verdict.md", shakedown(judged).output);
  // The README's table of measured values: `key metric` | value | limit.
  const auto said = lines_of(shakedown(judged + " --all --width=1000").output);
  const std::regex row(R"(\| .* \| `([^ `]+/[^ `]+ [^ `]+)` \| ([^|]+) \| ([^|]+) \|.*)");
  int rows = 0;
  for (const std::string& line : lines_of(text_of_source("README.md"))) {
    std::smatch part;
    if (!std::regex_match(line, part, row)) continue;
    ++rows;
    EXPECT_TRUE(std::any_of(said.begin(), said.end(), [&](const std::string& finding) {
      return finding.rfind(part[1].str() + "  ", 0) == 0 &&
             finding.find("  " + part[2].str() + "  ") != std::string::npos &&
             finding.find("  " + part[3].str() + "  ") != std::string::npos;
    })) << line;
  }
  EXPECT_EQ(rows, 9);
}

TEST_F(Readme, ShowsFiguresOfSingleGpusThatStandInStoredRuns) {
  struct Column {
    const char *file, *row, *metric;
    int decimals;
  };
  constexpr std::array columns{
      Column{"gemm", "gemm/dtype:bf16/m:8192/n:8192/k:8192", "tflops", 0},
      Column{"gemm", "gemm/dtype:fp8_e4m3/m:8192/n:8192/k:8192", "tflops", 0},
      Column{"hbm", "hbm/op:read/engine:sm/bytes:4294967296", "hbm_gb_per_s", 0},
      Column{"hbm", "hbm/op:write/engine:sm/bytes:4294967296", "hbm_gb_per_s", 0},
      Column{"pcie", "pcie/op:h2d/active:one/rank:0/bytes:268435456", "copy_gb_per_s", 1},
      Column{"lora_step", "lora_step/model:qwen2_7b/batch:2/seq:4096", "tokens_per_s", 0},
  };
  for (const std::string gpu : {"h100", "h200"}) {
    std::string line = "| " + upper(gpu) + " |";
    for (const auto& column : columns) {
      std::ifstream in(SHAKEDOWN_SOURCE_DIR "/ci/baselines/" + gpu + "-sxm/1ranks/4/" + column.file + ".json");
      const auto document = nlohmann::json::parse(in);
      const auto found = std::ranges::find_if(document["benchmarks"], [&](const nlohmann::json& row) {
        const auto name = row["run_name"].get<std::string>();
        return name.starts_with(column.row) && !name.starts_with(column.row + std::string("/load"));
      });
      ASSERT_NE(found, document["benchmarks"].end()) << column.row;
      line += " " + with_commas((*found)[column.metric].get<double>(), column.decimals) + " |";
    }
    const auto lines = lines_of(text_of_source("README.md"));
    EXPECT_NE(std::ranges::find(lines, line), lines.end()) << line;
  }
}

}  // namespace
}  // namespace shakedown::readme_examples_test
