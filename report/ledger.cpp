#include "report/ledger.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "base/host_list.hpp"
#include "base/sha256.hpp"
#include "base/shown_path.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "report/history.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/ledger/ledger.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

fs::path required_ledger(const Arguments& arguments) {
  const auto folder = ledger_of(arguments);
  if (!folder) throw InputError("--ledger is missing; name the folder of events, or set SHAKEDOWN_LEDGER");
  return *folder;
}

std::string random_id() { return hexadecimal(random_bytes(8)); }

void add_run(const fs::path& ledger, const Judged& judged, const fs::path& run, const std::string& run_id) {
  for (LedgerEvent& event : events_of(judged.verdict, judged.measured.get(), shown(run))) {
    if (event.time.empty()) event.time = utc_now();
    if (event.id.empty()) event.id = run_id;
    add_event(ledger, event);
  }
}

std::vector<std::string> roster_of(const Arguments& arguments) {
  std::vector<std::string> hosts;
  for (const RosterEntry& entry : arguments.judge.roster) hosts.push_back(entry.host);
  return hosts.empty() && arguments.site ? read_site(*arguments.site).roster : hosts;
}

/// Returns a test for the runs that have figures of this node's GPUs, of this GPU, or of this metric.
std::function<bool(const LedgerEvent&)> concerning(const std::string& what, const std::vector<LedgerEvent>& events) {
  std::set<std::string> gpus, nodes;
  for (const LedgerEvent& event : events) {
    const bool is_node = same_host(event.node, what);
    if (is_node) nodes.insert(event.node);
    for (const LedgerGpu& gpu : event.gpus) {
      if (is_node || gpu.id() == what) gpus.insert(gpu.id());
    }
  }
  return [gpus, nodes](const LedgerEvent& run) {
    const auto has = [&](const LedgerGpu& gpu) { return gpus.contains(gpu.id()); };
    return (gpus.empty() && nodes.empty()) || nodes.contains(run.node) || std::ranges::any_of(run.gpus, has);
  };
}

int print_due(const std::vector<NodeRecord>& nodes, double days) {
  const double now = seconds_of(utc_now()).value_or(0);
  std::vector<std::pair<double, std::string>> due;  // by the time of the last run
  for (const NodeRecord& node : nodes) {
    const double tested = node.last_tested == nullptr ? 0 : seconds_of(node.last_tested->time).value_or(0);
    constexpr double day = 86400;
    if (now - tested > days * day && is_host_name(node.node)) due.emplace_back(tested, node.node);
  }
  std::ranges::sort(due);
  for (const auto& [tested, node] : due) std::puts(node.c_str());
  return 0;
}

/// Returns the families that measure these keys, with pre-flight; all families if a failure concerns the whole machine.
std::vector<std::string> families_to_retest(const std::vector<std::string>& keys) {
  std::set<std::string> wanted{"preflight"};
  for (const std::string& key : keys) wanted.insert(family_of(key));
  std::vector<std::string> families;
  for (const FamilyRow& row : family_rows()) {
    if (wanted.contains(std::string(row.name))) families.emplace_back(row.name);
  }
  return wanted.contains("machine") || keys.empty() ? std::vector<std::string>{} : families;
}

std::string retest_text(const NodeRecord& node, const fs::path& ledger) {
  const std::string name = host_in_command(node.node), reservation = "shakedown_" + name;
  const std::string folder = " --ledger=" + ledger.string();
  if (node.state == LedgerState::proven) {
    return "# " + node_line(node) + "\nscontrol update nodename=" + name +
           " state=undrain\nscontrol delete reservationname=" + reservation +
           "\nshakedown ledger add --event=returned --node=" + name + folder + "\n";
  }
  const auto families = families_to_retest(node.failed);
  std::string flags = families.empty() ? "" : " --families=" + joined(families, ",");
  // A gate is no proof: whole rows of the quick tier are.
  if (node.last_bad != nullptr && node.last_bad->tier != shakedown::name(Tier::gate))
    flags += " --tier=" + node.last_bad->tier;
  return "# " + node_line(node) + "\nscontrol create reservation reservationname=" + reservation + " nodes=" + name +
         " starttime=now duration=1-0 flags=maint,ignore_jobs users=$(id -un)\nscontrol update nodename=" + name +
         " state=undrain\nsbatch --reservation=" + reservation + " --nodelist=" + name + " --array=1-" +
         std::to_string(proving_runs - node.proofs) + "%1 ci/slurm/accept.sbatch" + flags + folder +
         "\n# then: shakedown retest " + name + folder + "\n";
}

}  // namespace

std::optional<fs::path> ledger_of(const Arguments& arguments) {
  if (arguments.ledger || !arguments.site) return arguments.ledger;
  return read_site(*arguments.site).ledger;
}

int warn_of_unreadable(const Ledger& ledger, int code) {
  for (const UnreadableEvent& event : ledger.unreadable)
    std::fprintf(stderr, "shakedown: %s; the event is left out: restore the file, or remove it\n",
                 one_line(event.why).c_str());
  return ledger.unreadable.empty() || code == 1 ? code : 3;
}

int record_run(const fs::path& ledger, const Judged& judged, const fs::path& run, const std::string& run_id, int code) {
  try {
    add_run(ledger, judged, run, run_id);
    return code;
  } catch (const InputError& error) {
    std::fprintf(stderr, "shakedown: %s\n", error.what());
    return code == 0 ? 3 : code;
  }
}

int add_to_ledger(const Arguments& arguments) {
  const fs::path folder = required_ledger(arguments);
  const bool is_run = !arguments.results.empty();
  if (is_run == !arguments.node.empty() || is_run == (arguments.event != EventKind::run))
    throw InputError("ledger add: give --event and --node, or --results of a run; see --help");
  if (is_run) {
    const Judged judged = judge(arguments);
    refuse_virtual(judged.measured->files, "a ledger");
    refuse_faults(judged.measured->files, arguments.judge.allow_faults);
    add_run(folder, judged, fs::weakly_canonical(arguments.results.front()), random_id());
    return 0;
  }
  for (const std::string& node : expand_hosts(arguments.node, "--node: ")) {
    if (!is_host_name(node)) throw InputError("--node: \"" + one_line(node) + "\" is not a host name; correct it");
    LedgerEvent event;
    event.kind = arguments.event;
    event.node = node;
    event.time = utc_now();
    event.id = random_id();
    event.reason = one_line(arguments.reason);
    add_event(folder, event);
  }
  return 0;
}

int history(const Arguments& arguments) {
  if (arguments.due && !arguments.operands.empty())
    throw InputError("history: --due lists nodes, so it takes no node, GPU or metric; leave one of the two out");
  if (arguments.operands.size() > 1) throw InputError("history: give one node, GPU or metric; see --help");
  const fs::path folder = required_ledger(arguments);
  Ledger ledger = read_ledger(folder);
  const std::string what = arguments.operands.empty() ? "" : arguments.operands.front().string();
  if (!what.empty()) read_figures(folder, ledger, concerning(what, ledger.events));
  History all{node_records(ledger.events, roster_of(arguments)), gpu_records(ledger.events), {}, ledger.unreadable};
  if (arguments.due) return warn_of_unreadable(ledger, print_due(all.nodes, *arguments.due));
  if (!what.empty()) select(all, ledger.events, what);
  std::fputs(history_text(all, ledger.events, style_of(arguments)).c_str(), stdout);
  write_outputs(arguments.outputs, all);
  return warn_of_unreadable(ledger, exit_code(all));
}

int retest(const Arguments& arguments) {
  if (arguments.operands.size() != 1)
    throw InputError("retest: name one node, as in shakedown retest node7; see --help");
  const std::string name = arguments.operands.front();
  const fs::path folder = fs::absolute(required_ledger(arguments));
  const Ledger ledger = read_ledger(folder);
  const auto nodes = node_records(ledger.events, roster_of(arguments));
  const auto node = std::ranges::find_if(nodes, [&](const NodeRecord& record) { return same_host(record.node, name); });
  if (node == nodes.end()) {
    warn_of_unreadable(ledger, 0);
    throw InputError("retest: \"" + one_line(name) + "\" has no event in " + folder.string() + "; check its name");
  }
  for (const UnreadableEvent& event : ledger.unreadable) {
    if (event.node == in_file_name(node->node))
      throw CannotRead(event.why + "; the event may be a failure of " + name + ": restore the file, or remove it");
  }
  if (node->state == LedgerState::good) {
    std::printf("# %s: there is nothing to test again\n", node_line(*node).c_str());
    return 0;
  }
  std::fputs(retest_text(*node, folder).c_str(), stdout);
  return node->state == LedgerState::proven ? 0 : 1;
}

}  // namespace shakedown
