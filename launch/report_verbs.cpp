#include "launch/report_verbs.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"
#include "certify/tarball.hpp"
#include "launch/soak.hpp"
#include "report/costs.hpp"
#include "report/culprits.hpp"
#include "report/fleet.hpp"
#include "report/judge_apart.hpp"
#include "report/judge_fleet.hpp"
#include "report/node_commands.hpp"
#include "report/outputs.hpp"
#include "report/products.hpp"
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "thresholds/judge/headline.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {
namespace {

// Judges the results. If there are none, returns the stored verdict, which has no matrices of pairs.
Judged judged(const Arguments& arguments) {
  return judge_apart(arguments, [&]() -> Judged {
    if (is_stored(arguments)) return {nullptr, {}, read_stored_verdict(arguments.outputs.at("--verdict"))};
    return judge(arguments);
  });
}

OutputFiles outputs_of(const Arguments& arguments) {
  OutputFiles files = arguments.outputs;
  if (is_stored(arguments)) files.erase("--verdict");
  return files;
}

// Each file is replaced atomically. The JSON file is last, so that a program that sees a new JSON file also sees new
// host files.
void write_nodes(const std::filesystem::path& folder, const NodeList& list) {
  const TimedCall call("create", folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  replace_file(folder / "good_nodes", host_file(list, NodeState::good));
  replace_file(folder / "bad_nodes", host_file(list, NodeState::bad));
  replace_file(folder / "nodes.json", nodes_json(list));
}

// Writes the host files, and prints commands for the scheduler.
void act_on(const NodeList& list, const Arguments& arguments) {
  if (arguments.nodes) write_nodes(*arguments.nodes, list);
  if (arguments.scontrol) std::fputs(scontrol_commands(list).c_str(), stdout);
  if (arguments.kubectl) std::fputs(kubectl_commands(list).c_str(), stdout);
}

void check_commands(const Arguments& arguments) {
  if (arguments.scontrol && arguments.kubectl)
    throw InputError("--scontrol and --kubectl cannot be combined; see --help");
}

}  // namespace

int report(const Arguments& arguments, const ReasonChannel& channel) {
  if (arguments.results.size() == 1 && is_watch(arguments.results.front())) {
    return report_watch(arguments.results.front(), arguments, channel);
  }
  const Judged all = judged(arguments);
  const auto& measured = all.measured;
  const Verdict& verdict = all.verdict;
  const int code = write_all_outputs(outputs_of(arguments), all, "shakedown", exit_code(verdict, arguments));
  if (arguments.explain && is_stored(arguments)) throw InputError("--explain needs --results; see --help");
  if (arguments.explain && measured) {
    std::fputs(explain(*measured, all.profiles, verdict, *arguments.explain).c_str(), stdout);
    std::puts(verdict_line(verdict).c_str());
  } else {
    const TerminalStyle style = style_of(arguments);
    if (measured && style.all) {
      std::fputs(matrices_text(measured->files).c_str(), stdout);
      std::fputs(products_text(measured->files, style.table()).c_str(), stdout);
    }
    if (measured && !arguments.prices.empty())
      std::fputs(costs_text(measured->benchmarks, arguments.prices.front(), style.table()).c_str(), stdout);
    std::fputs(terminal_text(verdict, style).c_str(), stdout);
  }
  if (arguments.judge.families.all()) channel.give(text(headline_of(verdict)));
  return code;
}

int nodes(const Arguments& arguments) {
  check_commands(arguments);
  const Judged all = judged(arguments);
  if (all.verdict.backend == Backend::virtual_gpu) {
    throw InputError("nodes: --backend=virtual measured no node; measure with --backend=cuda");
  }
  write_outputs(outputs_of(arguments), all);
  const NodeList list = decide_nodes(all.verdict);
  act_on(list, arguments);
  if (!arguments.nodes && !arguments.scontrol && !arguments.kubectl) std::fputs(nodes_json(list).c_str(), stdout);
  const auto bad = [](const NodeDecision& node) { return node.state == NodeState::bad; };
  if (std::any_of(list.nodes.begin(), list.nodes.end(), bad)) return 1;
  return list.undecided_because.empty() ? 0 : 3;
}

// If commands are requested, standard output has only commands.
int fleet(const Arguments& arguments) {
  check_commands(arguments);
  const Fleet all = judge_fleet(arguments);
  const double now = seconds_of(utc_now()).value_or(0);
  std::FILE* const to = arguments.scontrol || arguments.kubectl ? stderr : stdout;
  // Before the files, so that a file that cannot be written does not cost the verdict.
  std::fputs(fleet_text(all, style_of(arguments), now).c_str(), to);
  write_outputs(arguments.outputs, all);
  act_on(all.list(), arguments);
  return all.exit_code;
}

void replace_nodes(const std::vector<std::string>& words, const std::string& why) {
  const std::string start = "--nodes=";
  for (const std::string& word : words) {
    if (word.rfind(start, 0) != 0 || word == start) continue;
    try {
      write_nodes(word.substr(start.size()), {State::incomplete, {}, {why}});
    } catch (const CannotWrite& error) {
      std::fprintf(stderr, "shakedown: %s\n", error.what());
    }
  }
}

int archive(const Arguments& arguments) {
  if (arguments.results.size() != 1) throw InputError("archive needs --results=DIR, the folder of one run; see --help");
  const auto& named = arguments.results.front();
  if (!is_folder(named)) {
    throw InputError(named.string() + (path_exists(named) ? ": is a file; archive packs the folder of a run"
                                                          : ": no such folder; name that of a run"));
  }
  const TimedCall call("stat", named);
  const auto folder = std::filesystem::weakly_canonical(named);
  const auto files = result_files(folder);
  std::vector<Results> first;  // empty if the results cannot be read; the archive includes them anyway
  if (!files.empty()) input_error_of([&] { first.push_back(read_results(files.front())); });
  refuse_virtual(first, "archive");
  const auto out = arguments.out.value_or("shakedown-" + folder.filename().string() + ".tar");
  write_tarball(folder, out);
  std::puts(out.c_str());
  return 0;
}

}  // namespace shakedown
