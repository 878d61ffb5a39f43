// fleet_rate: makes a fleet for every seed, lets acceptance_test judge it, reads verdict.json, and counts how often the
// judge was right. It knows of the judge what report/verdict.schema.json says.
//
//   build/tests/fleet/fleet_rate --noise=tests/fleet/noise/calm.yaml --hosts=8 --seeds=1..100 -j4
//   build/tests/fleet/fleet_rate --seeds=1..20 --fault=gpu:rank=3,percent=5
//
// named: every planted fault has a failing suspect that is exactly its place (of an error, a failing finding that says
// the rank or the host); said: the same, by suspects that fail nothing too; first: the first failing suspect is one of
// them; innocent: a failing suspect that is, or has among its GPUs, one that nobody touched (an end of a slow link and
// a GPU of a slow host are not); nowhere: a failing suspect that is nobody in particular, though somebody was touched.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/fleet/flags.hpp"
#include "tests/fleet/seeds.hpp"

namespace shakedown::fleet {
namespace {

using Json = nlohmann::json;

struct Outcome {
  std::string verdict;
  bool named = true, said = true, first = false, innocent = false, nowhere = false;
  std::string suspects;
};

/// Where a suspect of verdict.json is.
struct Suspect {
  std::set<int> ranks;
  std::string host;  // of a whole host
  bool configuration = false, fails;

  explicit Suspect(const Json& culprit) : fails(culprit["fails"].get<bool>()) {
    for (const auto& place : culprit["places"]) {
      if (place["rank"].is_null()) {
        host = place["host"];
      } else {
        ranks.insert(place["rank"].get<int>());
      }
    }
    for (const auto& cause : culprit["causes"]) configuration = configuration || cause == "configuration";
  }

  bool is(const Guilty& guilty, const Fleet& fleet) const {
    if (guilty.configuration) return configuration && ranks.empty() && host.empty();
    if (guilty.host >= 0 && ranks.empty()) return host == fleet.host(guilty.host);
    return host.empty() && ranks == guilty.ranks;
  }

  bool blames_innocents(const std::set<int>& ranks_struck, const std::set<std::string>& hosts_struck) const {
    if (!host.empty() && !hosts_struck.contains(host)) return true;
    for (const int rank : ranks) {
      if (!ranks_struck.contains(rank)) return true;
    }
    return false;
  }
};

bool found(const Guilty& guilty, const Json& verdict, const Fleet& fleet) {
  for (const auto& finding : verdict["findings"]) {
    if (!finding["counted"].get<bool>() || finding["status"] == "pass" || finding["status"] == "waived") continue;
    const auto text = finding["detail"].get<std::string>() + finding["offenders"].dump() + finding["worst"].dump();
    if (guilty.host >= 0 && text.find(fleet.host(guilty.host)) != std::string::npos) return true;
    for (const int rank : guilty.ranks) {
      if (text.find("rank " + std::to_string(rank) + " ") != std::string::npos ||
          text.find("\"rank\":" + std::to_string(rank) + ",") != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

Outcome read(const Json& verdict, const Fleet& fleet, const Plan& plan) {
  Outcome outcome;
  outcome.verdict = verdict["verdict"];
  std::set<int> ranks;
  std::set<std::string> hosts;
  std::vector<Guilty> guilty;
  for (const auto& fault : plan.faults) {
    guilty.push_back(fleet.guilty(fault));
    ranks.insert(guilty.back().ranks.begin(), guilty.back().ranks.end());
    if (guilty.back().host >= 0) hosts.insert(fleet.host(guilty.back().host));
  }
  std::vector<Suspect> suspects;  // as verdict.json has them, those that fail nothing last
  for (const auto& culprit : verdict.value("culprits", Json::array())) {
    const auto& suspect = suspects.emplace_back(culprit);
    outcome.suspects += (outcome.suspects.empty() ? "" : "; ") + culprit["causes"].dump() + " ";
    for (const auto& place : culprit["places"]) {
      outcome.suspects += place["rank"].is_null() ? place["host"].get<std::string>() : place["rank"].dump() + " ";
    }
    if (!suspect.fails) {
      outcome.suspects += "(fails nothing)";
      continue;
    }
    outcome.innocent = outcome.innocent || suspect.blames_innocents(ranks, hosts);
    outcome.nowhere = outcome.nowhere || (suspect.ranks.empty() && suspect.host.empty());
  }
  for (const auto& one : guilty) {
    bool named = false, said = false;
    for (std::size_t i = 0; i < suspects.size(); ++i) {
      if (!suspects[i].is(one, fleet)) continue;
      said = true;
      named = named || suspects[i].fails;
      outcome.first = outcome.first || (i == 0 && suspects[i].fails);
    }
    if (!named && one.by_finding) {
      named = found(one, verdict, fleet);
      outcome.first = outcome.first || (named && (suspects.empty() || !suspects.front().fails));
    }
    outcome.nowhere = outcome.nowhere && !one.configuration;
    outcome.named = outcome.named && named;
    outcome.said = outcome.said && (said || named);
  }
  return outcome;
}

/// Runs the judge; its output is of no use here.
void judge(const std::string& program, const std::filesystem::path& folder) {
  const std::string results = "--results=" + folder.string(),
                    verdict = "--verdict=" + (folder / "verdict.json").string();
  const pid_t child = fork();
  if (child == 0) {
    // acceptance_test may say its reason on an open descriptor: not on the files that other threads write just now.
    close_range(3, ~0U, 0);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execl(program.c_str(), program.c_str(), results.c_str(), verdict.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) > 3) {
    throw std::runtime_error(program + " did not judge " + folder.string());
  }
}

Outcome try_one(Plan plan, std::uint64_t seed, const std::string& program, const std::string& keep) {
  plan.seed = seed;
  std::string name = (std::filesystem::temp_directory_path() / "fleet-XXXXXX").string();
  if (keep.empty() && mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  const std::filesystem::path folder =
      keep.empty() ? std::filesystem::path(name) : std::filesystem::path(keep) / std::to_string(seed);
  const Fleet fleet(plan);
  fleet.write(folder);
  judge(program, folder);
  std::ifstream file(folder / "verdict.json");
  const auto outcome = read(Json::parse(file), fleet, plan);
  if (keep.empty()) std::filesystem::remove_all(folder);
  return outcome;
}

int run(int argc, char** argv) {
  int workers = 2;
  std::vector<char*> words;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.compare(0, 2, "-j") == 0) {
      workers = static_cast<int>(Flags::whole("-j", word.substr(2)));
    } else {
      words.push_back(argv[i]);
    }
  }
  const Flags flags(static_cast<int>(words.size()), words.data(),
                    Flags::of_plan({"--seeds", "--judge", "--keep", "--each"}));
  const Plan plan = flags.plan();
  std::map<std::uint64_t, Outcome> outcomes;
  each_seed(
      seeds_of("--seeds", flags.text("--seeds", "1..20")), workers,
      [&](std::uint64_t seed) {
        return try_one(plan, seed, flags.text("--judge", ACCEPTANCE_TEST), flags.text("--keep", ""));
      },
      [&](std::uint64_t seed, Outcome outcome) { outcomes.emplace(seed, std::move(outcome)); });

  std::map<std::string, int> verdicts;
  int named = 0, said = 0, first_named = 0, innocent = 0, nowhere = 0;
  for (const auto& [seed, outcome] : outcomes) {
    ++verdicts[outcome.verdict];
    named += outcome.named ? 1 : 0;
    said += outcome.said ? 1 : 0;
    nowhere += outcome.nowhere ? 1 : 0;
    first_named += outcome.first ? 1 : 0;
    innocent += outcome.innocent ? 1 : 0;
    if (flags.number("--each", 0) != 0) {
      std::printf("  %llu %s: %s\n", static_cast<unsigned long long>(seed), outcome.verdict.c_str(),
                  outcome.suspects.c_str());
    }
  }
  std::printf("n %zu:", outcomes.size());
  for (const auto& [verdict, count] : verdicts) std::printf(" %s %d,", verdict.c_str(), count);
  if (!plan.faults.empty()) std::printf(" named %d, said %d, first %d,", named, said, first_named);
  std::printf(" innocent %d, nowhere %d\n", innocent, nowhere);
  return 0;
}

}  // namespace
}  // namespace shakedown::fleet

int main(int argc, char** argv) try { return shakedown::fleet::run(argc, argv); } catch (const std::exception& error) {
  std::fprintf(stderr, "fleet_rate: %s\n", error.what());
  return 2;
}
