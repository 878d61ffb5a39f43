// mutation: changes one row at a time of stored and simulated runs, and judges each changed run in every way. Fails if
// a judgement crashes or throws. Also fails if a run passes whose change removed or falsified a value, unless
// docs/verdict.md gives the reason.
//
//   build/tests/mutation/mutation --count=20000 --seed=1 --jobs=2
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "base/files.hpp"
#include "base/text.hpp"
#include "tests/mutation/change.hpp"
#include "tests/mutation/exemptions.hpp"
#include "tests/mutation/judging.hpp"
#include "tests/mutation/runs.hpp"
#include "tests/thresholds/results_builder.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown::mutation {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path root = SHAKEDOWN_SOURCE_DIR;

/// One row of one file of one run, and the kind of change.
struct Mutation {
  std::size_t run, file, row;
  Kind kind;
  std::uint64_t seed;
};

/// The results of mutations. Each process writes them to a file.
struct Count {
  std::size_t tried = 0, unchanged = 0, refused = 0, noticed = 0, same = 0;
  std::map<std::string, std::size_t> exempt;  // by rows and reason
  std::vector<std::string> failures;
};

json to_json(const Count& count) {
  return {{"tried", count.tried},      {"unchanged", count.unchanged}, {"refused", count.refused},
          {"noticed", count.noticed},  {"same", count.same},           {"exempt", count.exempt},
          {"failures", count.failures}};
}

void add(Count& count, const json& more) {
  count.tried += more["tried"].get<std::size_t>();
  count.unchanged += more["unchanged"].get<std::size_t>();
  count.refused += more["refused"].get<std::size_t>();
  count.noticed += more["noticed"].get<std::size_t>();
  count.same += more["same"].get<std::size_t>();
  for (const auto& [name, times] : more["exempt"].items()) count.exempt[name] += times.get<std::size_t>();
  for (const auto& failure : more["failures"]) count.failures.push_back(failure);
}

/// The bad findings that count.
using Bad = std::set<std::tuple<std::string, std::string, Status>>;

Bad bad_of(const Verdict& verdict) {
  Bad bad;
  for (const Finding& finding : verdict.findings) {
    if (finding.counts() && !finding.good()) bad.emplace(finding.key, finding.metric, finding.status);
  }
  return bad;
}

/// Mutates runs in one process.
class Mutator {
 public:
  Mutator(const std::vector<Run>& runs, const std::vector<Verdict>& healthy, const Judging& judging,
          const Exemptions& exemptions, fs::path scratch, char* label)
      : runs_(runs),
        healthy_(healthy),
        judging_(judging),
        exemptions_(exemptions),
        scratch_(std::move(scratch)),
        label_(label) {}

  void tried(const Mutation& mutation) {
    const Run& run = runs_[mutation.run];
    const Document& document = run.documents[mutation.file];
    const std::string key = key_of(document.rows[mutation.row]["name"].get<std::string>());
    std::mt19937_64 random(mutation.seed);
    const auto changed = change(document, mutation.row, mutation.kind, random);
    ++count.tried;
    if (!changed) return void(++count.unchanged);
    const std::string what = fmt::format("{}: {} {}: {}", run.name, key, changed->metric, name(mutation.kind));
    std::snprintf(label_, label_size, "%s", what.c_str());
    try {
      const Verdict verdict = judged(run, mutation, changed->text, key);
      check(mutation, key, changed->metric, verdict, what);
    } catch (const InputError&) {
      ++count.refused;
    } catch (const std::exception& error) {
      fails(what + ": " + error.what());
    }
  }

  static constexpr std::size_t label_size = 1024;
  Count count;

 private:
  // Prints immediately, because the process may crash later.
  void fails(const std::string& what) {
    fmt::print(stderr, "FAILED: {}\n", what);
    count.failures.push_back(what);
  }

  Verdict judged(const Run& run, const Mutation& mutation, const std::string& text, const std::string& key) const {
    const fs::path file = scratch_ / run.files[mutation.file].file.filename();
    std::ofstream(file) << text;
    std::vector<Results> files = run.files;
    files[mutation.file] = read_results(file);
    return judging_.verdict(run, std::move(files), key, mutation.seed);
  }

  void check(const Mutation& mutation, const std::string& key, const std::string& metric, const Verdict& verdict,
             const std::string& what) {
    if (!takes_a_value(mutation.kind)) return void(++count.same);
    const Bad bad = bad_of(verdict), before = bad_of(healthy_[mutation.run]);
    if (!std::includes(before.begin(), before.end(), bad.begin(), bad.end())) return void(++count.noticed);
    if (const auto reason = exemptions_.reason(healthy_[mutation.run], key, metric, mutation.kind)) {
      return void(++count.exempt[*reason]);
    }
    fails(what + ": passes");
  }

  const std::vector<Run>& runs_;
  const std::vector<Verdict>& healthy_;
  const Judging& judging_;
  const Exemptions& exemptions_;
  fs::path scratch_;
  char* label_;
};

/// Returns all mutations, in an order that depends on the seed.
std::vector<Mutation> mutations_of(const std::vector<Run>& runs, std::size_t count, std::uint64_t seed) {
  std::vector<Mutation> all;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (std::size_t file = 0; file < runs[run].documents.size(); ++file) {
      const auto& rows = runs[run].documents[file].rows;
      for (std::size_t row = 0; row < rows.size(); ++row) {
        if (rows[row]["run_type"] != "iteration") continue;
        for (std::size_t kind = 0; kind < kind_count; ++kind) {
          all.push_back({run, file, row, static_cast<Kind>(kind), 0});
        }
      }
    }
  }
  std::mt19937_64 random(seed);
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random() % i]);
  std::vector<Mutation> chosen;
  while (chosen.size() < count) {
    Mutation next = all[chosen.size() % all.size()];
    next.seed = random();
    chosen.push_back(next);
  }
  return chosen;
}

double number_flag(const std::vector<std::string>& words, const std::string& flag, double usual) {
  for (const std::string& word : words) {
    if (word.starts_with(flag + "=")) return std::atof(word.c_str() + flag.size() + 1);
  }
  return usual;
}

/// Runs every jobs-th mutation in a child process. Returns its process id.
pid_t start(const std::vector<Mutation>& mutations, std::size_t job, std::size_t jobs, Mutator mutator,
            const fs::path& report) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (std::size_t i = job; i < mutations.size(); i += jobs) mutator.tried(mutations[i]);
  std::ofstream(report) << to_json(mutator.count);
  std::fflush(nullptr);
  _exit(0);
}

int print(const Count& count) {
  fmt::print("tried {}: changed nothing {}, refused {}, noticed {}, said once more {}\n", count.tried, count.unchanged,
             count.refused, count.noticed, count.same);
  for (const auto& [rows, times] : count.exempt) fmt::print("exempt {} times: {}\n", times, rows);
  fmt::print("{} failures\n", count.failures.size());
  return count.failures.empty() && count.tried > 0 ? 0 : 1;
}

int run(const std::vector<std::string>& words) {
  const auto count = static_cast<std::size_t>(number_flag(words, "--count", 500));
  const auto jobs = static_cast<std::size_t>(number_flag(words, "--jobs", 1));
  const testing_support::Folder scratch;
  const auto runs = all_runs(root, scratch.path());
  const auto profiles = load_profiles(root / "thresholds");
  const Exemptions exemptions(profiles, read_listed(root / "docs/verdict.md"));
  std::vector<Verdict> healthy;
  for (const Run& one : runs) {
    healthy.push_back(Judging(profiles, scratch.path()).verdict(one.files));
    fmt::print("{}: {}\n", one.name, verdict_line(healthy.back()));
  }
  const auto mutations = mutations_of(runs, count, static_cast<std::uint64_t>(number_flag(words, "--seed", 1)));
  auto* const labels = static_cast<char*>(
      mmap(nullptr, jobs * Mutator::label_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (labels == MAP_FAILED) throw std::runtime_error("no memory for labels");
  std::vector<pid_t> children;
  for (std::size_t job = 0; job < jobs; ++job) {
    const fs::path own = scratch.path() / ("job" + std::to_string(job));
    fs::create_directories(own);
    const Judging judging(profiles, own);
    Mutator mutator(runs, healthy, judging, exemptions, own, labels + job * Mutator::label_size);
    children.push_back(start(mutations, job, jobs, std::move(mutator), own / "report"));
  }
  Count all;
  for (std::size_t job = 0; job < jobs; ++job) {
    int status = 0;
    waitpid(children[job], &status, 0);
    std::ifstream in(scratch.path() / ("job" + std::to_string(job)) / "report");
    const json report = json::parse(in, nullptr, false);
    if (status == 0 && !report.is_discarded()) {
      add(all, report);
    } else {
      all.failures.push_back(fmt::format("{}: died, status {}", labels + job * Mutator::label_size, status));
      fmt::print(stderr, "FAILED: {}\n", all.failures.back());
    }
  }
  munmap(labels, jobs * Mutator::label_size);
  return print(all);
}

}  // namespace
}  // namespace shakedown::mutation

int main(int argc, char** argv) try {
  return shakedown::mutation::run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::fprintf(stderr, "mutation: %s\n", error.what());
  return 2;
}
