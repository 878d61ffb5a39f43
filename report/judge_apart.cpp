// The verdict after a crash of the judge. A fault of shakedown itself must not send a machine to repair. Therefore a
// row fails only if it reports wrong data or a device error.
#include "report/judge_apart.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/key.hpp"
#include "base/process.hpp"
#include "base/shown_path.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown {
namespace {

constexpr auto judge_name = "sd-judge", raw_judge_name = "sd-raw-judge";

/// Returns how the judge in a child process died. If the child exited by itself, returns nullopt and sets `code`.
std::optional<std::string> death_in(const Fork& child, Seconds limit, int& code) {
  const auto ended = child.wait(limit);
  if (!ended) child.kill();  // if the child cannot be killed, it keeps running
  if (!ended) return "gave no answer within " + std::to_string(std::lround(limit.count())) + " s";
  code = ended->code;
  return ended->signal == 0 ? std::nullopt : std::optional("died of " + signal_text(ended->signal));
}

/// True for the error names of CUDA and its libraries.
bool is_device_error(std::string_view error) {
  constexpr std::array<std::string_view, 6> words{"wrong data",     "cudaError",     "CUDA error",
                                                  "CUBLAS_STATUS_", "CUDNN_STATUS_", "XID"};
  return std::any_of(words.begin(), words.end(), [&](auto word) { return error.find(word) != std::string_view::npos; });
}

Finding finding_of(const Row& row, const Context& context) {
  Finding finding;
  classify(finding, row.wrong_ranks.empty() ? Code::error : Code::wrong_data);
  finding.key = row.key;
  finding.status = !row.wrong_ranks.empty() || is_device_error(*row.error) ? Status::fail : Status::missing;
  finding.detail = *row.error;
  finding.wrong_ranks = row.wrong_ranks;
  std::vector<Culprit> offenders;
  for (const int rank : row.wrong_ranks) {
    offenders.push_back(culprit(context.ranks.at(static_cast<std::size_t>(rank))));
  }
  name_offenders(finding, std::move(offenders));
  finding.next = measure_command(row.key, context.world_size);
  return finding;
}

Finding died_finding(const Arguments& arguments, const std::string& died) {
  Finding finding;
  classify(finding, Code::complete);
  finding.key = machine_key(Code::complete);
  finding.status = Status::missing;
  finding.detail = "the judge " + died + ", results kept; no value was compared with a limit";
  const std::string where = arguments.results.empty() ? "DIR" : shown(arguments.results.front()).string();
  finding.next = "report this bug of shakedown with the archive from: shakedown archive --results=" + where;
  return finding;
}

}  // namespace

std::optional<std::string> continue_in_child(const char* name, Seconds limit) {
  const auto child = Fork::make(name);
  if (!child || child->is_child()) return std::nullopt;
  int code = 0;
  auto died = death_in(*child, limit, code);
  if (!died) _exit(code);
  return died;
}

std::optional<std::string> death_of(const char* name, const std::function<void()>& work, Seconds limit) {
  const auto child = Fork::make(name);
  if (!child) return std::nullopt;
  if (child->is_child()) {
    try {
      work();
    } catch (const std::exception&) {  // this is not a crash: the caller will get the same exception
    }
    _exit(0);
  }
  int code = 0;
  return death_in(*child, limit, code);
}

namespace {

/// Returns a verdict without any rows, for the case that even reading the rows crashes.
Judged judged_by_nothing(const Arguments& arguments, const std::string& died) {
  Judged judged;
  judged.verdict.findings.push_back(died_finding(arguments, died));
  conclude(judged.verdict);
  return judged;
}

}  // namespace

Judged judged_by_raw_rows(const Arguments& arguments, const std::string& died) {
  Judged judged;
  Verdict& verdict = judged.verdict;
  if (!arguments.results.empty()) {
    judged.measured = std::make_unique<const Measured>(read_results(arguments.results));
    verdict = before_judging(judged.measured->files, arguments.judge);
  }
  verdict.findings.push_back(died_finding(arguments, died));
  const auto& options = arguments.judge;
  for (const Results& file : judged.measured ? judged.measured->files : std::vector<Results>{}) {
    if (options.run_id && file.context.run_id != *options.run_id) continue;
    for (const Row& row : file.rows) {
      if (!row.error || !options.families.has_key(row.key)) continue;
      verdict.findings.push_back(finding_of(row, file.context));
    }
  }
  conclude(verdict);
  return judged;
}

Judged judge_apart(const Arguments& arguments, const std::function<Judged()>& judge) {
  const auto died = continue_in_child(judge_name);
  if (!died) return judge();
  if (continue_in_child(raw_judge_name)) return judged_by_nothing(arguments, *died);
  Judged judged = judged_by_raw_rows(arguments, *died);
  judged.measured.reset();  // drops the values, because they may have crashed the judge or a report
  return judged;
}

Judged judge_apart(const Arguments& arguments) {
  return judge_apart(arguments, [&] { return judge(arguments); });
}

namespace {

/// Returns what a child process wrote to this file.
std::string written_to(const Descriptor& file) {
  const auto size = lseek(file.get(), 0, SEEK_END);
  std::string text(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  text.resize(read_at(file.get(), std::as_writable_bytes(std::span(text)), 0).value_or(0));
  return text;
}

}  // namespace

Verdict verdict_apart(const Arguments& arguments, const std::function<void(Judged&)>& settle) {
  const auto settled = [&](Judged judged) {
    settle(judged);
    return std::move(judged.verdict);
  };
  const Descriptor file(memfd_create(judge_name, MFD_CLOEXEC));
  const auto work = [&] { write_all(file.get(), verdict_json(settled(judge(arguments)))); };
  if (const auto died = death_of(judge_name, work)) {
    if (!death_of(raw_judge_name, [&] { settled(judged_by_raw_rows(arguments, *died)); }))
      return settled(judged_by_raw_rows(arguments, *died));
    return judged_by_nothing(arguments, *died).verdict;
  }
  std::optional<Verdict> verdict;
  // Without a whole text, the child threw an exception, or no memory was left for the file.
  input_error_of([&] { verdict = verdict_of_text(written_to(file), judge_name); });
  return verdict ? std::move(*verdict) : settled(judge(arguments));
}

Judged judge_after_trial(const Arguments& arguments) {
  const auto died = death_of(judge_name, [&] { judge(arguments); });
  if (!died) return judge(arguments);
  if (!death_of(raw_judge_name, [&] { judged_by_raw_rows(arguments, *died); }))
    return judged_by_raw_rows(arguments, *died);
  return judged_by_nothing(arguments, *died);
}

}  // namespace shakedown
