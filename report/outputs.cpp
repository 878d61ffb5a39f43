#include "report/outputs.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "report/bencher.hpp"
#include "report/csv.hpp"
#include "report/fleet.hpp"
#include "report/github_annotations.hpp"
#include "report/github_benchmark.hpp"
#include "report/health_checker.hpp"
#include "report/html/page.hpp"
#include "report/html/tables.hpp"
#include "report/junit.hpp"
#include "report/markdown.hpp"
#include "report/nagios.hpp"
#include "report/prometheus.hpp"
#include "report/regression_json.hpp"
#include "report/superbench.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/catalogue/families.hpp"

namespace shakedown {
namespace {

template <std::string (*text)(const Verdict&)>
std::string of_verdict(const Judged& judged) {
  return text(judged.verdict);
}

// Calls `text` on the measured values. The verdict of a soak has no values, so `text` gets those of its last complete
// round.
template <std::string (*text)(const Judged&)>
std::string of_figures(const Judged& judged) {
  if (judged.last_round) return of_figures<text>(judged.last_round());
  if (judged.measured) refuse_virtual(judged.measured->files, "an export of figures");
  return text(judged);
}

}  // namespace

template <>
const std::vector<Output<Judged>>& outputs() {
  static const std::vector<Output<Judged>> table{
      {"--html", "write a page with figures, evidence and actions", html_text},
      {"--verdict", "write verdict.json (report/verdict.schema.json)", of_verdict<verdict_json>},
      {"--junit", "write JUnit XML; waived findings are skipped tests", of_verdict<junit_xml>},
      {"--markdown", "write Markdown, for the summary of a CI job", of_verdict<markdown_text>},
      {"--github-annotations", "write ::error and ::warning lines for a step of GitHub Actions",
       of_verdict<github_annotations>},
      {"--nagios", "write a line with performance data for Nagios and Icinga (ci/monitoring/check)",
       of_verdict<nagios_line>},
      {"--csv", "write CSV with a row for each finding", of_verdict<csv_text>},
      {"--prometheus", "write Prometheus text, for node_exporter's textfile collector", of_verdict<prometheus_text>},
      {"--github-benchmark", "write throughputs for github-action-benchmark (customBiggerIsBetter)",
       of_figures<of_verdict<github_benchmark_json>>},
      {"--bencher", "write the figures for Bencher (adapter json)", of_figures<bencher_json>},
      {"--superbench", "write SuperBench's results-summary.jsonl: a line for each node", of_figures<superbench_jsonl>},
      {"--health-checker", "write {status: PASS|FAIL|ERROR, tests} for a node health checker",
       of_verdict<health_checker_json>},
  };
  return table;
}

template <>
const std::vector<Output<Regression>>& outputs() {
  static const std::vector<Output<Regression>> table{
      {"--html", "write a page with all launches of each benchmark", html_text},
      {"--json", "write every change as JSON (report/regression.schema.json)", regression_json},
      {"--junit", "write JUnit XML", junit_xml},
      {"--markdown", "write Markdown, for the summary of a CI job", markdown_text},
  };
  return table;
}

template <>
const std::vector<Output<Fleet>>& outputs() {
  static const std::vector<Output<Fleet>> table{
      {"--json", "write each node with its state, reasons and next step as JSON", fleet_json},
      {"--csv", "write CSV with a row for each node", fleet_csv},
      {"--html", "write a page with a row for each node", html_text},
  };
  return table;
}

template <>
const std::vector<Output<History>>& outputs() {
  static const std::vector<Output<History>> table{
      {"--json", "write node states, repairs and each figure over time as JSON", history_json},
      {"--html", "write a page with node states, and each changed figure over time", html_text},
      {"--prometheus", "write the state of each node, and changed figures, for Prometheus", history_prometheus},
  };
  return table;
}

const std::set<std::string>& output_flags() {
  static const std::set<std::string> flags = [] {
    std::set<std::string> all;
    const auto add = [&](const auto& table) {
      for (const auto& output : table) all.insert(output.flag);
    };
    add(outputs<Judged>());
    add(outputs<Regression>());
    add(outputs<Fleet>());
    add(outputs<History>());
    return all;
  }();
  return flags;
}

namespace {

namespace fs = std::filesystem;

bool has_flag(const std::string& word, const std::string& flag) { return word.rfind(flag + "=", 0) == 0; }

bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return one == other || fs::equivalent(one, other, error);
}

// True if writing `file` would change results that are read from `input`, which is a file or a folder.
bool overwrites(const fs::path& file, const fs::path& input) {
  const TimedCall call("stat", input);
  std::error_code error;
  if (!fs::is_directory(input, error)) return is_same(file, input);
  // Looks up only JSON files, so that an output on a disk that does not answer does not cost the verdict.
  if (file.extension() != ".json" || !is_visible(file)) return false;
  const fs::path name = file.filename(), folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (family_row(file.stem().string()) != nullptr) {
    const fs::path below = fs::relative(file, input, error);
    if (!below.empty() && *below.begin() != "..") return true;
  }
  const bool is_result = name != "verdict.json" && name != "baseline.json";
  return is_result && (is_same(folder, input) || is_same(folder, input / "latest"));
}

// True for a file that begins as the results of a benchmark do.
bool has_results(const fs::path& file) {
  if (file.extension() != ".json" || !is_visible(file)) return false;
  const TimedCall call("read", file);
  std::string start(64, '\0');
  std::ifstream(file).read(start.data(), static_cast<std::streamsize>(start.size()));
  std::erase_if(start, [](char c) { return c == ' ' || c == '\n' || c == '\0'; });
  return start.starts_with("{\"context\":");
}

}  // namespace

void refuse_outputs_over_results(const OutputFiles& files) {
  for (const auto& [flag, file] : files) {
    if (has_results(file))
      throw InputError(flag + ": " + file.string() + " has results, and would be overwritten; name another file");
  }
}

std::string output_over_input(const std::vector<std::string>& words) {
  std::vector<fs::path> inputs;
  for (const char* const flag : {"--results", "--baseline", "--scaling", "--site", "--roster", "--thresholds"}) {
    for (const std::string& word : words) {
      if (!has_flag(word, flag)) continue;
      for (const auto& path : split(word.substr(word.find('=') + 1), ',')) inputs.emplace_back(path);
    }
  }
  for (const std::string& flag : output_flags()) {
    for (const std::string& word : words) {
      if (!has_flag(word, flag)) continue;
      const fs::path file = word.substr(word.find('=') + 1);
      if (std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return overwrites(file, input); })) {
        return flag;
      }
    }
  }
  return "";
}

int write_all_outputs(const OutputFiles& files, const Judged& judged, const char* program, int code) {
  constexpr int exit_output_lost = 3;
  for (const auto& [flag, file] : files) {
    try {
      write_outputs({{flag, file}}, judged);
    } catch (const InputError& error) {
      std::fprintf(stderr, "%s: %s\n", program, error.what());
      if (code == 0) code = exit_output_lost;
    }
  }
  return code;
}

template <class Subject>
void replace_outputs(const std::vector<std::string>& words, const Subject& subject, const char* program,
                     const std::string& keep) {
  if (!output_over_input(words).empty()) return;  // the caller refuses outputs that would overwrite an input
  std::vector<fs::path> kept;
  for (const std::string& word : words) {
    if (!keep.empty() && has_flag(word, keep)) kept.emplace_back(word.substr(keep.size() + 1));
  }
  for (const auto& output : outputs<Subject>()) {
    const std::string start = std::string(output.flag) + "=";
    if (output.flag == keep) continue;
    for (const std::string& word : words) {
      if (word.rfind(start, 0) != 0 || word == start) continue;
      const fs::path file = word.substr(start.size());
      if (std::any_of(kept.begin(), kept.end(), [&](const auto& input) { return is_same(file, input); })) continue;
      if (has_results(file)) continue;
      try {
        replace_file(file, output.text(subject));
      } catch (const InputError& error) {
        std::fprintf(stderr, "%s: %s\n", program, error.what());
      }
    }
  }
}

template void replace_outputs(const std::vector<std::string>&, const Judged&, const char*, const std::string&);
template void replace_outputs(const std::vector<std::string>&, const Regression&, const char*, const std::string&);
template void replace_outputs(const std::vector<std::string>&, const Fleet&, const char*, const std::string&);

std::vector<std::string> without_results(std::vector<std::string> words) {
  for (auto& word : words) {
    if (has_flag(word, "--results")) word = "--results=";
  }
  return words;
}

int after_output(int code, const char* program) {
  constexpr int exit_output_lost = 3;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "%s: standard output: cannot be written, the output is lost; free space or redirect it\n",
               program);
  return exit_output_lost;
}

}  // namespace shakedown
