#include "launch/measure.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/archive.hpp"
#include "base/exit_code.hpp"
#include "base/files.hpp"
#include "base/held_folder.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/rank_output.hpp"
#include "launch/rank_program.hpp"
#include "launch/words.hpp"
#include "report/judge_apart.hpp"
#include "thresholds/rules/start.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const fs::path& folder, const std::string& family) { return folder / (family + ".json"); }

/// Judges the result of one family. `settle` is that of verdict_apart.
Verdict verdict_of(const AcceptOptions& options, const fs::path& folder, const std::string& id,
                   const std::string& family, const std::function<void(Judged&)>& settle) {
  Arguments arguments = options.judge;
  arguments.results = {file_of(folder, family)};
  arguments.judge.families = {{family}};
  arguments.judge.run_id = id;
  return verdict_apart(arguments, settle);
}

Verdict provisional(const AcceptOptions& options, const fs::path& folder, const std::string& id,
                    const std::string& family) {
  return verdict_of(options, folder, id, family, [](const Judged&) {});
}

/// Prints the failures of a family as soon as it is finished, because the other families take a while, and returns
/// their number. A family arrives again after retests: `shown` is the number that was printed before.
std::size_t show_provisional(const Verdict& verdict, const std::string& family, Screen& screen, std::size_t shown = 0) {
  screen.arrived(family, verdict);
  screen.clear();
  constexpr std::size_t max_failing_shown = 5;
  std::size_t failing = 0;
  for (const auto& finding : verdict.findings) {
    if (makes_fail(finding, family) && ++failing <= max_failing_shown && shown == 0)
      say("provisional: " + printable(short_text(finding)));
  }
  if (failing > max_failing_shown && shown == 0)
    say("provisional: and " + std::to_string(failing - max_failing_shown) + " more of " + family);
  if (failing == 0 && shown > 0) say("provisional: " + family + " passes after retests");
  return failing;
}

/// Returns the document with changed facts of its run. A document without such facts is returned unchanged, because the
/// judge refuses it anyway. nullopt if it is not JSON.
template <class Change>
std::optional<std::string> with_context(const std::string& text, const Change& change) {
  auto document = nlohmann::ordered_json::parse(text, nullptr, false);
  if (document.is_discarded()) return std::nullopt;
  const nlohmann::ordered_json::json_pointer shakedown("/context/shakedown");
  if (!document.contains(shakedown) || !document[shakedown].is_object()) return text;
  change(document[shakedown]);
  return document.dump() + "\n";
}

/// Adds to a result that its program crashed after it wrote the result.
void mark_crashed(const fs::path& folder, const std::string& family, const RankProgram& program) {
  const auto marked = with_context(read_file(file_of(folder, family)), [&](auto& context) {
    context["crashed"].push_back(family);
    for (const int rank : program.dead_ranks) {
      context["dead_ranks"].push_back(Writer::written(DeadRank{family, rank, program.hung}));
    }
  });
  if (marked) replace_file(file_of(folder, family), *marked);
}

/// Returns the hosts that do not answer, without those that were lost during the run.
std::vector<AbsentHost> absent_of(const Launch& launch) {
  std::vector<AbsentHost> absent;
  for (const auto& host : launch.absent) {
    if (is_one_of(host, launch.lost)) continue;
    const auto reason = launch.reasons.find(host);
    absent.push_back({host, reason == launch.reasons.end() ? "it did not answer" : reason->second});
    if (is_one_of(host, launch.hung_drivers)) absent.back().driver_hangs = true;
    if (const auto lost = launch.lost_bytes.find(host); lost != launch.lost_bytes.end())
      absent.back().lost_bytes = lost->second;
  }
  return absent;
}

/// Removes the findings about absent hosts, because they do not stop the measurement.
void remove_absent(Verdict& verdict, const std::vector<AbsentHost>& absent) {
  std::erase_if(verdict.findings, [&](const Finding& finding) { return is_of_absent(finding, absent); });
  conclude(verdict);
}

/// True if other measurements may follow this verdict of pre-flight. If not, prints the reason.
bool allows(const Verdict& preflight) {
  const int code = preflight.exit_code;
  if (code == 0 || code == 3) return true;  // 0: the machine is healthy; 3: no profile describes it
  say("pre-flight failed, so nothing else is measured; "
      "--despite-preflight (SHAKEDOWN_DESPITE_PREFLIGHT=1) measures all the same");
  return false;
}

/// The same for the verdict of this run's pre-flight.
bool allows(const AcceptOptions& options, const Launch& launch, Verdict preflight) {
  if (options.despite_preflight) return true;
  remove_absent(preflight, absent_of(launch));
  return allows(preflight);
}

/// Writes a result together with what the user requested, the absent hosts and the number of starts, so that the folder
/// can be judged on any machine. False if the document is not complete JSON.
bool keep_result(const AcceptOptions& options, const fs::path& folder, const std::string& family,
                 const std::string& text, const Launch& launch, const RankProgram& program) {
  const auto absent = absent_of(launch);
  const int starts = program.starts;
  // After a host is lost, the ranks are numbered anew, so that the rank numbers of earlier programs are not valid.
  const auto dead = launch.lost.empty() ? program.dead_before : std::vector<DeadRank>{};
  const Asked asked{{options.families}, std::nullopt, options.judge.judge.roster};
  const auto add = [&](auto& context) {
    if (!asked.everything()) context["asked"] = Writer::written(asked);
    if (!absent.empty()) context["absent"] = Writer::written(absent);
    if (starts > 1) context["start_attempts"] = starts;
    if (!dead.empty()) context["dead_ranks"] = Writer::written(dead);
  };
  const bool is_changed = !asked.everything() || !absent.empty() || starts > 1 || !dead.empty();
  const auto kept = is_changed                     ? with_context(text, add)
                    : nlohmann::json::accept(text) ? std::optional(text)
                                                   : std::nullopt;
  if (kept) replace_file(file_of(folder, family), *kept);
  return kept.has_value();
}

}  // namespace

Words missing_in(const fs::path& folder, Words families) {
  std::erase_if(families, [&](const auto& family) { return path_exists(file_of(folder, family)); });
  return families;
}

std::optional<std::string> measure_family(const AcceptOptions& options, const Launch& launch, const Programs& programs,
                                          const fs::path& folder, const std::string& id, const std::string& family,
                                          Signals& signals, Screen& screen) {
  RankProgram program(options, launch, programs, folder, id, family, {"--benchmark_format=json"}, screen);
  std::string printed;
  program.job.out = [&](std::string_view line) {
    program.measured = program.measured || line == "{";
    printed.append(line).append("\n");
  };
  const auto ending = program.run(signals);
  const auto document = document_in(printed);
  if (document.empty() || !keep_result(options, folder, family, document, launch, program)) {
    program.require_end_of_ranks(ending);
    program.require_end_of_gate(ending);
    program.complain(ending, "wrote no result", printed);
    return family + " wrote no result: " + program.death(ending);
  }
  if (!succeeded(ending)) {
    program.require_end_of_ranks(ending);
    program.complain(ending, "crashed after writing its result");
    mark_crashed(folder, family, program);
  }
  return std::nullopt;
}

Together measure_together(const AcceptOptions& options, const Launch& launch, const Programs& programs,
                          const fs::path& folder, const std::string& id, Signals& signals, Screen& screen) {
  if (programs.families.size() < 2 || !path_exists(programs.of(resident))) return {true, false, {}, {}};
  RankProgram program(options, launch, programs, folder, id, resident,
                      {"--stream", "--families=" + joined(missing_in(folder, programs.families), ",")}, screen);
  bool closed = false;
  std::string last;
  std::map<std::string, std::size_t> failing;  // by family
  program.job.out = [&](std::string_view line) {
    const auto result = streamed(line);
    if (closed || !result) return;
    if (!keep_result(options, folder, result->first, result->second, launch, program)) return;
    program.measured = true;
    last = result->first;
    auto verdict = provisional(options, folder, id, last);
    failing[last] = show_provisional(verdict, last, screen, failing[last]);
    if (last == "preflight") closed = !allows(options, launch, std::move(verdict));
  };
  program.job.enough = [&closed] { return closed ? "pre-flight failed" : ""; };
  const auto ending = program.run(signals);
  const auto missing = missing_in(folder, programs.families);
  // A program that succeeds without a result cannot measure its family here, such as pairs of hosts on a single host.
  if (closed || succeeded(ending)) return {};
  program.require_end_of_ranks(ending);
  const bool nothing_yet = missing.size() == programs.families.size();
  if (nothing_yet && ending.code == exit_usage && !program.said.empty()) throw InputError(program.said);
  program.require_end_of_gate(ending);  // the results of all families may precede the retests
  if (missing.empty()) {
    program.complain(ending, "crashed after writing its last result");
    // The program may have crashed in a retest of an earlier family.
    const auto family = program.last_family();
    mark_crashed(folder, std::ranges::count(programs.families, family) > 0 ? family : last, program);
    return {};
  }
  if (!program.measured && !program.lost.empty()) return {true, true, program.lost, program.why_unfit(ending)};
  program.record_crash(folder, missing.front());
  program.complain(ending, "ended in " + missing.front());
  return {true, true, program.lost, {}};
}

int measure_as_rank(const AcceptOptions& options, const Launch& launch, const Programs& programs, Signals& signals) {
  const bool together = programs.families.size() > 1 && path_exists(programs.of(resident));
  if (!together && programs.families.size() > 1) {
    throw CannotRun("bench_" + resident + " is missing; it measures all families: install it");
  }
  const auto results = options.results ? *options.results : usual_results();
  const auto choices = choices_beside(options.folder ? *options.folder : results / "run");
  const auto name = together ? resident : programs.families.front();
  const Words flags{together ? "--families=" + joined(programs.families, ",") : "--benchmark_format=json"};
  auto job = job_of_ranks(options, launch, command_of(options, launch, programs, name, flags),
                          {{"SHAKEDOWN_CHOICES", choices}});
  const auto ending = run_jobs({job}, signals).front();
  stop_if_told(signals);
  const auto rank = "rank " + std::to_string(*launch.rank) + " of " + std::to_string(*launch.ranks);
  if (!succeeded(ending)) throw CannotRun(rank + ": " + ending.text(job.command.front()) + "; rank 0 has the verdict");
  say(rank + " has measured; rank 0 has the verdict");
  return 0;
}

bool preflight_allows(const AcceptOptions& options, const fs::path& folder, const std::string& id) {
  if (options.despite_preflight) return true;
  return allows(verdict_of(options, folder, id, "preflight", [](Judged& judged) {
    if (judged.measured) remove_absent(judged.verdict, judged.measured->files.front().context.absent);
  }));
}

namespace {

/// Returns the launch on the hosts that remain: without those that ranks reported as lost, and without those that do
/// not answer. nullopt if there is only one host, if all hosts answer, or if no host would remain.
std::optional<Launch> without_lost(const AcceptOptions& options, const Launch& launch, const Together& together,
                                   Signals& signals) {
  const auto hosts = launch.promised().size();
  if (hosts < 2) return std::nullopt;
  Words lost = launch.absent;
  const auto named = promised_hosts(launch, together.lost);
  const bool is_unfit = !together.why_unfit.empty();
  for (const auto& host : named) {
    if (is_one_of(host, lost)) continue;
    say("host " + host +
        (is_unfit ? " cannot measure, so it is left out and counts as missing: " + together.why_unfit
                  : " was reported lost by other hosts: the missing families are measured without it"));
    lost.push_back(host);
  }
  if (lost.size() >= hosts) return std::nullopt;
  auto left = agreed_launch(options, process_environment(), signals, lost);
  if (left.absent.size() == launch.absent.size()) return std::nullopt;
  left.lost = launch.lost;
  for (const auto& [host, reason] : launch.reasons) left.reasons[host] = reason;
  const auto newly_absent = hosts_without(left.absent, launch.absent);
  for (const auto& host : newly_absent) {
    if (!is_unfit) left.lost.push_back(host);
    if (is_unfit && is_one_of(host, named)) left.reasons[host] = together.why_unfit;
  }
  return left;
}

}  // namespace

std::optional<std::string> measure_families(const AcceptOptions& options, Launch& launch, const Programs& programs,
                                            const RunFolder& run, Signals& signals) {
  constexpr int max_launches = 3;
  Screen screen(programs.families);
  for (int launches = 1;; ++launches) {
    const auto together = measure_together(options, launch, programs, run.path(), run.id(), signals, screen);
    if (!together.something_is_missing) return std::nullopt;
    // Ranks that another program started cannot be started again from here.
    if (launch.rank && together.died) return std::nullopt;
    screen.clear();
    const auto left =
        together.died && launches < max_launches ? without_lost(options, launch, together, signals) : std::nullopt;
    if (!left && !together.why_unfit.empty()) throw CannotRun(together.why_unfit);
    if (!left && together.died) say("the missing families are measured separately");
    if (!left) break;
    launch = *left;
  }
  std::optional<std::string> missed;
  for (const auto& family : missing_in(run.path(), programs.families)) {
    const auto why_not = measure_family(options, launch, programs, run.path(), run.id(), family, signals, screen);
    if (!missed) missed = why_not;
    std::optional<Verdict> verdict;
    if (!why_not) verdict = provisional(options, run.path(), run.id(), family);
    if (verdict) show_provisional(*verdict, family, screen);
    if (family != "preflight") continue;
    if (verdict ? !allows(options, launch, std::move(*verdict)) : !options.despite_preflight) break;
  }
  return missed;
}

}  // namespace shakedown
