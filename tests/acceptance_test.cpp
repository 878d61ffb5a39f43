// Is this machine accepted? Reads results, judges them against thresholds, and registers each finding as one test, so
// that every tool which understands GoogleTest understands the verdict.
//
//   build/tests/acceptance_test --results=build/results
//   build/tests/acceptance_test --results=build/results --family=gemm --gtest_output=xml:junit.xml
//
// The exit code and the last line are the verdict's, not GoogleTest's: a filter hides tests, never a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "report/arguments.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"

namespace shakedown {
namespace {

constexpr int usage = 2;

class FindingTest : public testing::Test {
 public:
  explicit FindingTest(const Finding& finding) : finding_(finding) {}

  void TestBody() override {
    RecordProperty("key", finding_.key);
    RecordProperty("finding", std::string(name(finding_.status)));
    if (finding_.value) RecordProperty("value", number_text(*finding_.value));
    if (finding_.limit) RecordProperty("limit", finding_.limit_name + " " + number_text(*finding_.limit));
    if (!finding_.unit.empty()) RecordProperty("unit", finding_.unit);
    if (!finding_.rule_at.empty()) RecordProperty("rule", finding_.rule_at);
    if (finding_.worst) RecordProperty("worst", text(*finding_.worst));
    if (!finding_.good() && finding_.counts()) FAIL() << finding_text(finding_);
  }

 private:
  const Finding& finding_;
};

// ':' separates patterns of a GoogleTest filter. The family is the suite.
std::string test_name(const Finding& finding) {
  const auto slash = finding.key.find('/');
  std::string name = slash == std::string::npos ? "family" : finding.key.substr(slash + 1);
  if (!finding.metric.empty()) name.append("/").append(finding.metric);
  std::replace(name.begin(), name.end(), ':', '=');
  return name;
}

void register_tests(const Verdict& verdict) {
  std::map<std::string, int> times;  // a warning and a failure of one metric have one name: number the second
  for (const Finding& finding : verdict.findings) {
    const std::string suite = family_of(finding.key);
    std::string test = test_name(finding);
    if (const int n = ++times[suite + "." + test]; n > 1) test.append("/").append(std::to_string(n));
    const auto colon = finding.rule_at.rfind(':');
    const std::string file = finding.rule_at.empty() ? __FILE__ : finding.rule_at.substr(0, colon);
    const int line = finding.rule_at.empty() ? __LINE__ : std::atoi(finding.rule_at.c_str() + colon + 1);
    testing::RegisterTest(suite.c_str(), test.c_str(), nullptr, nullptr, file.c_str(), line,
                          [&finding]() -> testing::Test* { return new FindingTest(finding); });
  }
}

std::string help() {
  return "usage: acceptance_test --results=F[,F...] [flags] [--gtest_filter=... and other GoogleTest flags]\n\n"
         "Judges results against thresholds; each finding is one GoogleTest test.\n\n" +
         arguments_help() +
         "\nexit codes: 0 pass (or HOST-ONLY), 1 fail, 2 usage or unreadable input, 3 inconclusive or no reference\n";
}

// GoogleTest takes its flags out of what it is given and leaves what it does not know.
std::vector<std::string> without_gtest_flags(int argc, char** argv) {
  std::vector<std::string> words;
  std::vector<char*> for_gtest{argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]).rfind("--gtest_", 0) == 0) {
      for_gtest.push_back(argv[i]);
    } else {
      words.emplace_back(argv[i]);
    }
  }
  int count = static_cast<int>(for_gtest.size());
  for_gtest.push_back(nullptr);
  testing::InitGoogleTest(&count, for_gtest.data());
  for (int i = 1; i < count; ++i) words.emplace_back(for_gtest[static_cast<std::size_t>(i)]);
  return words;
}

int judge_and_test(const Arguments& arguments) {
  const Verdict verdict = judge(arguments);
  if (arguments.verdict) replace_file(*arguments.verdict, verdict_json(verdict));
  if (arguments.explain) {
    std::fputs(explanation(arguments).c_str(), stdout);
    std::puts(verdict_line(verdict).c_str());
    return verdict.exit_code;
  }
  register_tests(verdict);
  [[maybe_unused]] const int failed = RUN_ALL_TESTS();  // the verdict knows better
  if (GTEST_FLAG_GET(list_tests)) return 0;
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    throw InputError("zero tests were selected; correct --gtest_filter");
  }
  const bool color = arguments.color || GTEST_FLAG_GET(color) == "yes";
  std::fputs(terminal_text(verdict, {color}).c_str(), stdout);
  return verdict.exit_code;
}

int run(const Arguments& arguments) {
  if (arguments.help) {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  if (arguments.version) {
    std::puts("acceptance_test " SHAKEDOWN_VERSION);
    return 0;
  }
  return judge_and_test(arguments);
}

// An old verdict.json must not outlive input that could not be judged, not even when another flag was wrong.
int refuse(const std::vector<std::string>& words, const std::string& why) {
  Verdict verdict;
  verdict.notes.push_back(why);
  std::fflush(stdout);
  std::fprintf(stderr, "acceptance_test: %s\n", why.c_str());
  const std::string flag = "--verdict=";
  for (const std::string& word : words) {
    if (word.rfind(flag, 0) != 0 || word == flag) continue;
    try {
      replace_file(word.substr(flag.size()), verdict_json(verdict));
    } catch (const InputError& error) {
      std::fprintf(stderr, "acceptance_test: %s\n", error.what());
    }
  }
  std::puts(verdict_line(verdict).c_str());
  return usage;
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    return shakedown::run(
        shakedown::parse_arguments(shakedown::without_gtest_flags(argc, argv), SHAKEDOWN_SOURCE_DIR "/thresholds"));
  } catch (const std::exception& error) {
    return shakedown::refuse(words, error.what());
  }
}
