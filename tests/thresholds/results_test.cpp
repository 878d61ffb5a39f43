// Tests which result files are accepted, the messages of refusals, and that written files can be read again.
#include "thresholds/results/results.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "base/sha256.hpp"
#include "tests/thresholds/results_builder.hpp"

namespace shakedown::results_test {
namespace {

using testing_support::Folder;
using testing_support::ResultsBuilder;

const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the message of the InputError from reading `text`; empty if it is accepted.
std::string refusal(const std::string& text) {
  const Folder folder;
  try {
    read_results(folder.write("bad.json", text));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string with(std::string text, const std::string& old_part, const std::string& new_part) {
  const auto at = text.find(old_part);
  EXPECT_NE(at, std::string::npos) << old_part << " is not in the document";
  return at == std::string::npos ? text : text.replace(at, old_part.size(), new_part);
}

std::string good() { return ResultsBuilder().add(gemm, "tflops", 700).text(); }

::testing::AssertionResult mentions(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not mention \"" << part << "\"";
}

TEST(KeyOf, RemovesEverySuffixOfGoogleBenchmark) {
  EXPECT_EQ(key_of(gemm), gemm);
  EXPECT_EQ(key_of(gemm + "/manual_time"), gemm);
  EXPECT_EQ(key_of(gemm + "/min_time:0.050/min_warmup_time:1.000/iterations:10/repeats:3/manual_time/threads:2"), gemm);
  EXPECT_EQ(key_of(gemm + "/real_time"), gemm);
  EXPECT_EQ(key_of(gemm + "/process_time/real_time"), gemm);
  EXPECT_EQ(family_of(gemm), "gemm");
}

TEST(Reader, ReturnsTelemetryByRankWithItsNulls) {
  ResultsBuilder builder(2);
  builder.add(gemm, "tflops", 700).by_rank("throttled", {0.38, std::nullopt}).by_rank("sm_mhz", {1410, 1980});
  builder.rows.back()["sm_mhz"] = 1410;
  builder.last().throttle = {{"sw_power_cap", {0.38, std::nullopt}}};
  builder.last().errors = {{"ecc_uncorrected", {0, 2}}, {"xid_79", {std::nullopt, 1}}};
  builder.last().errors_rows = 7;
  builder.context.telemetry = "every 10 ms";
  builder.context.ranks[0].sm_mhz_max = 1980;
  builder.context.ranks[0].power_limit_w = 700;
  builder.context.ranks[0].processes = {{4321, "python3", 37000000000}, {77, std::nullopt, std::nullopt}};
  builder.context.ranks[1].processes.emplace();
  EXPECT_NE(builder.text().find("\"throttled\":null"), std::string::npos) << "a counter that is unknown is not absent";
  const Results read = builder.results();
  const Row& row = read.rows.at(0);
  EXPECT_EQ(row.metrics.at("sm_mhz"), 1410);
  EXPECT_EQ(row.metrics.count("throttled"), 0u);
  EXPECT_EQ(row.by_rank.at("throttled"), (testing_support::Values{0.38, std::nullopt}));
  EXPECT_EQ(row.throttle, builder.last().throttle);
  EXPECT_EQ(row.throttle_of(0), (Throttle{{"sw_power_cap", 0.38}}));
  EXPECT_TRUE(row.throttle_of(1).empty());
  EXPECT_EQ(row.errors, builder.last().errors);
  EXPECT_TRUE(row.errors_of(0).empty());
  EXPECT_EQ(row.errors_of(1), (ErrorCounts{{"ecc_uncorrected", 2}, {"xid_79", 1}}));
  EXPECT_EQ(row.errors_rows, 7);
  EXPECT_FALSE(row.metrics.contains("errors_rows")) << "no counter of Google Benchmark";
  EXPECT_EQ(read.context.telemetry, "every 10 ms");
  EXPECT_EQ(read.context.ranks.at(0).sm_mhz_max, 1980);
  EXPECT_EQ(read.context.ranks.at(0).power_limit_w, 700);
  EXPECT_EQ(read.context.ranks.at(0).processes->at(0).name, "python3");
  EXPECT_EQ(read.context.ranks.at(0).processes->at(0).memory_bytes, 37000000000u);
  EXPECT_EQ(read.context.ranks.at(0).processes->at(1).pid, 77);
  EXPECT_TRUE(read.context.ranks.at(1).processes->empty()) << "known to have none, which is not unknown";
  EXPECT_EQ(read.context.ranks.at(1).power_limit_w, std::nullopt);
}

TEST(Reader, RefusesTextsWhereNumbersBelongAndTheReverse) {
  ResultsBuilder builder(2);
  builder.add(gemm, "tflops", 700).by_rank("throttled", {0.5, 0.5}).last().text_by_rank["model"] = {"a", {}};
  EXPECT_TRUE(mentions(refusal(with(builder.text(), "[0.5,0.5]", "[0.5,\"much\"]")), "expected numbers or null"));
  EXPECT_TRUE(mentions(refusal(with(builder.text(), "[\"a\",null]", "[1,null]")), "expected a string"));
  EXPECT_TRUE(mentions(refusal(with(builder.text(), "[\"a\",null]", "[null]")), "1 values for 2 ranks"));
}

TEST(Writer, LeavesOutRanksWhereMostAreUnknownAndTheReaderFillsThemIn) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700, {{}, {}, {}, 396.5})
      .by_rank("seconds", {{}, {}, 1, 2})
      .by_rank("none", {{}, {}, {}, {}});
  builder.last().text_by_rank["model"] = {{}, "a", {}, {}};
  const auto text = builder.text();
  for (const char* part :
       {R"("tflops":{"3":396.5})", R"("seconds":[null,null,1.0,2.0])", R"("none":{})", R"("model":{"1":"a"})"}) {
    EXPECT_TRUE(mentions(text, part));
  }
  const Row row = builder.results().rows.at(0);
  EXPECT_EQ(row.by_rank, builder.last().by_rank);
  EXPECT_EQ(row.text_by_rank, builder.last().text_by_rank);
  for (const char* word : {"4", "03", "-1", "", "x", "3 "}) {
    EXPECT_TRUE(mentions(refusal(with(text, "{\"3\":396.5}", "{\"" + std::string(word) + "\":396.5}")),
                         "benchmarks[0].by_rank.tflops: \"" + std::string(word) + "\" is not a rank of 4"));
  }
  EXPECT_TRUE(
      mentions(refusal(with(text, "{\"3\":396.5}", "{\"3\":\"x\"}")), "by_rank.tflops: expected numbers or null"));
  EXPECT_TRUE(mentions(refusal(with(text, "{\"3\":396.5}", "{\"3\":1,\"3\":2}")), "occurs twice"));
}

TEST(Reader, RefusesWhatNoRankCanHaveSaidAndNamesTheMember) {
  ResultsBuilder builder(2);
  builder.add(gemm, "tflops", 700).throttle(1, {{"hw_thermal", 0.25}}).errors(1, {{"xid_79", 3}}, 5);
  const auto text = builder.text();
  const std::string parts = "{\"hw_thermal\":[0.0,0.25]}", counts = "{\"xid_79\":[0,3]}";
  ASSERT_EQ(refusal(text), "");
  struct Case {
    std::string old_part, new_part, complaint;
  };
  for (const Case& c :
       {Case{parts, "{\"hw_thermal\":[0.0]}", "benchmarks[0].throttle.hw_thermal: has 1 values for 2 ranks"},
        {parts, "{\"hw_thermal\":[0.0,1.5]}", "benchmarks[0].throttle.hw_thermal: rank 1 has 1.5"},
        {parts, "{\"hw_thermal\":[-0.1,0]}", "benchmarks[0].throttle.hw_thermal: rank 0 has -0.1"},
        {parts, "{\"hw_thermal\":[0,\"25 %\"]}", "benchmarks[0].throttle.hw_thermal: expected numbers"},
        {parts, "[0.25]", "benchmarks[0].throttle: expected an object"},
        {counts, "{\"xid_79\":[0,3,0]}", "benchmarks[0].errors.xid_79: has 3 values for 2 ranks"},
        {counts, "{\"xid_79\":[0,-3]}", "benchmarks[0].errors.xid_79[1]: expected a whole number"},
        {counts, "{\"xid_79\":[0,0.5]}", "benchmarks[0].errors.xid_79[1]: expected a whole number"},
        {"\"errors_rows\":5", "\"errors_rows\":0", "benchmarks[0].errors_rows: expected at least 1"},
        {"\"errors_rows\":5", "\"wrong_ranks\":[1]", "benchmarks[0].wrong_ranks: is in a row without"}}) {
    EXPECT_TRUE(mentions(refusal(with(text, c.old_part, c.new_part)), c.complaint));
  }
}

TEST(Reader, ReturnsWhoseDataWereWrongAndRefusesRanksThatAreNone) {
  ResultsBuilder builder(4);
  builder.add_error(gemm, "wrong data", {1, 3});
  EXPECT_EQ(builder.results().rows.at(0).wrong_ranks, (std::vector{1, 3}));
  const auto changed = [&](const std::string& list) { return refusal(with(builder.text(), "[1,3]", list)); };
  EXPECT_TRUE(mentions(changed("[1,4]"), "benchmarks[0].wrong_ranks: names rank 4 of 4"));
  EXPECT_TRUE(mentions(changed("[3,3]"), "benchmarks[0].wrong_ranks: names rank 3 twice"));
  EXPECT_TRUE(mentions(changed("[-1]"), "benchmarks[0].wrong_ranks[0]: expected a whole number"));
  EXPECT_TRUE(mentions(changed("3"), "benchmarks[0].wrong_ranks: expected an array"));
}

TEST(Reader, ReturnsLinksAndRefusesThoseThatCannotBe) {
  ResultsBuilder builder(2);
  builder.add(gemm, "tflops", 700).context.nccl.links = {{0, 1, "P2P/CUMEM"}, {1, 0, "SHM/direct"}};
  builder.context.nccl.links_left_out = 3;
  const NcclFacts nccl = builder.results().context.nccl;
  EXPECT_EQ(nccl.links, builder.context.nccl.links);
  EXPECT_EQ(nccl.links[1].kind(), "SHM");
  EXPECT_EQ(nccl.links_left_out, 3);
  const auto refused = [&](const NcclLink& second) {
    builder.context.nccl.links[1] = second;
    return refusal(builder.text());
  };
  const std::string where = "context.shakedown.nccl.links[1]";
  EXPECT_TRUE(mentions(refused({1, 2, "SHM"}), where + ".dst: is rank 2 of 2"));
  EXPECT_TRUE(mentions(refused({-1, 0, "SHM"}), where + ".src: expected a whole number"));
  EXPECT_TRUE(mentions(refused({1, 1, "SHM"}), where + ": connects rank 1 with itself"));
  EXPECT_TRUE(mentions(refused({1, 0, ""}), where + ".via: is empty"));
  EXPECT_TRUE(mentions(refused({0, 1, "P2P/CUMEM"}), where + ": is listed twice"));
}

TEST(Reader, ReturnsWhatTheWriterWasGiven) {
  ResultsBuilder builder(2);
  builder.add(gemm, "tflops", 700, {710.5, std::nullopt}).by_rank("seconds", {0.1, 0.2});
  builder.rows.back().update({{"real_time", 1.5}, {"bytes_per_second", 1e9}});
  builder.context.environment = {{"NCCL_NVLS_ENABLE", "0"}};
  builder.context.expected.ranks = 2;
  builder.context.argv = {"bench_gemm", "--tier=quick"};
  builder.context.inventory[0].masked_gpus = 2;
  builder.context.inventory[0].mask = "CUDA_VISIBLE_DEVICES=0,1";
  const Results read = builder.results();
  EXPECT_EQ(read.context.run_id, "run-1");
  EXPECT_EQ(read.context.ranks.at(1).uuid, "GPU-1001");
  EXPECT_EQ(read.context.ranks.at(1).serial, std::nullopt);
  EXPECT_EQ(read.context.ranks.at(1).memory_bytes, 300000000000u);
  EXPECT_EQ(read.context.versions.at("driver"), "580.159");
  EXPECT_EQ(read.context.versions.at("cudnn"), std::nullopt);
  EXPECT_EQ(read.context.environment.at("NCCL_NVLS_ENABLE"), "0");
  EXPECT_EQ(read.context.expected.ranks, 2);
  EXPECT_EQ(read.context.expected.hosts, std::nullopt);
  EXPECT_EQ(read.context.argv.size(), 2u);
  EXPECT_EQ(read.context.inventory.at(0).mask, "CUDA_VISIBLE_DEVICES=0,1");
  EXPECT_EQ(read.context.fault, std::nullopt);
  ASSERT_EQ(read.rows.size(), 1u);
  const Row& row = read.rows[0];
  EXPECT_EQ(row.key, gemm);
  EXPECT_DOUBLE_EQ(row.real_time, 1.5e-3);
  EXPECT_DOUBLE_EQ(row.metrics.at("tflops"), 700);
  EXPECT_DOUBLE_EQ(row.metrics.at("bytes_per_second"), 1e9);
  EXPECT_EQ(row.metrics.count("iterations"), 0u) << "not a counter";
  EXPECT_EQ(row.by_rank.at("tflops").at(0), 710.5);
  EXPECT_EQ(row.by_rank.at("tflops").at(1), std::nullopt);
  EXPECT_EQ(row.by_rank.at("seconds").at(1), 0.2);
}

TEST(Reader, KeepsRepetitionsApartAndLeavesAggregatesOut) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add(gemm, "tflops", 710);
  builder.rows.push_back({{"name", gemm + "/manual_time_mean"}, {"run_type", "aggregate"}, {"aggregate_name", "mean"}});
  const Results read = builder.results();
  ASSERT_EQ(read.rows.size(), 2u);
  EXPECT_EQ(read.rows[1].repetition, 1);
  EXPECT_DOUBLE_EQ(*read.rows[1].by_rank.at("tflops")[0], 710);
}

TEST(Reader, TellsAWaiverFromAnError) {
  const Results read = ResultsBuilder().add_error(gemm, "wrong data").add_waiver("gemm/x:1", "too large").results();
  EXPECT_EQ(read.rows[0].error, "wrong data");
  EXPECT_EQ(read.rows[0].waived, std::nullopt);
  EXPECT_EQ(read.rows[1].error, std::nullopt);
  EXPECT_EQ(read.rows[1].waived, "too large");
  EXPECT_EQ(read.rows[1].lack, Lack::machine);
}

TEST(Reader, TellsMissingSoftwareFromWhatAMachineCannot) {
  const Results read = ResultsBuilder().add_waiver(gemm, "needs cuDNN 9", Lack::software).results();
  EXPECT_EQ(read.rows[0].error, std::nullopt);
  EXPECT_EQ(read.rows[0].waived, "needs cuDNN 9");
  EXPECT_EQ(read.rows[0].lack, Lack::software);
  EXPECT_TRUE(is_waiver(waiver_text("", Lack::software)));
  EXPECT_TRUE(is_waiver(waiver_text("")));
  EXPECT_FALSE(is_waiver("wrong data"));
}

TEST(Reader, TakesASkippedBenchmarkOfNewerReleasesForNoMeasurement) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700);
  builder.rows[0]["skipped"] = true;
  builder.rows[0]["skip_message"] = "not today";
  EXPECT_EQ(builder.results().rows[0].error, "skipped: not today");
}

TEST(Reader, RefusesAFileThatIsNotThere) {
  try {
    read_results(std::filesystem::path("/nonexistent/gemm.json"));
    FAIL() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("/nonexistent/gemm.json: ", 0), 0U);
  }
}

TEST(Reader, RefusesAnEmptyFile) {
  EXPECT_TRUE(mentions(refusal(""), "is empty"));
  EXPECT_TRUE(mentions(refusal(" \n"), "is empty"));
}

TEST(Reader, RefusesATruncatedFileWhereverItWasCut) {
  const std::string text = good();
  for (std::size_t length = 1; length + 3 < text.size(); length += 97) {
    EXPECT_NE(refusal(text.substr(0, length)), "") << "cut after " << length << " bytes";
  }
  EXPECT_TRUE(mentions(refusal(text.substr(0, text.size() / 2)), "cut off"));
}

TEST(Reader, RefusesWhatIsNotJson) {
  EXPECT_TRUE(mentions(refusal("hello"), "not strict JSON in line 1, column 1, at \"hello\"; measure again"));
  EXPECT_TRUE(mentions(refusal("{\n  \"a\": +7, \"b\": 2}"), "line 2, column 8, at \"+7\";"))
      << "no words of a library";
  EXPECT_TRUE(mentions(refusal("{\"a\":{\"\xe9\":1}}"), "line 1, column 8, at \"?\";"));
  EXPECT_TRUE(mentions(refusal("[1, 2]"), "expected an object"));
}

TEST(Reader, RefusesNaNAndInfinity) {
  for (const char* word : {"NaN", "nan", "Infinity", "-Infinity", "inf", "1e999"}) {
    EXPECT_TRUE(
        mentions(refusal(with(good(), "\"tflops\":700.0", std::string("\"tflops\":") + word)), "not strict JSON"))
        << word;
  }
}

TEST(Reader, ReadsAFileWhoseContextIsAfterItsRows) {
  auto document = nlohmann::ordered_json::parse(ResultsBuilder(2).add(gemm, "tflops", 700).text());
  nlohmann::ordered_json turned{{"benchmarks", document["benchmarks"]}, {"context", document["context"]}};
  const Folder folder;
  const Results results = read_results(folder.write("turned.json", turned.dump()));
  ASSERT_EQ(results.rows.size(), 1U);
  EXPECT_EQ(results.rows[0].metrics.at("tflops"), 700);
  turned["benchmarks"].push_back(turned["benchmarks"][0]);
  EXPECT_TRUE(mentions(refusal(turned.dump()), "appears twice"));
}

TEST(Reader, RefusesZeroBenchmarks) {
  EXPECT_TRUE(mentions(refusal(ResultsBuilder().text()), "zero benchmarks"));
  EXPECT_TRUE(mentions(refusal(with(good(), "\"benchmarks\"", "\"marks\"")), "zero benchmarks"));
}

TEST(Reader, RefusesAggregatesAlone) {
  ResultsBuilder builder;
  builder.rows.push_back({{"name", gemm + "_mean"}, {"run_type", "aggregate"}});
  EXPECT_TRUE(mentions(refusal(builder.text()), "only aggregates"));
}

TEST(Reader, RefusesAnotherSchema) {
  for (const std::string other : {"1", "3"}) {
    EXPECT_TRUE(mentions(refusal(with(good(), "\"schema\": 2", "\"schema\": " + other)),
                         "schema: is " + other + ", this program reads 2"));
  }
}

TEST(Reader, RefusesAFileOfSomebodyElse) {
  EXPECT_TRUE(mentions(refusal(R"({"context": {"date": "x"}, "benchmarks": []})"), "has no \"shakedown\""));
}

TEST(Reader, SaysWhenAFileIsAVerdictOrOfAnotherProgram) {
  EXPECT_TRUE(mentions(refusal(R"({"schema": 1, "verdict": "pass"})"),
                       "is a verdict, not results; show it with shakedown report --verdict=FILE"));
  EXPECT_TRUE(mentions(refusal(R"({"a": 1})"), "is not a result file"));
}

TEST(Reader, NamesTheFieldOfTheWrongType) {
  EXPECT_TRUE(mentions(refusal(with(good(), "\"complete\": true", "\"complete\": \"yes\"")),
                       "context.shakedown.complete: expected true or false"));
  EXPECT_TRUE(mentions(refusal(with(good(), "\"size\": 4", "\"size\": 4.5")), "context.shakedown.world.size"));
  EXPECT_TRUE(mentions(refusal(with(good(), "\"size\": 4", "\"size\": 0")), "at least 1"));
  EXPECT_TRUE(mentions(refusal(with(good(), "\"run_id\": \"run-1\",", "")), "context.shakedown.run_id: is missing"));
  EXPECT_TRUE(
      mentions(refusal(with(good(), "\"backend\": \"cuda\"", "\"backend\": \"auto\"")), "expected host or cuda"));
}

TEST(Reader, RefusesRanksThatDoNotAddUp) {
  EXPECT_TRUE(mentions(refusal(with(good(), "\"size\": 4", "\"size\": 5")), "lists 4 of 5 ranks"));
  EXPECT_TRUE(mentions(refusal(with(good(), "\"rank\": 3", "\"rank\": 2")), "lists rank 2 twice"));
  EXPECT_TRUE(mentions(refusal(with(good(), "[700.0,700.0,", "[700.0,")), "has 3 values for 4 ranks"));
  EXPECT_TRUE(mentions(refusal(with(good(), "[700.0,700.0,", "[700.0,\"x\",")), "expected numbers or null"));
}

TEST(Reader, RefusesTheSameRepetitionTwice) {
  ResultsBuilder builder;
  builder.add(gemm, "tflops", 700).add(gemm, "tflops", 710);
  std::string text = builder.text();
  const std::string second = "\"repetition_index\":1";
  ASSERT_NE(text.find(second), std::string::npos);
  text.replace(text.find(second), second.size(), "\"repetition_index\":0");
  EXPECT_TRUE(mentions(refusal(text), "appears twice"));
}

TEST(Reader, ReadsAFolderSortedAndLeavesTheVerdictOut) {
  const Folder folder;
  folder.write("b.json", good());
  folder.write("a.json", good());
  folder.write("verdict.json", "{}");
  folder.write("notes.txt", "x");
  const auto all = read_results(std::vector{folder.path(), folder.path() / "a.json"});
  ASSERT_EQ(all.size(), 2u) << "a file named twice is read once";
  EXPECT_EQ(all[0].file.filename(), "a.json");
}

TEST(Reader, ReadsManyFilesInTheirOrderAndReportsTheFirstThatIsWrong) {
  const Folder folder;
  std::vector<std::filesystem::path> files;
  for (const char letter : std::string("abcdefghijkl")) {
    // Each file is larger than the one before it, so that threads end them in another order.
    files.push_back(folder.write(std::string(1, letter) + ".json", good() + std::string(files.size() << 17, ' ')));
  }
  const auto results = read_results(files);
  ASSERT_EQ(results.size(), files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(results[i].file.filename(), files[i].filename());
    EXPECT_EQ(results[i].sha256, sha256(text_of(files[i])));
  }
  for (const auto* const wrong : {"e.json", "k.json"}) folder.write(wrong, "{}");
  try {
    read_results(files);
    FAIL() << "two files are wrong";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("e.json"), std::string::npos) << error.what();
  }
}

TEST(Reader, LeavesOutWhatTuningChoseBesideTheLaunches) {
  const Folder folder;
  for (const char* name : {"1", "2", "choices"}) std::filesystem::create_directory(folder.path() / name);
  folder.write("1/gemm.json", good());
  folder.write("2/gemm.json", good());
  folder.write("choices/gpu.json", "{}");
  EXPECT_EQ(read_results(std::vector{folder.path()}).size(), 2u);
}

TEST(Reader, RefusesAFolderWithoutResults) {
  const Folder folder;
  EXPECT_THROW(read_results(std::vector{folder.path()}), InputError);
}

TEST(Writer, GivesStrictJsonWhateverTheBytes) {
  ResultsBuilder builder;
  for (auto& rank : builder.context.ranks)
    rank.host =
        "no\xff"
        "de";
  builder.add(gemm, "tflops", 700, {1.0, std::nan(""), INFINITY, 2.0});
  const Results read = builder.results();
  EXPECT_EQ(read.context.ranks[0].host,
            "no\xEF\xBF\xBD"
            "de");
  EXPECT_EQ(read.rows[0].by_rank.at("tflops")[1], std::nullopt) << "not finite: none";
  EXPECT_EQ(read.rows[0].by_rank.at("tflops")[2], std::nullopt);
  const std::string raw = "{\"context\": {\"executable\": \"/home/\xe4/x\"}, \"benchmarks\": []}";
  EXPECT_TRUE(nlohmann::json::accept(write_results(raw, builder.context, {})));
}

TEST(Writer, NumbersTheRepetitionsOfARowThatWasMeasuredAgain) {
  const auto row = [](const char* name) {
    return R"({"name": ")" + std::string(name) +
           R"(", "run_name": "x", "run_type": "iteration", "repetitions": 1, "repetition_index": 0})";
  };
  std::map<std::string, std::vector<RankData>> data;
  for (const double value : {1.5, 2.5, 3.5}) data["hbm/a:1"].emplace_back().by_rank["hbm_gb_per_s"] = {value};
  const auto written = nlohmann::json::parse(write_results(
      R"({"context": {}, "benchmarks": [)" + row("hbm/a:1/manual_time") + "," + row("hbm/b:1/manual_time") + "," +
          row("hbm/a:1/manual_time") + "," + row("hbm/a:1/manual_time") + "]}",
      {}, data))["benchmarks"];
  EXPECT_EQ(written[1]["repetitions"], 1);
  for (const auto& [at, index] : {std::pair{0, 0}, {2, 1}, {3, 2}}) {
    EXPECT_EQ(written[at]["repetitions"], 3);
    EXPECT_EQ(written[at]["repetition_index"], index);
    EXPECT_EQ(written[at]["by_rank"]["hbm_gb_per_s"][0], 1.5 + index);
  }
}

TEST(Writer, RefusesACounterThatIsNotFinite) {
  EXPECT_THROW(write_results(R"({"context": {}, "benchmarks": [{"name": "a", "cv": NaN}]})", {}, {}), InputError);
  EXPECT_THROW(write_results("", {}, {}), InputError);
  EXPECT_THROW(write_results("{}", {}, {}), InputError);
}

TEST(Writer, KeepsWhatGoogleBenchmarkWrote) {
  const std::string text = good();
  EXPECT_TRUE(mentions(text, "\"library_build_type\": \"debug\""));
  EXPECT_TRUE(mentions(text, "\"name\":\"" + gemm + "/manual_time\""));
}

TEST(ReplaceFile, ReplacesAndLeavesNothingBehind) {
  const Folder folder;
  const auto file = folder.write("a.json", "old");
  const auto before = umask(022);
  replace_file(file, "new");
  umask(before);
  EXPECT_EQ(text_of(file), "new");
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0644));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(ReplaceFile, WritesThroughNoLinkThatSomebodyPutBesideIt) {
  const Folder folder;
  const auto victim = folder.write("victim", "precious");
  const auto file = folder.path() / "a.json";
  std::filesystem::create_symlink(victim, file.string() + "." + std::to_string(getpid()) + ".tmp");
  replace_file(file, "new");
  EXPECT_EQ(text_of(victim), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(file));
}

TEST(ReplaceFile, FollowsNoLinkOfAnotherUserInAFolderForAll) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make files of other users";
  const Folder folder;
  const auto victim = folder.write("victim", "precious");
  const auto link = folder.path() / "a.json";
  std::filesystem::create_symlink(victim, link);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(01777));
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_THROW(replace_file(link, "new"), InputError);
  EXPECT_EQ(text_of(victim), "precious");
}

TEST(ReplaceFile, WaitsNotForEverForAReaderOfAPipe) {
  const Folder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(replace_file(pipe, "new\n"), InputError);
}

TEST(ReplaceFile, KeepsTheOldFileWhenItCannotWrite) {
  const Folder folder;
  const auto file = folder.write("a.json", "old");
  EXPECT_THROW(replace_file(folder.path() / "no" / "a.json", "new"), InputError);
  EXPECT_THROW(replace_file(folder.path(), "new"), InputError);
  EXPECT_EQ(text_of(file), "old");
}

TEST(ReplaceFile, WritesIntoADeviceInsteadOfReplacingIt) {
  const Folder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::fstream reader(pipe, std::ios::in | std::ios::out);  // both, so that opening does not wait
  replace_file(pipe, "new\n");
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "new");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(ReplaceFile, FollowsALink) {
  const Folder folder;
  const auto file = folder.write("a.json", "old");
  std::filesystem::create_symlink("a.json", folder.path() / "latest.json");
  replace_file(folder.path() / "latest.json", "new");
  EXPECT_EQ(text_of(file), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "latest.json"));
}

}  // namespace
}  // namespace shakedown::results_test
