#include "report/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/archive.hpp"
#include "base/run_lock.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"
#include "report/csv.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int max_depth = 3;                 // DIR/JOB/NODE/RUN

/// A run that was found, but of which only the beginning has been read.
struct Candidate {
  fs::path folder;
  std::string started;
  std::vector<std::string> hosts;
};

struct Found {
  std::vector<Candidate> runs;
  std::vector<UnusedRun> left_out;
  std::vector<fs::path> empty_nodes;  // folders of nodes that contain no run
};

void peek(const fs::path& folder, const std::vector<fs::path>& files, Found& found) {
  const auto preflight = std::find(files.begin(), files.end(), folder / "preflight.json");
  try {
    const Context context = read_results(preflight == files.end() ? files.front() : *preflight).context;
    std::set<std::string> hosts;
    for (const RankFacts& rank : context.ranks) hosts.insert(rank.host);
    found.runs.push_back({folder, context.started, {hosts.begin(), hosts.end()}});
  } catch (const InputError& error) {
    found.left_out.push_back({folder, error.what()});
  }
}

/// Adds the runs in a folder. Returns false if it has none.
bool find_runs(const fs::path& folder, int depth, Found& found) {
  if (const auto files = result_files(folder); !files.empty()) {
    peek(folder, files, found);
    return true;
  }
  if (path_exists(folder / soak_file)) {
    found.left_out.push_back(
        {folder, "a soak, which has a verdict of its own: shakedown report --results=" + folder.string()});
    return true;
  }
  if (depth == max_depth) return false;
  const auto names = names_in(folder);
  if (!names) throw CannotRead(folder.string() + ": cannot be read; judge again");
  std::vector<fs::path> empty;
  bool has_runs = false;
  for (const auto& name : *names) {
    const fs::path below = folder / name;
    if (name == "latest" || name == "choices" || !is_folder(below)) continue;
    if (find_runs(below, depth + 1, found))
      has_runs = true;
    else
      empty.push_back(below);
  }
  for (const auto& below : empty) {
    // Next to other runs, an empty folder is a run that wrote nothing. Next to folders of nodes, it is a node without
    // runs.
    const bool is_run = path_exists(folder / "latest");
    if (has_runs && is_run) found.left_out.push_back({below, "has no results"});
    if (has_runs && !is_run) found.empty_nodes.push_back(below);
  }
  return has_runs;
}

/// Judges a run of the fleet alone. The roster is that of the fleet, so it does not apply to a run.
Verdict judge_one(const Measured& measured, const GivenReferences& given, JudgeOptions options,
                  std::optional<std::string> unfinished) {
  options.unfinished = std::move(unfinished);
  return judge(measured, References(given.profiles_for(measured)), options);
}

bool is_complete(const std::vector<Results>& files) {
  return std::all_of(files.begin(), files.end(), [](const Results& file) { return file.context.complete; });
}

/// Judges runs from the newest to the oldest until it has judged a complete run of each host.
class Chooser {
 public:
  Chooser(const GivenReferences& given, const JudgeOptions& options, FleetJudge& fleet, Found& found)
      : given_(given), options_(options), fleet_(fleet), found_(found) {
    std::stable_sort(found.runs.begin(), found.runs.end(),
                     [](const auto& a, const auto& b) { return a.started > b.started; });
  }

  void judge_all() {
    for (const Candidate& run : found_.runs) judge(run);
    // Each node without a complete run is shown with its newest incomplete run.
    for (const auto& [host, broken] : broken_) {
      if (!done_.contains(host)) fleet_.add({}, broken.verdict, {host}, broken.folder, false);
    }
  }

  bool has(const std::string& host) const { return done_.contains(host) || broken_.contains(host); }

 private:
  struct Broken {
    fs::path folder;
    Verdict verdict;
  };

  void judge(const Candidate& run) {
    std::vector<std::string> hosts;
    for (const auto& host : run.hosts) {
      if (!done_.contains(host)) hosts.push_back(host);
    }
    if (hosts.empty()) {
      found_.left_out.push_back({run.folder, "older", true});
      return;
    }
    try {
      const Measured measured(read_results(std::vector{run.folder}));
      auto why = unfinished(run.folder);
      const bool complete = !why && is_complete(measured.files);
      const Verdict verdict = judge_one(measured, given_, options_, std::move(why));
      if (!complete && verdict.state != State::fail) {
        for (const auto& host : hosts) broken_.try_emplace(host, Broken{run.folder, verdict});
        found_.left_out.push_back({run.folder, "incomplete", true});
        return;
      }
      for (const auto& host : hosts) {
        const auto newer = broken_.find(host);
        fleet_.add(measured.files, verdict, {host}, run.folder, complete,
                   newer == broken_.end() ? "" : newer->second.folder.string());
        done_.insert(host);
      }
    } catch (const InputError& error) {
      found_.left_out.push_back({run.folder, error.what()});
    }
  }

  const GivenReferences& given_;
  const JudgeOptions& options_;
  FleetJudge& fleet_;
  Found& found_;
  std::set<std::string> done_;
  std::map<std::string, Broken> broken_;  // by host: its newest run, if that run is incomplete
};

/// "3 h", "12 d"
std::string age_text(const std::string& started, double now) {
  const auto then = seconds_of(started);
  if (!then) return "?";
  const double hours = std::max(0.0, now - *then) / 3600;
  if (hours < 1) return fmt::format("{:.0f} min", hours * 60);
  return hours < 48 ? fmt::format("{:.0f} h", hours) : fmt::format("{:.0f} d", hours / 24);
}

std::string reason_of(const FleetNode& node) { return node.reasons.empty() ? "" : one_line(node.reasons.front()); }

std::string action_text(const FleetNode& node) {
  const std::string action(name(node.action));
  return one_line(action + (action.empty() || node.next.empty() ? "" : ": ") + node.next);
}

Table::Tone tone_of(NodeState state) {
  return state == NodeState::good  ? Table::Tone::good
         : state == NodeState::bad ? Table::Tone::bad
                                   : Table::Tone::doubtful;
}

std::string nodes_text(const Fleet& fleet, const TerminalStyle& style, double now) {
  Table table({{"node"}, {"state"}, {"own verdict"}, {"age"}, {"GPUs"}, {"finding"}, {"what to do"}});
  std::size_t shown = 0;
  for (const FleetNode& node : fleet.nodes) {
    const bool is_listed = node.state != NodeState::good || node.action != Action::none;
    if (!style.all && (!is_listed || shown == max_lines_shown)) continue;
    ++shown;
    table.add({{one_line(node.host)},
               {std::string(name(node.state)), tone_of(node.state)},
               {node.started.empty() && node.run.empty() ? "none" : std::string(name(node.verdict))},
               {age_text(node.started, now)},
               {std::to_string(node.ranks)},
               {reason_of(node)},
               {action_text(node)}});
  }
  std::string out = shown == 0 ? "" : table.text(style.table());
  const std::size_t rest = fleet.nodes.size() - fleet.count(NodeState::good);
  if (!style.all && rest > max_lines_shown)
    out += "and " + plural(rest - max_lines_shown, "more node") + "; --all lists them\n";
  return out;
}

std::string left_out_text(const Fleet& fleet, bool all) {
  std::string out;
  std::size_t older = 0, shown = 0;
  const auto add = [&](const std::string& what, const std::string& why) {
    if (all || shown < max_lines_shown) out += "  " + one_line(what + ": " + why) + "\n";
    ++shown;
  };
  for (const UnusedRun& left : fleet.left_out) {
    if (left.is_older && left.why == "older" && !all)
      ++older;
    else
      add(left.path, left.why);
  }
  for (const FleetNode& node : fleet.nodes) {
    if (!node.not_compared.empty() && !node.run.empty())
      add(node.host, "not compared with other nodes: " + node.not_compared);
  }
  if (!all && shown > max_lines_shown) out += "  and " + std::to_string(shown - max_lines_shown) + " more\n";
  if (older > 0) out += "  " + plural(older, "older run") + "\n";
  return out.empty() ? "" : "left out:\n" + out;
}

}  // namespace

Fleet judge_fleet(const Arguments& arguments) {
  if (arguments.results.empty()) throw InputError("--results is missing; see --help");
  Found found;
  for (const auto& folder : arguments.results) {
    const TimedCall call("list", folder);
    if (!is_folder(folder)) throw InputError(folder.string() + ": is not a folder; name folders of runs with --results");
    if (!find_runs(folder, 0, found)) {
      throw InputError(folder.string() + ": no results of any node in it; it must have RUN/*.json or NODE/RUN/*.json");
    }
  }
  const GivenReferences given = read_references(arguments);
  JudgeOptions options = arguments.judge;
  auto roster = std::exchange(options.roster, {});
  if (given.site) {
    options.places = {given.site->topology, given.site->racks};
    for (const auto& host : roster.empty() ? given.site->roster : std::vector<std::string>{}) {
      roster.push_back({host, std::nullopt});
    }
  }
  FleetJudge fleet;
  Chooser chooser(given, options, fleet, found);
  chooser.judge_all();
  for (const fs::path& folder : found.empty_nodes) {
    if (!chooser.has(folder.filename())) fleet.add_absent(folder.filename(), "no results in " + folder.string());
  }
  for (const RosterEntry& entry : roster) {
    if (!chooser.has(entry.host)) fleet.add_absent(entry.host, "on the roster, without a run");
  }
  return std::move(fleet).judge(options, std::move(found.left_out));
}

std::string fleet_text(const Fleet& fleet, const TerminalStyle& style, double now) {
  std::string out = headline_text(fleet) + "\n\n" + nodes_text(fleet, style, now) + left_out_text(fleet, style.all);
  for (const std::string& said : fleet.summaries) out += "peers: " + said + "\n";
  out += plural(fleet.count(NodeState::good), "node") + " of " + std::to_string(fleet.nodes.size()) + " good\n\n";
  return printable(out) + "FLEET: " + headline_text(fleet) + "\n";
}

std::string fleet_json(const Fleet& fleet) {
  ordered_json nodes = ordered_json::array(), left_out = ordered_json::array();
  const auto or_null = [](std::string text) {
    return text.empty() ? ordered_json(nullptr) : ordered_json(std::move(text));
  };
  for (const FleetNode& node : fleet.nodes) {
    nodes.push_back({{"host", node.host},
                     {"state", name(node.state)},
                     {"verdict", lower(name(node.verdict))},
                     {"started", or_null(node.started)},
                     {"ranks", node.ranks},
                     {"profile", or_null(node.profile)},
                     {"action", or_null(std::string(name(node.action)))},
                     {"reasons", node.reasons},
                     {"next", node.next},
                     {"run", or_null(node.run)},
                     {"not_compared", or_null(node.not_compared)}});
  }
  for (const UnusedRun& left : fleet.left_out) left_out.push_back({{"path", left.path}, {"why", left.why}});
  const ordered_json document = {{"schema", 1},
                                 {"fleet", lower(name(fleet.state))},
                                 {"headline", headline_text(fleet)},
                                 {"good", fleet.count(NodeState::good)},
                                 {"bad", fleet.count(NodeState::bad)},
                                 {"undecided", fleet.count(NodeState::undecided)},
                                 {"nodes", std::move(nodes)},
                                 {"left_out", std::move(left_out)},
                                 {"peers", fleet.summaries}};
  return text_of_document(document, 2) + "\n";
}

std::string fleet_csv(const Fleet& fleet) {
  std::string out = csv_row(
      {"host", "state", "verdict", "started", "ranks", "profile", "action", "reason", "next", "run", "not_compared"});
  for (const FleetNode& node : fleet.nodes) {
    out += csv_row({node.host, std::string(name(node.state)), lower(name(node.verdict)), node.started,
                    std::to_string(node.ranks), node.profile, std::string(name(node.action)), reason_of(node),
                    node.next, node.run, node.not_compared});
  }
  return out;
}

}  // namespace shakedown
