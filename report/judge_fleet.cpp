#include "report/judge_fleet.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/run_lock.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "report/ledger.hpp"
#include "thresholds/ledger/own_runs.hpp"
#include "thresholds/results/measured.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

constexpr int max_depth = 3;  // DIR/JOB/NODE/RUN

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

/// The ledger of the fleet, which is read once.
struct FleetLedger {
  fs::path folder;
  Ledger events;
};

/// Judges runs from the newest to the oldest until it has judged a complete run of each host.
class Chooser {
 public:
  /// `ledger` is null if there is none.
  Chooser(const GivenReferences& given, const JudgeOptions& options, const FleetLedger* ledger, FleetJudge& fleet,
          Found& found)
      : given_(given), options_(options), ledger_(ledger), fleet_(fleet), found_(found) {
    std::stable_sort(found.runs.begin(), found.runs.end(),
                     [](const auto& a, const auto& b) { return a.started > b.started; });
  }

  void judge_all() {
    for (const Candidate& run : found_.runs) judge(run);
    // Each node without a complete run is shown with its newest incomplete run.
    for (const auto& [host, broken] : broken_) {
      if (!done_.contains(host)) fleet_.add(broken.facts, broken.verdict, {host}, broken.folder, false);
    }
  }

  bool has(const std::string& host) const { return done_.contains(host) || broken_.contains(host); }

 private:
  struct Broken {
    fs::path folder;
    Verdict verdict;
    std::vector<Results> facts;  // without rows
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
        std::vector<Results> facts(1);
        facts.front().context = measured.files.front().context;
        for (const auto& host : hosts) broken_.try_emplace(host, Broken{run.folder, verdict, facts});
        found_.left_out.push_back({run.folder, "incomplete", true});
        return;
      }
      for (const auto& host : hosts) {
        const auto newer = broken_.find(host);
        fleet_.add(measured.files, verdict, {host}, run.folder, complete,
                   newer == broken_.end() ? "" : newer->second.folder.string());
        done_.insert(host);
        if (ledger_ == nullptr) continue;
        const auto earlier = newest_accepted_runs(ledger_->folder, ledger_->events, host, verdict.started);
        if (const auto drift = own_drift(measured, own_record(earlier, measured))) fleet_.set_drift(host, *drift);
      }
    } catch (const InputError& error) {
      found_.left_out.push_back({run.folder, error.what()});
    }
  }

  const GivenReferences& given_;
  const JudgeOptions& options_;
  const FleetLedger* ledger_;
  FleetJudge& fleet_;
  Found& found_;
  std::set<std::string> done_;
  std::map<std::string, Broken> broken_;  // by host: its newest run, if that run is incomplete
};

}  // namespace

Fleet judge_fleet(const Arguments& arguments) {
  if (arguments.results.empty()) throw InputError("--results is missing; see --help");
  Found found;
  for (const auto& folder : arguments.results) {
    const TimedCall call("list", folder);
    if (!is_folder(folder))
      throw InputError(folder.string() + ": is not a folder; name folders of runs with --results");
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
  std::optional<FleetLedger> ledger;
  if (const auto folder = ledger_of(arguments)) ledger = FleetLedger{*folder, read_ledger(*folder)};
  Chooser chooser(given, options, ledger ? &*ledger : nullptr, fleet, found);
  chooser.judge_all();
  for (const fs::path& folder : found.empty_nodes) {
    if (!chooser.has(folder.filename())) fleet.add_absent(folder.filename(), "no results in " + folder.string());
  }
  for (const RosterEntry& entry : roster) {
    if (!chooser.has(entry.host)) fleet.add_absent(entry.host, "on the roster, without a run");
  }
  if (ledger) {
    fleet.set_records(node_records(ledger->events.events));
    for (const auto& event : ledger->events.unreadable) found.left_out.push_back({event.file, event.why});
  }
  return std::move(fleet).judge(options, std::move(found.left_out));
}

}  // namespace shakedown
