// Tests the families that accept --again repeats, and its table.
#include "report/again.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"

namespace shakedown::again_test {
namespace {

Finding finding(const std::string& key, Status status, double value, Code code = Code::limit) {
  Finding made;
  made.key = Key(key);
  made.metric = made.key.family() == "machine" ? "" : "hbm_gb_per_s";
  made.status = status;
  made.code = code;
  made.value = value;
  made.unit = "GB/s";
  return made;
}

const std::string read = "hbm/op:read/engine:sm/bytes:4294967296", copy = "hbm/op:copy/engine:sm/bytes:4294967296";

Verdict of(std::vector<Finding> findings) {
  Verdict verdict;
  verdict.findings = std::move(findings);
  conclude(verdict);
  return verdict;
}

using Families = std::vector<std::string>;

TEST(Again, MeasuresTheFamiliesThatFailedAndThoseTheyAreComparedWith) {
  const Finding good = finding("gemm/x:1", Status::pass, 1), bad = finding(read, Status::fail, 1);
  EXPECT_EQ(families_again(of({good, bad})), (Families{"preflight", "hbm"}));
  Finding open = finding("allreduce/dtype:f32/bytes:8", Status::inconclusive, 1);
  EXPECT_EQ(families_again(of({bad, open})), (Families{"preflight", "hbm", "allreduce"}));
  open.judgement = Judgement::crosscheck;
  EXPECT_EQ(families_again(of({open})), (Families{"preflight", "p2p", "allreduce"}));
  const Finding unknown = finding("p2p", Status::no_reference, 1);
  EXPECT_EQ(families_again(of({bad, unknown})), (Families{"preflight", "hbm"}))
      << "a measurement gives it no reference";
  open.severity = Severity::warn;
  EXPECT_EQ(families_again(of({bad, open})), (Families{"preflight", "hbm"})) << "a warning failed nothing";
}

TEST(Again, MeasuresProductsOfAGpuThatWasComparedWithStoredOnes) {
  Finding less = finding("machine/reference_gpus/rank:0", Status::fail, 0.96, Code::reference_gpus);
  less.judgement = Judgement::crosscheck;
  const Verdict before = of({less});
  EXPECT_EQ(families_again(before), (Families{"preflight", "gemm"}));
  Verdict after = of({});
  EXPECT_NE(again_text("run-1", before, after, {}).find("not measured"), std::string::npos) << "no GPU was compared";
  after.compared_gpus.resize(1);
  EXPECT_EQ(again_text("run-1", before, after, {}).find("not measured"), std::string::npos);
}

TEST(Again, MeasuresAllWhereAFailureIsOfNoSingleFamily) {
  for (const Code code : {Code::errors, Code::crashed, Code::complete, Code::slowdown, Code::memory}) {
    EXPECT_EQ(families_again(of({finding("machine/x", Status::fail, 1, code)})), Families()) << name(code);
  }
  EXPECT_EQ(families_again(of({finding("machine/preflight", Status::missing, 1, Code::not_measured)})), Families());
  Verdict part = of({finding("machine/x", Status::fail, 1, Code::errors)});
  part.asked.names = {"gemm", "hbm"};
  EXPECT_EQ(families_again(part), (Families{"gemm", "hbm"})) << "all that was asked for";
  EXPECT_EQ(families_again(of({finding("machine/gpus", Status::fail, 1, Code::gpus)})), Families{"preflight"});
}

TEST(Again, RefusesARunInWhichNothingFailed) {
  try {
    families_again(of({finding(read, Status::pass, 1)}));
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("nothing failed in that run (VERDICT: PASS 1/1"), std::string::npos)
        << error.what();
  }
}

std::string good_now(int count) { return std::to_string(count) + " are good now"; }

TEST(Again, SaysBeforeAndAfterOfEachFindingThatFailed) {
  const Verdict before = of({finding(read, Status::fail, 4110), finding(copy, Status::fail, 3790, Code::peers),
                             finding("gemm/x:1", Status::fail, 600), finding("memtest/x:1", Status::pass, 2)});
  const Verdict after = of({finding(read, Status::pass, 4675), finding(read, Status::fail, 4100, Code::peers),
                            finding("gemm/x:1", Status::missing, 0, Code::not_measured)});
  const std::string text = again_text("run-1", before, after, {});
  EXPECT_EQ(text,
            "failed in run-1            where  before     after      now\n"
            "HBM read by kernel, 4 GiB  -      4110 GB/s  4100 GB/s  fail\n"
            "HBM copy by kernel, 4 GiB  -      3790 GB/s  -          not measured\n"
            "GEMM, x 1                  -      600 GB/s   -          not measured\n"
            "again: of 3 findings that failed, 0 are good now\n\n")
      << "a figure that keeps its limit and is below its peers is not mended";
  EXPECT_NE(again_text("run-1", before, of({}), {}).find(good_now(0)), std::string::npos) << "nothing was measured";
}

TEST(Again, IsGoodOnlyWhatWasMeasuredOnTheSameHostWithTheSameDevices) {
  Finding bad = finding(read, Status::fail, 3790), by_peers = finding(copy, Status::fail, 3700, Code::peers);
  bad.worst = by_peers.worst = Culprit{3, "node7", {}, {}, 3790};
  Verdict before = of({bad, by_peers});
  before.nodes = {{"node7", 4}};
  Verdict after = of({finding(read, Status::pass, 4675)});
  after.unjudged = {{Key(copy), "hbm_gb_per_s", 4200, ""}};
  before.backend = after.backend = Backend::cuda;
  after.nodes = {{"node7", 4}};
  EXPECT_NE(again_text("run-1", before, after, {}).find(good_now(2)), std::string::npos);
  after.nodes = {{"node7", 1}};
  EXPECT_NE(again_text("run-1", before, after, {}).find(good_now(0)), std::string::npos) << "one of its 4 GPUs";
  after.nodes = {{"node8", 4}};
  const std::string other = again_text("run-1", before, after, {});
  EXPECT_NE(other.find(good_now(0)), std::string::npos) << other;
  EXPECT_NE(other.find("3700 GB/s  -      not measured\n"), std::string::npos) << other;
  after.nodes = {{"node7.example.com", 4}};
  EXPECT_NE(again_text("run-1", before, after, {}).find(good_now(2)), std::string::npos) << "the same host";
  after.backend = Backend::host;
  EXPECT_NE(again_text("run-1", before, after, {}).find(good_now(0)), std::string::npos) << "no GPU was measured";
}

TEST(Again, ShowsAFigureThatFailedTwiceInOneRow) {
  const Verdict before = of({finding(read, Status::fail, 3790), finding(read, Status::fail, 3790, Code::peers)});
  const std::string text = again_text("run-1", before, of({finding(read, Status::pass, 4675)}), {});
  EXPECT_EQ(text.find("HBM read"), text.rfind("HBM read")) << text;
  EXPECT_NE(text.find(good_now(2)), std::string::npos) << text;
}

}  // namespace
}  // namespace shakedown::again_test
