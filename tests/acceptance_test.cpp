// Judges results against thresholds and registers each finding as one test, so that every tool for GoogleTest can
// display the verdict.
//
//   build/tests/acceptance_test --results=build/results
//   build/tests/acceptance_test --results=build/results --families=gemm --gtest_output=xml:junit.xml
//
// The exit code and the last line are those of the verdict, not of GoogleTest: a filter hides tests, but no failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/keeper.hpp"
#include "base/text.hpp"
#include "report/arguments.hpp"
#include "report/judge_apart.hpp"
#include "report/outputs.hpp"
#include "report/reason.hpp"
#include "report/terminal.hpp"
#include "report/words.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

constexpr int skipped = 77;

class FindingTest : public testing::Test {
 public:
  FindingTest(const Finding& finding, std::string file, int line)
      : finding_(finding), file_(std::move(file)), line_(line) {}

  void TestBody() override {
    RecordProperty("key", finding_.key);
    RecordProperty("finding", std::string(name(finding_.status)));
    RecordProperty("judgement", std::string(name(finding_.judgement)));
    if (finding_.value) RecordProperty("value", number_text(*finding_.value));
    if (finding_.limit) RecordProperty("limit", limit_text(finding_));
    if (!finding_.unit.empty()) RecordProperty("unit", finding_.unit);
    if (!finding_.rule_at.empty()) RecordProperty("rule", finding_.rule_at);
    if (finding_.worst) RecordProperty("worst", printable(text(*finding_.worst)));
    // Reports the failure at the line of its rule in the profile.
    if (!finding_.good() && finding_.counts())
      ADD_FAILURE_AT(file_.c_str(), line_) << printable(finding_text(finding_));
  }

 private:
  const Finding& finding_;
  std::string file_;
  int line_;
};

// Returns a test name without ':', which separates patterns of a GoogleTest filter. The family is the test suite.
std::string test_name(const Finding& finding) {
  const auto slash = finding.key.text().find('/');
  std::string name = slash == std::string::npos ? "family" : finding.key.text().substr(slash + 1);
  if (!finding.metric.empty()) name.append("/").append(finding.metric);
  std::replace(name.begin(), name.end(), ':', '=');
  return name;
}

void register_tests(const Verdict& verdict) {
  std::map<std::string, int> times;  // a warning and a failure of one metric share a name: numbers the second
  for (const Finding& finding : verdict.findings) {
    const std::string suite = family_of(finding.key);
    std::string test = test_name(finding);
    if (const int n = ++times[suite + "." + test]; n > 1) test.append("/").append(std::to_string(n));
    const auto colon = finding.rule_at.rfind(':');
    const std::string file = finding.rule_at.empty() ? __FILE__ : finding.rule_at.substr(0, colon);
    const int line = finding.rule_at.empty() ? __LINE__ : std::atoi(finding.rule_at.c_str() + colon + 1);
    testing::RegisterTest(suite.c_str(), test.c_str(), nullptr, nullptr, file.c_str(), line,
                          [&finding, file, line]() -> testing::Test* { return new FindingTest(finding, file, line); });
  }
}

std::string help() {
  return "usage: acceptance_test --results=F[,F...] [flags] [--gtest_filter=... and other GoogleTest flags]\n\n"
         "Judges results against thresholds; each finding is one GoogleTest test.\n" +
         flags_help(all_flags(), "acceptance_test") +
         "\nexit codes: 0 pass (or HOST-ONLY), 1 fail, 2 usage or unreadable input, 3 inconclusive, incomplete or no "
         "reference\n";
}

// Returns the words that are not flags of GoogleTest. GoogleTest removes its own flags from argv.
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

int judge_and_test(const Arguments& arguments, const ReasonChannel& channel) {
  const Judged judged = judge_apart(arguments);
  const auto& measured = judged.measured;
  const Verdict& verdict = judged.verdict;
  const int code = write_all_outputs(arguments.outputs, judged, "acceptance_test", exit_code(verdict, arguments));
  // Not for a single family, whose verdict is partial: the channel carries one line for the whole run.
  const auto give_reason = [&] {
    if (arguments.judge.families.all()) channel.give(text(headline_of(verdict)));
  };
  if (arguments.explain && measured) {
    std::fputs(explain(*measured, judged.profiles, verdict, *arguments.explain).c_str(), stdout);
    std::puts(verdict_line(verdict).c_str());
    give_reason();
    return code;
  }
  // One rule for all programs (base/console.hpp) instead of GoogleTest's own.
  TerminalStyle style = style_of(arguments);
  if (GTEST_FLAG_GET(color) != "auto") style.color = arguments.color.value_or(GTEST_FLAG_GET(color) == "yes");
  GTEST_FLAG_SET(color, style.color ? "yes" : "no");
  register_tests(verdict);
  [[maybe_unused]] const int failed = RUN_ALL_TESTS();  // the verdict is computed independently
  if (GTEST_FLAG_GET(list_tests)) return 0;
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    throw InputError("zero tests were selected; correct --gtest_filter");
  }
  std::fputs(terminal_text(verdict, style).c_str(), stdout);
  give_reason();
  const auto& families = arguments.judge.families.names;
  const bool unmeasured = measured && !families.empty() &&
                          std::none_of(families.begin(), families.end(),
                                       [&](const auto& family) { return has_values_of(measured->benchmarks, family); });
  if (arguments.skip_unmeasured && unmeasured && verdict.state == State::no_reference) return skipped;
  return code;
}

int run(const Arguments& arguments, const ReasonChannel& channel) {
  if (arguments.help) {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  if (arguments.version) {
    std::puts("acceptance_test " SHAKEDOWN_VERSION);
    return 0;
  }
  return judge_and_test(arguments, channel);
}

// Replaces old reports if the input could not be judged, even if another flag is wrong.
void replace_reports(const std::vector<std::string>& words, const std::string& why) {
  Judged nothing;
  nothing.verdict.notes.push_back(why);
  replace_outputs(words, nothing, "acceptance_test");
}

int end_after(const Failure& failure, const std::vector<std::string>& words, const ReasonChannel& channel) {
  std::fflush(stdout);
  replace_reports(words, failure.text);
  say_no_verdict(failure, "acceptance_test", &channel, stdout);
  return failure.code;
}

int run_and_report(int argc, char** argv, const std::vector<std::string>& words, const ReasonChannel& channel) {
  try {
    const auto flags = without_gtest_flags(argc, argv);
    const auto arguments = parse_arguments("acceptance_test", flags, beside_program("share/shakedown/thresholds"));
    return after_output(run(arguments, channel), "acceptance_test");
  } catch (const std::exception& error) {
    return after_output(end_after(failure_of(error), words, channel), "acceptance_test");
  }
}

// Says why the work did not answer, and then replaces old reports, which may be where the work hangs.
int answer_for(const std::vector<std::string>& words, const ReasonChannel& channel, const std::string& why) {
  const Failure failure{exit_incomplete, why};
  try_shortly([&] { say_no_verdict(failure, "acceptance_test", &channel, stdout); });
  if (!try_shortly([&] { replace_reports(words, why); })) {
    try_shortly([&] { replace_reports(without_results(words), why); });
  }
  return failure.code;
}

}  // namespace
}  // namespace shakedown

int main(int argc, char** argv) {
  using namespace shakedown;
  end_incomplete_on_terminate(true);
  const ReasonChannel channel;
  const auto words = with_equals(all_flags(), "acceptance_test", {argv + 1, argv + argc});
  return keep({std::nullopt, false, [&](const std::string& why) { return answer_for(words, channel, why); }},
              [&] { return run_and_report(argc, argv, words, channel); });
}
