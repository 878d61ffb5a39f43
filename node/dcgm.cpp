// The report has no published schema. The parser of this file accepts the output of dcgmi/Diag.cpp of NVIDIA/DCGM in
// its versions 2.4.7, 3.3.9 and 4.6.0:
//   2  {"DCGM GPU Diagnostic": {"test_categories": [{"tests": [{"name", "results": [{"gpu_ids": "0", "status",
//      "warnings": "..."}]}]}]}}, without gpu_ids for tests of software or settings
//   3  "gpu_id" (a number if it belongs to a warning) and "warnings": [{"warning" or "warnings": "..."}], with
//      "GPU Device Serials": {"0": "..."}
//   4  {"DCGM Diagnostic": ...}, "entity_group": "GPU" with "entity_id", a "test_summary" next to the results with all
//      warnings, and "entity_groups": [{"entity_group", "entities": [{"entity_id", "serial_num"}]}]
// The exit code is not 0 if a test fails or an error occurs. An error is a member "runtime_error" or a line of text.
#include "node/dcgm.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace shakedown {
namespace {

using Json = nlohmann::json;

constexpr std::size_t max_message_bytes = 300;  // maximum characters of a message of DCGM

/// Returns a list member; empty if it is not a list.
const Json& list_in(const Json& object, const char* name) {
  static const Json none = Json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : none;
}

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int> number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  if (found->is_number_integer()) return found->get<int>();
  const auto text = text_in(object, name);
  const bool digits = !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::optional(std::atoi(text.c_str())) : std::nullopt;
}

std::vector<std::string> warnings_in(const Json& result) {
  std::vector<std::string> all;
  if (const auto text = text_in(result, "warnings"); !text.empty()) all.push_back(text);
  for (const auto& warning : list_in(result, "warnings")) {
    for (const char* name : {"warning", "warnings"}) {
      if (const auto text = warning.is_object() ? text_in(warning, name) : ""; !text.empty()) all.push_back(text);
    }
  }
  return all;
}

/// True if DCGM itself classifies all messages of the result as a setting or as something to watch. Severities:
/// dcgmErrorSeverity_enum in dcgm_errors.h; versions before 4 report none.
bool is_mild(const Json& result) {
  constexpr int monitor = 1, configuration = 5;
  const auto& warnings = list_in(result, "warnings");
  return !warnings.empty() && std::all_of(warnings.begin(), warnings.end(), [&](const Json& warning) {
    const auto severity = warning.is_object() ? number_in(warning, "error_severity") : std::nullopt;
    return severity == monitor || severity == configuration;
  });
}

std::string shown(const std::string& text) {
  auto line = one_line(text.substr(0, max_message_bytes));
  line.erase(line.find_last_not_of(" .") + 1);
  return line + (text.size() > max_message_bytes ? " ..." : "");
}

/// Returns the GPU of a result. For software tests, DCGM 3 gives only the GPU of the last warning.
std::optional<int> gpu_of(const Json& result) {
  const auto group = text_in(result, "entity_group");
  if (!group.empty()) return group == "GPU" ? number_in(result, "entity_id") : std::nullopt;
  if (const auto gpu = number_in(result, "gpu_ids")) return gpu;
  const auto found = result.find("gpu_id");
  const bool of_last = found != result.end() && found->is_number() && warnings_in(result).size() > 1;
  const auto gpu = of_last ? std::nullopt : number_in(result, "gpu_id");
  return gpu && *gpu >= 0 ? gpu : std::nullopt;
}

class ReportReader {
 public:
  explicit ReportReader(int level) : level_(level) {}

  DcgmReport read(const std::string& text) {
    const auto begin = text.find('{'), end = text.rfind('}');
    if (begin == std::string::npos) return without(said(text));
    const auto json = Json::parse(text.substr(begin, end == std::string::npos ? end : end + 1 - begin), nullptr, false);
    if (json.is_discarded()) return without("its report is incomplete");
    for (const char* name : {"DCGM Diagnostic", "DCGM GPU Diagnostic"}) {
      if (json.contains(name)) read_tests(json[name]);
    }
    read_machine(json);
    if (!report_.trouble.empty()) return report_;
    // dcgmi prints some reasons before the report begins.
    const auto before = text.find_first_not_of(" \n") < begin ? ": " + said(text.substr(0, begin)) : "";
    if (ran_ == 0) return without("it ran no test" + before);
    if (level_ > 1 && report_.tested.empty() && report_.results.empty()) return without("it tested no GPU" + before);
    return report_;
  }

 private:
  DcgmReport without(const std::string& trouble) {
    report_.trouble = trouble;
    return report_;
  }

  /// Returns the output as a reason, if it is not a report.
  static std::string said(const std::string& text) {
    const auto first = text.find_first_not_of(" \n");
    if (first == std::string::npos) return "printed nothing";
    const bool unreached =
        text.find("host engine") != std::string::npos || text.find("connection") != std::string::npos;
    return shown(text.substr(first, text.find('\n', first) - first)) + (unreached ? "; is nv-hostengine running?" : "");
  }

  void read_machine(const Json& json) {
    report_.version = text_in(json, "version") + text_in(json.value("metadata", Json::object()), "version");
    // Kept in a variable, because it must live longer than its items.
    const Json serials = json.value("GPU Device Serials", Json::object());
    for (const auto& [gpu, serial] : serials.items()) {
      if (serial.is_string()) report_.serials[std::atoi(gpu.c_str())] = serial;
    }
    for (const auto& group : list_in(json, "entity_groups")) {
      if (text_in(group, "entity_group") != "GPU") continue;
      for (const auto& entity : list_in(group, "entities")) {
        const auto gpu = number_in(entity, "entity_id");
        if (const auto serial = text_in(entity, "serial_num"); gpu && !serial.empty()) report_.serials[*gpu] = serial;
      }
    }
  }

  void read_tests(const Json& all) {
    report_.trouble = shown(text_in(all, "runtime_error"));
    for (const auto& category : list_in(all, "test_categories")) {
      const bool is_of_hardware = text_in(category, "category") != "Deployment";
      for (const auto& test : list_in(category, "tests")) read_test(test, is_of_hardware || level_ == 1);
    }
    for (const auto& [test, gpus] : skipped_) {
      for (const int gpu : gpus) {
        if (ran_on_.contains(test) || !report_.tested.contains(gpu)) report_.skipped[gpu].push_back(test);
      }
    }
  }

  void read_test(const Json& test, bool covers_gpu) {
    const auto name = text_in(test, "name");
    bool bad = false;
    for (const auto& result : list_in(test, "results")) {
      const auto gpu = gpu_of(result);
      if (gpu && was_skipped(result)) skipped_[name].insert(*gpu);
      if (gpu && !was_skipped(result) && covers_gpu) {
        report_.tested.insert(*gpu);
        ran_on_.insert(name);
      }
      bad = take(name, result) || bad;
    }
    // An error that belongs to no device is only in the summary.
    const auto summary = test.find("test_summary");
    if (!bad && summary != test.end()) take(name, *summary);
  }

  static bool was_skipped(const Json& result) {
    const auto status = lower(text_in(result, "status"));
    return status == "skip" || status == "not run";
  }

  /// Records a result. Returns true if the test did not pass.
  bool take(const std::string& test, const Json& result) {
    const auto status = lower(text_in(result, "status"));
    if (was_skipped(result)) return false;
    const auto gpu = gpu_of(result);
    ++ran_;
    if (status == "pass") return false;
    // Any other status is treated as a failure.
    const auto words = shown(joined(warnings_in(result), "; "));
    report_.results.push_back(
        {gpu, status != "warn" && !is_mild(result), test + ": " + (words.empty() ? "status " + shown(status) : words)});
    return true;
  }

  int level_;
  int ran_ = 0;
  std::map<std::string, std::set<int>> skipped_;  // by test: GPUs on which it was skipped
  std::set<std::string> ran_on_;                  // tests that ran on at least one GPU
  DcgmReport report_;
};

/// Returns the NVML index of a GPU of DCGM. Finds it by the serial number. If the serial number is unknown, assumes
/// that both indices are equal.
std::optional<std::size_t> place(const DcgmReport& report, int gpu, const std::vector<Facts>& gpus) {
  const auto serial = report.serials.find(gpu);
  const auto serial_of = [](const Facts& facts) {
    const auto found = facts.find("serial");
    return found == facts.end() ? std::nullopt : found->second.text;
  };
  const bool known = std::all_of(gpus.begin(), gpus.end(), [&](const Facts& facts) { return serial_of(facts); });
  const auto index = static_cast<std::size_t>(gpu);
  if (serial == report.serials.end() || !known) return index < gpus.size() ? std::optional(index) : std::nullopt;
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const Facts& facts) { return serial_of(facts) == serial->second; });
  return found == gpus.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - gpus.begin()));
}

Facts facts_of(const DcgmReport& report, const std::vector<DcgmReport::Result>& results) {
  const bool whole = report.trouble.empty();
  Facts facts{{"dcgm_answers", yes_or_no(whole, report.trouble)}};
  for (const bool failed : {true, false}) {
    std::vector<std::string> texts;
    for (const auto& result : results) {
      if (result.failed == failed) texts.push_back(result.text);
    }
    facts[failed ? "dcgm_failed" : "dcgm_warned"] =
        number_fact(whole ? std::optional(static_cast<double>(texts.size())) : std::nullopt, joined(texts, "; "));
  }
  return facts;
}

}  // namespace

double dcgm_limit(int level, double timeout) { return timeout * (level == 1 ? 1 : level == 2 ? 3 : 12); }

DcgmReport read_dcgm(const CommandOutput& output, int level) {
  DcgmReport report;
  const auto program = "dcgmi diag -r " + std::to_string(level);
  if (!output.started) {
    report.trouble = "dcgmi is not installed here";
  } else if (output.timed_out) {
    report.trouble = program + " was ended because it took too long; --timeout=S gives more time";
  } else {
    report = ReportReader(level).read(output.text);
    if (report.trouble.empty() && output.code != 0 && report.results.empty()) {
      report.trouble = "no test failed, but dcgmi ended with exit code " + std::to_string(output.code);
    }
    if (!report.trouble.empty()) report.trouble = program + ": " + report.trouble;
  }
  return report;
}

Facts dcgm_host_facts(const DcgmReport& report, const std::vector<Facts>& gpus, const std::set<std::size_t>& of_ranks) {
  std::vector<DcgmReport::Result> own;
  for (const auto& result : report.results) {
    const auto at = result.gpu ? place(report, *result.gpu, gpus) : std::nullopt;
    if (at && of_ranks.contains(*at)) continue;
    own.push_back(result);
    if (!result.gpu) continue;
    const auto uuid = at && gpus[*at].contains("uuid") ? gpus[*at].at("uuid").text : std::nullopt;
    own.back().text = "GPU " + std::to_string(*result.gpu) + (uuid ? " " + *uuid : "") + ", " + result.text;
  }
  auto facts = facts_of(report, own);
  facts["dcgm_version"] = text_fact(report.version.empty() ? std::nullopt : std::optional(report.version));
  return facts;
}

Facts dcgm_gpu_facts(const DcgmReport& report, const std::vector<Facts>& gpus, std::size_t gpu) {
  const auto is_this = [&](int number) { return place(report, number, gpus) == gpu; };
  std::vector<DcgmReport::Result> own;
  for (const auto& result : report.results) {
    if (!result.gpu || !is_this(*result.gpu)) continue;
    own.push_back(result);
    own.back().text = "GPU " + std::to_string(*result.gpu) + ", " + result.text;
  }
  auto facts = facts_of(report, own);
  const auto skipped = std::find_if(report.skipped.begin(), report.skipped.end(),
                                    [&](const auto& tests) { return is_this(tests.first); });
  const bool has_failed = facts["dcgm_failed"].number.value_or(0) > 0;
  if (!report.trouble.empty() || has_failed) return facts;
  // In DCGM 2 and 3, level 1 does not name the tested GPUs.
  const auto& tested = report.tested;
  if (skipped != report.skipped.end()) {
    facts["dcgm_failed"] = number_fact(std::nullopt, "DCGM skipped " + joined(skipped->second) + " on this GPU");
  } else if (!tested.empty() && std::none_of(tested.begin(), tested.end(), is_this)) {
    facts["dcgm_failed"] = number_fact(std::nullopt, "DCGM ran no test on this GPU");
  }
  return facts;
}

}  // namespace shakedown
