#include "report/judge_fleet.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/run_lock.hpp"
#include "base/text.hpp"
#include "base/threads.hpp"
#include "base/timed_call.hpp"
#include "report/ledger.hpp"
#include "thresholds/ledger/own_runs.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/expectation.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

constexpr int max_depth = 3;  // DIR/JOB/NODE/RUN

/// A run that was found. Its hosts and the time of its start are read from one of its files before it is judged.
struct Candidate {
  fs::path folder, file;
  std::size_t left_out_before = 0;  // number of folders that were left out before it was found
  std::string started;
  std::vector<std::string> hosts;
};

struct Found {
  std::vector<Candidate> runs;
  std::vector<UnusedRun> left_out;
  std::vector<fs::path> empty_nodes;  // folders of nodes that contain no run
};

void peek(Candidate& run) {
  const Context context = read_results(run.file).context;
  std::set<std::string> hosts;
  for (const RankFacts& rank : context.ranks) hosts.insert(rank.host);
  run.started = context.started;
  run.hosts.assign(hosts.begin(), hosts.end());
}

/// Reads one file of each run with several threads. Leaves out runs whose file cannot be used.
void peek_at_all(Found& found) {
  std::vector<std::string> errors(found.runs.size());
  in_threads(
      numbers_below(errors.size()), [&](std::size_t i) { errors[i] = input_error_of([&] { peek(found.runs[i]); }); },
      max_reading_threads);
  std::vector<Candidate> runs;
  std::vector<UnusedRun> left_out;
  std::size_t next = 0;
  const auto keep_before = [&](std::size_t end) {
    while (next < end) left_out.push_back(std::move(found.left_out[next++]));
  };
  for (std::size_t i = 0; i < errors.size(); ++i) {
    Candidate& run = found.runs[i];
    keep_before(run.left_out_before);
    if (errors[i].empty())
      runs.push_back(std::move(run));
    else
      left_out.push_back({run.folder, errors[i]});
  }
  keep_before(found.left_out.size());
  found.runs = std::move(runs);
  found.left_out = std::move(left_out);
}

/// Adds the runs in a folder. Returns false if it has none.
bool find_runs(const fs::path& folder, int depth, Found& found) {
  if (const auto files = result_files(folder); !files.empty()) {
    const auto preflight = std::find(files.begin(), files.end(), folder / "preflight.json");
    found.runs.push_back(
        {folder, preflight == files.end() ? files.front() : *preflight, found.left_out.size(), {}, {}});
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

bool is_complete(const std::vector<Results>& files) {
  return std::all_of(files.begin(), files.end(), [](const Results& file) { return file.context.complete; });
}

/// A run that was read and judged alone.
struct JudgedRun {
  std::unique_ptr<const Measured> measured;  // null if the run is not to be used; then `facts` has its first context
  std::vector<Results> facts;
  Verdict verdict;
  bool complete = false;
  std::map<std::string, OwnDrift> drifts;  // by host
  std::string why_not;                     // why it could not be read
};

/// Judges runs alone. The roster is that of the fleet, so it does not apply to a run.
class RunJudge {
 public:
  /// `accepted` is null if there is no ledger.
  RunJudge(const GivenReferences& given, const JudgeOptions& options, const AcceptedRuns* accepted)
      : given_(given), options_(options), accepted_(accepted) {}

  JudgedRun judge(const Candidate& run) const {
    JudgedRun judged;
    judged.why_not = input_error_of([&] { judge(run, judged); });
    return judged;
  }

 private:
  void judge(const Candidate& run, JudgedRun& judged) const {
    auto measured = std::make_unique<const Measured>(read_results(std::vector{run.folder}));
    JudgeOptions options = options_;
    options.unfinished = unfinished(run.folder);
    judged.complete = !options.unfinished && is_complete(measured->files);
    judged.verdict = shakedown::judge(*measured, references_of(*measured), options);
    if (!judged.complete && judged.verdict.state != State::fail) {
      judged.facts.resize(1);
      judged.facts.front().context = measured->files.front().context;
      return;
    }
    if (accepted_ != nullptr)
      judged.drifts = own_drifts(*measured, accepted_->records(*measured, judged.verdict.started));
    judged.measured = std::move(measured);
  }

  /// Returns the profile of the run alone, because a copy of all profiles takes an eighth of the time of a run. An
  /// unknown family is refused by all of them.
  References references_of(const Measured& measured) const {
    const Profile* const own = select_profile(measured.files, given_.profiles).profile;
    if (own == nullptr || !options_.families.all()) return {given_.profiles_for(measured)};
    std::vector<Profile> profiles;
    profiles.push_back(on_site(*own, given_.site_or_null(), measured));  // an initializer list would copy it
    return {std::move(profiles)};
  }

  const GivenReferences& given_;
  const JudgeOptions& options_;
  const AcceptedRuns* accepted_;
};

/// Adds runs to the fleet, from the newest to the oldest, until it has a complete run of each host.
class Chooser {
 public:
  Chooser(const RunJudge& judge, FleetJudge& fleet, Found& found) : judge_(judge), fleet_(fleet), found_(found) {
    std::stable_sort(found.runs.begin(), found.runs.end(),
                     [](const auto& a, const auto& b) { return a.started > b.started; });
  }

  void judge_all() {
    std::vector<std::optional<JudgedRun>> judged(found_.runs.size());
    const auto is_first = first_of_their_hosts();
    in_order(
        found_.runs.size(),
        [&](std::size_t i) {
          if (is_first[i]) judged[i] = judge_.judge(found_.runs[i]);
        },
        [&](std::size_t i) {
          const Candidate& run = found_.runs[i];
          if (!judged[i] && !hosts_of(run).empty()) judged[i] = judge_.judge(run);
          add(run, judged[i]);
          judged[i].reset();
        });
    // Each node without a complete run is shown with its newest incomplete run.
    for (const auto& [host, broken] : broken_) {
      if (!done_.contains(host)) fleet_.add(broken.run->facts, broken.run->verdict, {host}, broken.folder, false);
    }
  }

  bool has(const std::string& host) const { return done_.contains(host) || broken_.contains(host); }

 private:
  struct Broken {
    fs::path folder;
    std::shared_ptr<const JudgedRun> run;
  };

  /// Returns for each run whether no newer run has one of its hosts. The others are needed only if a newer run is
  /// incomplete.
  std::vector<bool> first_of_their_hosts() const {
    std::set<std::string> seen;
    std::vector<bool> is_first;
    for (const Candidate& run : found_.runs) {
      const bool is_new = std::ranges::none_of(run.hosts, [&](const auto& host) { return seen.contains(host); });
      is_first.push_back(is_new);
      seen.insert(run.hosts.begin(), run.hosts.end());
    }
    return is_first;
  }

  /// Returns the hosts of a run for which no run was added yet.
  std::vector<std::string> hosts_of(const Candidate& run) const {
    std::vector<std::string> hosts;
    for (const auto& host : run.hosts) {
      if (!done_.contains(host)) hosts.push_back(host);
    }
    return hosts;
  }

  void add(const Candidate& run, std::optional<JudgedRun>& judged) {
    const auto hosts = hosts_of(run);
    if (hosts.empty()) {
      found_.left_out.push_back({run.folder, "older", true});
      return;
    }
    if (!judged->why_not.empty()) {
      found_.left_out.push_back({run.folder, judged->why_not});
      return;
    }
    if (!judged->measured) {
      const auto shared = std::make_shared<const JudgedRun>(std::move(*judged));
      for (const auto& host : hosts) broken_.try_emplace(host, Broken{run.folder, shared});
      found_.left_out.push_back({run.folder, "incomplete", true});
      return;
    }
    std::map<std::string, std::string> newer;
    for (const auto& host : hosts) {
      if (const auto broken = broken_.find(host); broken != broken_.end()) newer[host] = broken->second.folder;
    }
    fleet_.add(judged->measured->files, judged->verdict, hosts, run.folder, judged->complete, newer);
    for (const auto& host : hosts) {
      if (const auto drift = judged->drifts.find(host); drift != judged->drifts.end())
        fleet_.set_drift(host, drift->second);
    }
    done_.insert(hosts.begin(), hosts.end());
  }

  const RunJudge& judge_;
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
  peek_at_all(found);
  const GivenReferences given = read_references(arguments);
  JudgeOptions options = arguments.judge;
  options.is_of_fleet = true;
  auto roster = std::exchange(options.roster, {});
  if (given.site) {
    options.places = {given.site->topology, given.site->racks};
    for (const auto& host : roster.empty() ? given.site->roster : std::vector<std::string>{}) {
      roster.push_back({host, std::nullopt});
    }
  }
  FleetJudge fleet;
  std::optional<Ledger> ledger;
  std::optional<AcceptedRuns> accepted;
  if (const auto folder = ledger_of(arguments)) accepted.emplace(*folder, ledger.emplace(read_ledger(*folder)));
  const RunJudge judge(given, options, accepted ? &*accepted : nullptr);
  Chooser chooser(judge, fleet, found);
  chooser.judge_all();
  for (const fs::path& folder : found.empty_nodes) {
    if (!chooser.has(folder.filename())) fleet.add_absent(folder.filename(), "no results in " + folder.string());
  }
  for (const RosterEntry& entry : roster) {
    if (!chooser.has(entry.host)) fleet.add_absent(entry.host, "on the roster, without a run");
  }
  if (ledger) {
    fleet.set_records(node_records(ledger->events));
    for (const auto& event : ledger->unreadable) fleet.add_unreadable(event);
    warn_of_unreadable(*ledger, 0);
  }
  return std::move(fleet).judge(options, std::move(found.left_out));
}

}  // namespace shakedown
