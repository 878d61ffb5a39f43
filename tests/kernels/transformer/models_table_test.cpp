// Tests the generator of the table of models.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "base/temporary_folder.hpp"

namespace shakedown::models_table_test {
namespace {

TEST(ModelsTable, IsRefusedWithLineAndColumn) {
  const TemporaryFolder folder;
  const auto yaml = folder.path() / "m.yaml", table = folder.path() / "table.hpp";
  const auto refusal = [&](const std::string& text) {
    std::ofstream(yaml) << text;
    const auto output = output_of({MODELS_TABLE, yaml.string(), table.string()}, std::chrono::minutes(1));
    EXPECT_EQ(output.code, 2) << text;
    EXPECT_FALSE(std::filesystem::exists(table));
    return output.text;
  };
  const std::string sizes =
      "layers: 2, hidden: 64, heads: 4, kv_heads: 2, head_dim: 16, intermediate: 160, vocab: 256, ";
  const std::string row = "- {model: a, " + sizes + "adapters: {rank: 8, alpha: 16}, source: s}\n";
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {row + row, ":2:11: duplicate model \"a\""},
           {"- {model: b, like: a, source: s}\n", ":1:20: is not an earlier row"},
           {row + "- {model: b, like: a}\n", "\"source\""},
           {row + "- {model: b, like: a, layers: 0, source: s}\n", "above 0"},
           {row + "- {model: b, like: a, mlp: relu, source: s}\n", "relu"},
           {row + "- {model: b, like: a, depth: 3, source: s}\n", "depth"},
           {"- {model: b, layers: 2, adapters: {rank: 8, alpha: 16}, source: s}\n", "\"hidden\""},
           {"- {model: b, " + sizes + "source: s}\n", "\"adapters\""},
           {row + "- {model: b, like: a, adapters: {rank: 8, alpha: 16, modules: [r]}, source: s}\n", "\"r\""}}) {
    const auto said = refusal(text);
    EXPECT_NE(said.find(reason), std::string::npos) << text << said;
  }
}

}  // namespace
}  // namespace shakedown::models_table_test
