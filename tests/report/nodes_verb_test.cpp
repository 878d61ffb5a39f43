// Tests shakedown nodes: host files, actions and exit codes.
#include <filesystem>
#include <tuple>

#include "report/verdict_json.hpp"
#include "tests/report/acceptance_program.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::nodes_verb_test {
namespace {

using namespace acceptance_program;
using testing_support::ResultsBuilder;

/// True for a list that has no host, only a comment of one line.
bool is_comment(const std::string& text) { return text.starts_with("# ") && text.find('\n') == text.size() - 1; }

class NodesVerb : public AcceptanceTest {
 protected:
  Outcome nodes(const std::string& flags) const {
    return run(SHAKEDOWN_PROGRAM " nodes --thresholds=" + path("test.yaml") + " " + flags);
  }
};

TEST_F(NodesVerb, WritesHostFilesAndActions) {
  const Outcome bad = nodes("--results=" + path("bad.json") + " --nodes=" + path("list"));
  EXPECT_EQ(bad.exit_code, 1) << bad.output;
  EXPECT_TRUE(is_comment(text_of("list/good_nodes")));
  EXPECT_EQ(text_of("list/bad_nodes"), "node0 slots=4\n");
  EXPECT_NE(text_of("list/nodes.json").find("\"action\": \"ISOLATE\""), std::string::npos);
  EXPECT_NE(text_of("list/nodes.json").find("\"verdict\": \"fail\""), std::string::npos) << "as in verdict.json";
  const Outcome good = nodes("--results=" + path("good.json") + " --nodes=" + path("list"));
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_EQ(text_of("list/good_nodes"), "node0 slots=4\n");
  EXPECT_TRUE(is_comment(text_of("list/bad_nodes")));
}

TEST_F(NodesVerb, PrintsJsonAndReadsAStoredVerdict) {
  accept_file("bad.json", "--verdict=" + path("verdict.json"));
  const Outcome stored = nodes("--verdict=" + path("verdict.json"));
  EXPECT_EQ(stored.exit_code, 1);
  EXPECT_NE(stored.output.find("\"host\": \"node0\""), std::string::npos) << stored.output;
  EXPECT_EQ(stored.output, nodes("--results=" + path("bad.json")).output);
}

TEST_F(NodesVerb, ExitsWithOneForEachBadNodeAlsoWhereOthersAreUndecided) {
  const auto profiles = load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds");
  const auto exit_code = [&](const std::vector<Results>& files) {
    folder.write("verdict.json", verdict_json(judge(files, profiles, {})));
    return nodes("--verdict=" + path("verdict.json")).exit_code;
  };
  for (const auto& [key, fact, value] : {std::tuple("preflight/of:host", "gpus_missing", 1.0),
                                         {"preflight/of:gpu", "ecc_uncorrected", 3.0},
                                         {"preflight/of:gpu", "remap_pending", 1.0}}) {
    auto files = testing_support::stored_run_with(key, fact, value);
    EXPECT_EQ(exit_code(files), 1) << fact;
    std::erase_if(files, [](const Results& file) { return file.rows.front().key.family() != "preflight"; });
    EXPECT_EQ(exit_code(files), 1) << fact << ", and nothing else was measured";
  }
  auto unfinished = testing_support::stored_run_with("preflight/of:host", "gpus_missing", 0);
  EXPECT_EQ(exit_code(unfinished), 0);
  unfinished.front().context.complete = false;
  EXPECT_EQ(exit_code(unfinished), 3);
}

TEST_F(NodesVerb, LeavesNoOldHostFileBehindBadInput) {
  nodes("--results=" + path("good.json") + " --nodes=" + path("list"));
  folder.write("cut.json", "{\"context\": {");
  const Outcome refused = nodes("--results=" + path("cut.json") + " --nodes=" + path("list"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(text_of("list/good_nodes").starts_with("# ")) << text_of("list/good_nodes");
}

TEST_F(NodesVerb, ProvesNoNodeGoodWithoutAProfile) {
  folder.write("other.json", ResultsBuilder(4, 1, "Unheard-of GPU").add(gemm, "tflops", 700).text());
  const Outcome outcome = nodes("--results=" + path("other.json") + " --nodes=" + path("list"));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_NE(text_of("list/good_nodes").find("no profile"), std::string::npos);
}

TEST_F(NodesVerb, ProvesNoNodeGoodByARunThatHasNotEndedOrByOneFamily) {
  const std::string results = "--results=" + path("run") + " --verdict=" + path("stored.json");
  std::filesystem::create_directory(folder.path() / "run");
  folder.write("run/gemm.json", text_of("good.json"));
  folder.write("run/lock", "host: nosuch\nprocess: 1\n");
  const auto program = [&](const std::string& name) {
    return run(name + " --thresholds=" + path("test.yaml") + " " + results);
  };
  for (const auto& outcome : {accept(results), program(SHAKEDOWN_PROGRAM " report"),
                              run(SHAKEDOWN_PROGRAM " report --verdict=" + path("stored.json"))}) {
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_EQ(outcome.last_line, "VERDICT: INCOMPLETE 7/8 (profile test, 4 ranks)") << outcome.output;
    EXPECT_NE(outcome.output.find("process 1 on nosuch"), std::string::npos) << outcome.output;
  }
  const auto expect_undecided = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_TRUE(outcome.output.starts_with("# undecided") && outcome.output.ends_with(": node0\n"));
  };
  expect_undecided(nodes(results + " --scontrol"));
  expect_undecided(nodes("--scontrol --verdict=" + path("stored.json")));
  folder.write("run/lock", "host: nosuch\nprocess: 1\nended: now\n");
  EXPECT_EQ(nodes(results).exit_code, 0);
  folder.write(
      "run/train_step.json",
      ResultsBuilder().add_error("train_step/model:tiny/batch:1/seq:16", waiver_text("in the full tier")).text());
  expect_undecided(nodes(results + " --families=gemm --kubectl"));
  expect_undecided(nodes("--scontrol --verdict=" + path("stored.json")));
}

}  // namespace
}  // namespace shakedown::nodes_verb_test
