// Families that are measured by programs which hand out a stored run, and end as they please.
#include "launch/measure.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/text.hpp"
#include "launch/roll.hpp"

namespace shakedown::measure_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path source = SHAKEDOWN_SOURCE_DIR;
const fs::path stored = source / "ci/baselines/h200-sxm/4ranks/1";

class Measure : public testing::Test {
 protected:
  Measure() {
    fs::create_directories(scratch / "bin");
    fs::create_directories(scratch / "run");
    programs.folder = scratch / "bin";
    programs.families = {"hbm", "p2p"};
    door.judge.thresholds = source / "thresholds";
  }
  ~Measure() override { fs::remove_all(scratch); }

  void program(const std::string& name, const std::string& script) const {
    const auto file = scratch / "bin" / ("bench_" + name);
    std::ofstream(file) << "#!/bin/bash\nstored=" << stored.string() << "\n" << script << "\n";
    fs::permissions(file, fs::perms::owner_all);
  }
  /// All families in one program, and then this.
  void all(const std::string& end) const {
    program("all", R"sh(
for family in hbm p2p; do
  printf '{"family": "%s", "result": %s}\n' $family "$(tr '\n' ' ' <$stored/$family.json)"
done
)sh" + end);
  }
  Words crashed_of(const std::string& family) const {
    const auto document = nlohmann::json::parse(read_file(scratch / "run" / (family + ".json")));
    return document.at("context").at("shakedown").value("crashed", Words{});
  }
  bool exists(const std::string& name) const { return fs::exists(scratch / "run" / name); }
  bool measure_one(const std::string& end) {
    program("hbm", "cat $stored/hbm.json\n" + end);
    return !measure_family(door, launch, programs, scratch / "run", "r", "hbm", signals, screen);
  }
  Together measure_all(const std::string& end) {
    all(end);
    return measure_together(door, launch, programs, scratch / "run", "r", signals, screen);
  }

  const fs::path scratch = fs::temp_directory_path() / ("shakedown_measure_" + std::to_string(getpid()));
  FrontDoor door;
  Launch launch;
  Programs programs;
  Signals signals;
  Screen screen{{"hbm", "p2p"}};
};

TEST(JobOfRanks, HasASecretThatIsOnNoCommandLineAndNewEachTime) {
  const auto secret_of = [](const Job& job) {
    std::string secret;
    for (const auto& [name, value] : job.variables) secret += name == "SHAKEDOWN_SECRET" ? value : "";
    return secret;
  };
  Launch launch;
  launch.prefix = {"mpirun", "-np", "2"};
  const auto job = job_of_ranks({}, launch, {"bench_hbm"});
  EXPECT_EQ(secret_of(job).size(), 64u);
  EXPECT_EQ(joined(job.command, " "), "mpirun -x SHAKEDOWN_SECRET -np 2 bench_hbm");
  EXPECT_NE(secret_of(job), secret_of(job_of_ranks({}, launch, {"bench_hbm"})));
  launch.prefix = {"srun", "--mpi=none"};
  EXPECT_EQ(secret_of(job_of_ranks({}, launch, {"bench_hbm"})).size(), 64u);
  launch.prefix = {"launcher-of-a-site"};
  EXPECT_EQ(secret_of(job_of_ranks({}, launch, {"bench_hbm"})), "") << "it may hand on nothing to other hosts";
  setenv("SHAKEDOWN_SECRET_FILE", "/home/me/secret", 1);
  launch.prefix = {"mpirun"};
  const auto with_file = job_of_ranks({}, launch, {"bench_hbm"});
  unsetenv("SHAKEDOWN_SECRET_FILE");
  EXPECT_EQ(joined(with_file.command, " "), "mpirun -x SHAKEDOWN_SECRET_FILE bench_hbm");
  EXPECT_EQ(secret_of(with_file), "");
}

TEST_F(Measure, KeepsAResultWithErrorRowsAsItIs) {
  for (const auto* end : {"exit 0", "exit 1"}) {
    EXPECT_TRUE(measure_one(end)) << end;
    EXPECT_EQ(crashed_of("hbm"), Words{}) << end;
  }
}

TEST_F(Measure, MarksAResultThatItsProgramDidNotOutlive) {
  for (const auto* end : {"exit 2", "exit 3", "exit 139", "kill -SEGV $$"}) {
    EXPECT_TRUE(measure_one(end)) << end;
    EXPECT_EQ(crashed_of("hbm"), Words{"hbm"}) << end;
  }
}

TEST_F(Measure, HandsEachProgramTheFlagsThatAreForIt) {
  door.tier = "full";
  door.timeout = 77;
  door.shared_folder = "/shared";
  door.checkpoint_dir = "/disk";
  door.dcgm = 2;
  door.retune = true;
  door.judge.site = "/site.yaml";
  door.expected = "ranks=4";
  const auto flags_of = [&](const std::string& family) {
    program(family, "echo \"$@\" >" + (scratch / "flags").string());
    measure_family(door, launch, programs, scratch / "run", "r", family, signals, screen);
    return " " + line_of(scratch / "flags").value_or("") + " ";
  };
  const auto has = [](const std::string& flags, const std::string& one) {
    return flags.find(" " + one + " ") != std::string::npos;
  };
  const auto hbm = flags_of("hbm"), preflight = flags_of("preflight"), checkpoint = flags_of("checkpoint"),
             pairs = flags_of("pairs");
  for (const auto* of_all : {"--tier=full", "--timeout=77", "--retune", "--run-id=r", "--expect=ranks=4"}) {
    EXPECT_TRUE(has(hbm, of_all)) << of_all;
  }
  for (const auto* of_one : {"--shared-folder=/shared", "--checkpoint-dir=/disk", "--dcgm=2", "--site=/site.yaml"}) {
    EXPECT_FALSE(has(hbm, of_one)) << of_one;
  }
  EXPECT_TRUE(has(preflight, "--shared-folder=/shared") && has(preflight, "--dcgm=2")) << preflight;
  EXPECT_FALSE(has(preflight, "--checkpoint-dir=/disk") || has(preflight, "--site=/site.yaml")) << preflight;
  EXPECT_TRUE(has(checkpoint, "--checkpoint-dir=/disk")) << checkpoint;
  EXPECT_TRUE(has(pairs, "--site=/site.yaml")) << pairs;
  EXPECT_FALSE(has(pairs, "--dcgm=2") || has(checkpoint, "--shared-folder=/shared"));
}

TEST_F(Measure, MeasuresOneFamilyByItsOwnProgram) {
  all("exit 0");
  programs.families = {"hbm"};
  const auto together = measure_together(door, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_TRUE(together.something_is_missing);
  EXPECT_FALSE(together.died);
  EXPECT_FALSE(exists("hbm.json")) << "nothing was started";
}

TEST_F(Measure, KeepsNoHalfResult) {
  program("hbm", "head -c 2000 $stored/hbm.json");
  EXPECT_TRUE(measure_family(door, launch, programs, scratch / "run", "r", "hbm", signals, screen)) << "why not";
  EXPECT_FALSE(exists("hbm.json"));
}

TEST_F(Measure, MarksTheLastOfAllFamiliesWhereTheirProgramDiedAfterIt) {
  for (const auto* end : {"exit 3", "kill -SEGV $$"}) {
    const auto together = measure_all(end);
    EXPECT_FALSE(together.something_is_missing) << end;
    EXPECT_EQ(crashed_of("p2p"), Words{"p2p"}) << end;
    EXPECT_EQ(crashed_of("hbm"), Words{}) << end;
    fs::remove(scratch / "run/hbm.json");
    fs::remove(scratch / "run/p2p.json");
  }
  measure_all("exit 1");
  EXPECT_EQ(crashed_of("p2p"), Words{});
}

TEST_F(Measure, RemembersTheFamilyInWhichTheProgramOfAllDied) {
  program("all", R"sh(
printf '{"family": "hbm", "result": %s}\n' "$(tr '\n' ' ' <$stored/hbm.json)"
echo 'shakedown-lost: nodeb' >&2
exit 3)sh");
  const auto together = measure_together(door, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_TRUE(together.something_is_missing);
  EXPECT_TRUE(together.died);
  EXPECT_EQ(together.lost, Words{"nodeb"});
  EXPECT_EQ(line_of(scratch / "run/crashed"), "p2p");
  EXPECT_NE(read_file(scratch / "run/log").find("bench_all ended in p2p: bench_all ended with exit code 3"),
            std::string::npos);
}

TEST_F(Measure, AccusesNoMachineWhereTheSupervisorCannotReport) {
  EXPECT_THROW(measure_one("kill -KILL $PPID; sleep 10"), CannotRun);
  EXPECT_EQ(crashed_of("hbm"), Words{}) << "the result stays, unmarked";
  EXPECT_THROW(measure_all("kill -KILL $PPID; sleep 10"), CannotRun);
  EXPECT_EQ(crashed_of("p2p"), Words{});
  EXPECT_FALSE(exists("crashed"));
}

// A script of that name in PATH: it starts the ranks, and is killed after their result.
TEST_F(Measure, AccusesNoMachineWhereTheLauncherIsKilled) {
  const auto mpirun = scratch / "bin/mpirun";
  std::ofstream(mpirun) << "#!/bin/bash\nwhile [[ $1 == -x ]]; do shift 2; done\n\"$@\"\nkill -KILL $$\n";
  fs::permissions(mpirun, fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", ((scratch / "bin").string() + ":" + path).c_str(), 1);
  launch.prefix = {"mpirun"};
  EXPECT_THROW(measure_one("exit 0"), CannotRun);
  EXPECT_EQ(crashed_of("hbm"), Words{});
  setenv("PATH", path.c_str(), 1);
}

TEST_F(Measure, RefusesWhereAGpuIsInUse) {
  program("hbm", "echo 'shakedown: rank 0 (a): GPU-1 is in use by another measurement: process 7' >&2; exit 3");
  EXPECT_THROW(measure_family(door, launch, programs, scratch / "run", "r", "hbm", signals, screen), CannotRun);
}

TEST_F(Measure, GoesOnAfterAPreflightThatPassesOnly) {
  fs::copy(stored / "preflight.json", scratch / "run/preflight.json");
  const auto id = nlohmann::json::parse(read_file(stored / "preflight.json"))["context"]["shakedown"]["run_id"];
  EXPECT_TRUE(preflight_allows(door, scratch / "run", id));
  EXPECT_FALSE(preflight_allows(door, scratch / "run", "another run"));
  fs::copy(source / "tests/data/preflight/h200-sxm-4ranks-pinned.json", scratch / "run/preflight.json",
           fs::copy_options::overwrite_existing);
  const auto pinned = nlohmann::json::parse(read_file(scratch / "run/preflight.json"));
  const std::string pinned_id = pinned["context"]["shakedown"]["run_id"];
  EXPECT_FALSE(preflight_allows(door, scratch / "run", pinned_id)) << "all ranks are bound to one core";
  door.despite_preflight = true;
  EXPECT_TRUE(preflight_allows(door, scratch / "run", pinned_id));
}

// mpirun, as far as the hosts' answers go: nodea is there, nodeb is not.
TEST_F(Measure, LeavesOutAHostThatDoesNotAnswerAndMissesIt) {
  const auto mpirun = scratch / "bin/mpirun";
  HostAnswer here;
  here.host = "nodea";
  std::ofstream(mpirun) << "#!/bin/bash\necho '" << answer_line(here) << "'\n";
  fs::permissions(mpirun, fs::perms::owner_all);
  const auto hosts = scratch / "hosts";
  std::ofstream(hosts) << "nodea slots=2\nnodeb slots=2\n";
  const std::string path = std::getenv("PATH");
  setenv("PATH", ((scratch / "bin").string() + ":" + path).c_str(), 1);
  setenv("OMPI_MCA_orte_default_hostfile", hosts.c_str(), 1);
  const auto agreed = agreed_launch(door, process_environment(), signals);
  EXPECT_EQ(agreed.hosts, (Words{"nodea", "nodeb"}));
  EXPECT_EQ(agreed.absent, Words{"nodeb"});
  EXPECT_EQ(agreed.present, Words{"nodea"});
  EXPECT_EQ(agreed.host_count, 2) << "that were promised";
  EXPECT_NE(all_expected(door, agreed).find("hosts=2"), std::string::npos);
  unsetenv("OMPI_MCA_orte_default_hostfile");
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace shakedown::measure_test
