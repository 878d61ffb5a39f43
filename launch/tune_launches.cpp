#include "launch/tune_launches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "launch/rank_output.hpp"
#include "launch/session_folder.hpp"

namespace shakedown {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns the row of a result: that of a collective without its other parts, such as the type.
TunedRow tuned_row(const Key& key) {
  const auto bytes = key.number("bytes");
  if (!bytes) return {key.text(), 0};
  const auto op = key.part("op");
  return {key.family() + (op.empty() ? "" : "/op:" + std::string(op)), static_cast<std::uint64_t>(*bytes)};
}

std::string flag_of_sizes(const std::vector<std::uint64_t>& sizes) {
  Words numbers;
  for (const auto bytes : sizes) numbers.push_back(std::to_string(bytes));
  return "--sizes=" + joined(numbers, ",");
}

/// Reads the figures of the first repetition: a retest would favour settings with low values.
void read_figures(const Results& results, const std::vector<TunedRow>& wanted, LaunchFigures& figures) {
  figures.context = results.context;
  const auto miss = [&](const TunedRow& row, const std::string& why) {
    if (figures.missing.empty()) figures.missing = row.key().text() + ": " + why;
  };
  for (const Row& row : results.rows) {
    const auto tuned = tuned_row(row.key);
    if (row.repetition != 0 || std::ranges::find(wanted, tuned) == wanted.end()) continue;
    const auto why = row.error ? row.error : row.waived;
    const auto value = row.metrics.find(std::string(tuned.metric()));
    if (why) miss(tuned, *why);
    if (!why && value != row.metrics.end()) figures.values[tuned] = value->second;
  }
  for (const auto& row : wanted) {
    if (!figures.values.contains(row)) miss(row, "no value");
  }
}

}  // namespace

TuneWorkload workload_of_sizes(const std::vector<std::uint64_t>& sizes) {
  TuneWorkload workload{.family = "allreduce", .tier = Tier::quick, .flags = {flag_of_sizes(sizes)}, .rows = {}};
  for (const auto bytes : sizes) workload.rows.push_back({workload.family, bytes});
  return workload;
}

TuneWorkload workload_of_collectives(const Words& operations, const std::vector<std::uint64_t>& sizes) {
  TuneWorkload workload{.family = "collectives", .tier = Tier::quick, .flags = {flag_of_sizes(sizes)}, .rows = {}};
  workload.flags.push_back("--benchmark_filter=op:(" + joined(operations, "|") + ")/");
  for (const auto& op : operations) {
    for (const auto bytes : sizes) workload.rows.push_back({workload.family + "/op:" + op, bytes});
  }
  return workload;
}

TuneWorkload workload_of_step(Backend backend) {
  const std::string key = backend == Backend::cuda ? "train_step/model:gpt2_124m/batch:32/seq:1024"
                                                   : "train_step/model:gpt2_tiny/dtype:f32/batch:2/seq:16";
  return {.family = "train_step", .tier = Tier::full, .flags = {"--benchmark_filter=" + key + "$"}, .rows = {{key, 0}}};
}

TuneLaunches::TuneLaunches(const AcceptOptions& options, const RunFolder& run, const Words& families, Signals& signals)
    : options_(options),
      programs_(find_programs(families)),
      run_(run),
      signals_(signals),
      launch_(agreed_launch(options, process_environment(), signals)) {
  if (!launch_.absent.empty()) {
    throw CannotRun("tune needs all hosts, but " + joined(launch_.absent) + " did not answer: leave them out");
  }
}

LaunchFigures TuneLaunches::measure(const Words& variables, const TuneWorkload& workload) {
  auto options = options_;
  options.tier = workload.tier;
  options.families = {workload.family};
  for (const auto& variable : variables) {
    const auto end = variable.find('=');
    options.variables.emplace_back(variable.substr(0, end), variable.substr(end + 1));
  }
  const auto began = Clock::now();
  LaunchFigures figures;
  try {
    run_program(std::move(options), workload, figures);
  } catch (const CannotRun& error) {
    stop_if_told(signals_);
    figures.missing = error.what();
  }
  figures.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return figures;
}

Seconds TuneLaunches::limit(const std::string& family) const {
  constexpr double min_limit_s = 15, times_usual = 5;  // a setting that is slower by more is of no use
  const auto usual = usual_s_.find(family);
  return Seconds(usual != usual_s_.end() ? std::max(min_limit_s, times_usual * usual->second)
                                         : options_.startup_timeout + options_.timeout);
}

void TuneLaunches::run_program(AcceptOptions options, const TuneWorkload& workload, LaunchFigures& figures) {
  Words flags{"--benchmark_format=json"};
  flags.insert(flags.end(), workload.flags.begin(), workload.flags.end());
  Screen screen({workload.family});
  RankProgram program(options, launch_, programs_, run_.path(), run_.id(), workload.family, flags, screen);
  std::string printed;
  program.job.out = [&](std::string_view line) { printed.append(line).append("\n"); };
  program.job.limit = limit(workload.family);
  const auto ending = program.run(signals_);
  const auto document = document_in(printed);
  if (!succeeded(ending) || document.empty()) {
    figures.missing = program.death(ending);
    return;
  }
  const auto file = run_.path() / fmt::format("launch{:03}.json", ++launches_);
  replace_file(file, document);
  read_figures(read_results(file), workload.rows, figures);
}

}  // namespace shakedown
