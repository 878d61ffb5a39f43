// Tests how families are measured, with programs that print a stored run and then end in different ways.
#include "launch/measure.hpp"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "launch/discover.hpp"

namespace shakedown::measure_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path source = SHAKEDOWN_SOURCE_DIR;
const fs::path stored = source / "tests/data/h200-sxm-4ranks-full/1";

// For the scripts of programs: sends an event: `event refused '"text": "no"'`
const std::string event = R"sh(event() { echo "{\"event\": \"$1\"${2:+, $2}}" >&${SHAKEDOWN_EVENTS%% *}; }
lost() { event lost "\"hosts\": [\"${*// /\", \"}\"], \"text\": \"a rank ended\""; }
row() { event row '"key": "hbm/op:copy", "row": 1, "rows": 9, "seconds": 1'; }
)sh";

class Measure : public testing::Test {
 protected:
  Measure() {
    fs::create_directories(scratch / "bin");
    fs::create_directories(scratch / "run");
    programs.folder = scratch / "bin";
    programs.families = {"hbm", "p2p"};
    // Reading all profiles would take longer than anything else that these tests do.
    options.judge.thresholds = scratch / "profiles";
    fs::create_directory(options.judge.thresholds);
    for (const auto* file : {"h200-sxm.yaml", "nvidia-preflight.yaml", "hopper-sxm.yaml", "memory-141gb.yaml"})
      fs::copy_file(source / "thresholds" / file, options.judge.thresholds / file);
  }
  ~Measure() override { fs::remove_all(scratch); }

  void program(const std::string& name, const std::string& script) const {
    const auto file = scratch / "bin" / ("bench_" + name);
    std::ofstream(file) << "#!/bin/bash\nstored=" << stored.string() << "\n" << event << script << "\n";
    fs::permissions(file, fs::perms::owner_all);
  }
  /// Creates one program that prints the results of all families and then runs `end`.
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
    return !measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen);
  }
  Together measure_all(const std::string& end) {
    all(end);
    return measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  }

  const fs::path scratch = fs::temp_directory_path() / ("shakedown_measure_" + std::to_string(getpid()));
  AcceptOptions options;
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

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns the output of `call` on standard error.
std::string said_by(const std::function<void()>& call) {
  testing::internal::CaptureStderr();
  call();
  return testing::internal::GetCapturedStderr();
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
  EXPECT_TRUE(has(read_file(scratch / "run/log"), "bench_hbm crashed after writing its result")) << "the log says so";
}

void ask_for_flags_of_single_families(AcceptOptions& options) {
  options.timeout = 77;
  options.shared_folder = "/shared";
  options.checkpoint_dir = "/disk";
  options.storage_dir = "/mnt";
  options.retune = true;
  options.judge.site = "/site.yaml";
}

TEST_F(Measure, TellsRetestsTheLimitsOfTheJudge) {
  const auto flag_of = [&](const std::string& family) {
    const auto command = command_of(options, launch, programs, family, {});
    return std::ranges::count(command, "--thresholds=" + options.judge.thresholds.string());
  };
  EXPECT_EQ(flag_of(resident), 1);
  EXPECT_EQ(flag_of("allreduce"), 1);
  EXPECT_EQ(flag_of("hbm"), 0) << "only collectives are measured again because of a limit";
  options.judge.thresholds = shipped_profiles();
  EXPECT_EQ(flag_of(resident), 0);
}

TEST_F(Measure, HandsEachProgramTheFlagsThatAreForIt) {
  options.tier = Tier::full;
  ask_for_flags_of_single_families(options);
  options.dcgm = 2;
  options.expected = "ranks=4";
  const auto flags_of = [&](const std::string& family) {
    program(family, "echo \"$@\" >" + (scratch / "flags").string());
    measure_family(options, launch, programs, scratch / "run", "r", family, signals, screen);
    return " " + line_of(scratch / "flags").value_or("") + " ";
  };
  const auto has = [](const std::string& flags, const std::string& one) {
    return flags.find(" " + one + " ") != std::string::npos;
  };
  const auto hbm = flags_of("hbm"), preflight = flags_of("preflight"), checkpoint = flags_of("checkpoint"),
             storage = flags_of("storage"), pairs = flags_of("pairs");
  for (const auto* of_all : {"--tier=full", "--timeout=77", "--retune", "--run-id=r", "--expect=ranks=4"}) {
    EXPECT_TRUE(has(hbm, of_all)) << of_all;
  }
  for (const auto* of_one : {"--shared-folder=/shared", "--checkpoint-dir=/disk", "--dcgm=2", "--site=/site.yaml"}) {
    EXPECT_FALSE(has(hbm, of_one)) << of_one;
  }
  EXPECT_TRUE(has(preflight, "--shared-folder=/shared") && has(preflight, "--dcgm=2")) << preflight;
  EXPECT_FALSE(has(preflight, "--checkpoint-dir=/disk") || has(preflight, "--site=/site.yaml")) << preflight;
  EXPECT_TRUE(has(checkpoint, "--checkpoint-dir=/disk")) << checkpoint;
  EXPECT_TRUE(has(storage, "--storage-dir=/mnt") && !has(checkpoint, "--storage-dir=/mnt")) << storage << checkpoint;
  EXPECT_TRUE(has(pairs, "--site=/site.yaml")) << pairs;
  EXPECT_FALSE(has(pairs, "--dcgm=2") || has(checkpoint, "--shared-folder=/shared"));
}

TEST_F(Measure, HandsTheProgramOfAllFamiliesTheFlagsOfEach) {
  const auto flags = [&] {
    const RankProgram program(options, launch, programs, scratch / "run", "r", resident, {"--stream"}, screen);
    return " " + joined(program.job.command, " ") + " ";
  };
  const auto plain = flags();
  for (const auto* always : {" --tier=quick ", " --stream ", " --run-id=r ", " --tolerate-errors "}) {
    EXPECT_TRUE(has(plain, always)) << always;
  }
  for (const auto* if_asked : {"--backend", "--chip", "--shared-folder", "--checkpoint-dir", "--storage-dir", "--dcgm",
                               "--site", "--retune", "--crashed", "--lost", "-x"}) {
    EXPECT_FALSE(has(plain, if_asked)) << if_asked;
  }
  ask_for_flags_of_single_families(options);
  options.startup_timeout = 33;
  options.backend = "virtual";
  options.chip = "h100";
  options.dcgm = 1;
  options.interface = "eth7";
  options.nccl = "/nccl/libnccl.so.2";
  launch.prefix = {"mpirun", "-np", "2"};
  const auto all = flags();
  for (const auto* flag : {"--timeout=77", "--startup-timeout=33", "--backend=virtual", "--chip=h100",
                           "--shared-folder=/shared", "--checkpoint-dir=/disk", "--storage-dir=/mnt", "--dcgm=1",
                           "--site=/site.yaml", "--retune", "-x SHAKEDOWN_EVENTS", "-x SHAKEDOWN_SECRET",
                           "-x SHAKEDOWN_INTERFACE=eth7", "-x LD_PRELOAD=/nccl/libnccl.so.2"}) {
    EXPECT_TRUE(has(all, " " + std::string(flag) + " ")) << flag << ": " << all;
  }
  EXPECT_TRUE(has(all, " -np 2 " + programs.of(resident) + " ")) << "flags of mpirun come first: " << all;
}

TEST_F(Measure, KeepsADocumentWithoutFactsOfItsRunAsItIs) {
  options.families = {"hbm"};
  for (const std::string member : {R"("benchmarks": [])", R"("context": {"shakedown": 1})"}) {
    program("hbm", "printf '{\\n%s\\n}\\n' '" + member + "'");
    measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen);
    EXPECT_EQ(nlohmann::json::parse(read_file(scratch / "run/hbm.json")), nlohmann::json::parse("{" + member + "}"));
  }
}

TEST_F(Measure, EndsByASignalWithItsName) {
  const auto why = [&](const std::function<void()>& measure) -> std::string {
    program("hbm", "kill -TERM " + std::to_string(getpid()) + "; exec sleep 100");
    try {
      measure();
    } catch (const CannotRun& error) {
      return error.what();
    }
    return "measured";
  };
  launch.rank = 0;
  launch.ranks = 2;
  programs.families = {"hbm"};
  EXPECT_EQ(why([&] { measure_as_rank(options, launch, programs, signals); }), "ended by SIGTERM");
  Signals others;
  EXPECT_EQ(why([&] { measure_family(options, launch, programs, scratch / "run", "r", "hbm", others, screen); }),
            "ended by SIGTERM");
}

TEST_F(Measure, TellsEachProgramWhatDiedBeforeAndWithWhichHosts) {
  const auto flags = [&] {
    program("hbm", "echo \"$@\" >" + (scratch / "flags").string());
    measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen);
    return line_of(scratch / "flags").value_or("") + " ";
  };
  launch.lost = {"nodeb", "nodec"};
  EXPECT_FALSE(has(flags(), "--crashed") || has(flags(), "--lost")) << flags();
  std::ofstream(scratch / "run/crashed") << "p2p\n\ngemm\n";
  EXPECT_TRUE(has(flags(), " --crashed=p2p,gemm ") && has(flags(), " --lost=nodeb,nodec ")) << flags();
  launch.lost.clear();
  EXPECT_TRUE(has(flags(), " --crashed=p2p,gemm ")) << flags();
  EXPECT_FALSE(has(flags(), "--lost")) << flags();
}

TEST_F(Measure, KeepsALogOfLimitedSize) {
  EXPECT_TRUE(measure_one("yes \"$(printf %4000s | tr ' ' x)\" | head -c 80M >&2"));
  EXPECT_LT(fs::file_size(scratch / "run/log"), 65'000'000u);
  EXPECT_TRUE(has(read_file(scratch / "run/log"), "the log is full"));
}

TEST_F(Measure, RemembersTheRanksThatDied) {
  const auto dead_of = [&](const std::string& family) {
    const auto document = nlohmann::json::parse(read_file(scratch / "run" / (family + ".json")));
    return document.at("context").at("shakedown").value("dead_ranks", nlohmann::json::array());
  };
  const std::string dies = "row\nevent lost '\"ranks\": [1, 3], \"text\": \"ranks 1 and 3 ended\"'\nexit 3";
  program("hbm",
          "[[ -e $0.started ]] || { touch $0.started; event lost '\"ranks\": [2]'; exit 3; }\n"
          "row\ncat $stored/hbm.json\nexit 3");
  measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen);
  EXPECT_EQ(crashed_of("hbm"), Words{"hbm"});
  EXPECT_TRUE(dead_of("hbm").empty()) << "that rank crashed in an earlier start";
  const auto dead = nlohmann::json::parse(R"([{"family": "hbm", "rank": 1}, {"family": "hbm", "rank": 3}])");
  EXPECT_TRUE(measure_one(dies));
  EXPECT_EQ(dead_of("hbm"), dead);
  program("all", dies);
  measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_EQ(line_of(scratch / "run/crashed"), "p2p 1 3");
  fs::remove(scratch / "run/crashed");
  program("all", "row\nevent lost '\"ranks\": [2], \"hung\": true, \"text\": \"no heartbeats\"'\nexit 3");
  measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_EQ(line_of(scratch / "run/crashed"), "p2p hung 2");
  EXPECT_TRUE(measure_one("exit 0"));
  EXPECT_EQ(dead_of("hbm"), nlohmann::json::parse(R"([{"family": "p2p", "rank": 2, "hung": true}])"));
  std::ofstream(scratch / "run/crashed") << "hbm 1\np2p 3\n";
  EXPECT_TRUE(measure_one("exit 0"));
  EXPECT_EQ(dead_of("hbm").size(), 2u) << "a later program of the run says it too";
  launch.lost = {"nodeb"};
  EXPECT_TRUE(measure_one("exit 0"));
  EXPECT_TRUE(dead_of("hbm").empty()) << "without a host, ranks have new numbers";
}

TEST_F(Measure, SaysToPeopleWhatIsForThemAndKeepsAllInTheLog) {
  const auto said = said_by([&] {
    measure_one(
        "echo 'shakedown: nodea: 4 GPUs' >&2; echo 'a line of NCCL' >&2; event note '\"text\": \"nodea: 8 GPUs\"'");
  });
  EXPECT_TRUE(has(said, "shakedown: nodea: 8 GPUs\n")) << said;
  EXPECT_FALSE(has(said, "NCCL") || has(said, "4 GPUs")) << said;
  const auto log = read_file(scratch / "run/log");
  for (const auto* line : {"shakedown: nodea: 4 GPUs\n", "a line of NCCL\n"}) {
    EXPECT_TRUE(has(log, line)) << log;
  }
}

TEST_F(Measure, MeasuresOneFamilyByItsOwnProgram) {
  all("exit 0");
  programs.families = {"hbm"};
  const auto together = measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_TRUE(together.something_is_missing);
  EXPECT_FALSE(together.died);
  EXPECT_FALSE(exists("hbm.json")) << "nothing was started";
}

TEST_F(Measure, KeepsNoHalfResult) {
  program("hbm", "echo a warning; head -c 2000 $stored/hbm.json");
  EXPECT_TRUE(measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen)) << "why not";
  EXPECT_FALSE(exists("hbm.json"));
  const auto log = read_file(scratch / "run/log");
  EXPECT_TRUE(has(log, "bench_hbm ") && has(log, "a warning\n")) << log;
}

TEST_F(Measure, KeepsNoResultThatTheLauncherHasCutOrMerged) {
  const std::string line = R"sh(printf '{"family": "hbm", "result": %s}' "$(tr '\n' ' ' <$stored/hbm.json)")sh";
  const auto keeps = [&](const std::string& script) {
    fs::remove(scratch / "run/hbm.json");
    program("all", script);
    measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
    return exists("hbm.json");
  };
  for (const Words& families : {Words{}, Words{"hbm"}}) {  // with what the user asked for, a result is written anew
    options.families = families;
    EXPECT_TRUE(keeps(line));
    EXPECT_TRUE(keeps("printf '[1,0]<stdout>: '; " + line));
    EXPECT_FALSE(keeps(line + " | head -c 5000; echo '}}}'"));
    EXPECT_FALSE(keeps(line + " | sed 's/context/a \"line\" of NCCL/'"));
  }
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

/// Counts how often all processes open each file of a folder.
class Opens {
 public:
  explicit Opens(const fs::path& folder) { inotify_add_watch(events_.get(), folder.c_str(), IN_OPEN); }
  std::map<std::string, int> by_name() {
    std::map<std::string, int> opens;
    alignas(inotify_event) std::array<char, 65536> buffer{};
    for (ssize_t size = 0; (size = read(events_.get(), buffer.data(), buffer.size())) > 0;) {
      for (ssize_t at = 0; at < size;) {
        const auto* const event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        if ((event->mask & IN_ISDIR) == 0 && event->len > 0) ++opens[event->name];
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    return opens;
  }

 private:
  Descriptor events_{inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
};

TEST_F(Measure, ReadsEachResultOnceAndNoProfileForTheProvisionalVerdicts) {
  Opens profiles(options.judge.thresholds), results(scratch / "run");
  options.judge.references = std::make_shared<const GivenReferences>(read_references(options.judge));
  for (const auto& [name, opens] : profiles.by_name()) EXPECT_EQ(opens, 1) << name;
  measure_all("exit 0");
  auto opens = results.by_name();
  EXPECT_EQ(opens["hbm.json"], 1);
  EXPECT_EQ(opens["p2p.json"], 1);
  EXPECT_TRUE(profiles.by_name().empty());
}

TEST_F(Measure, MarksTheFamilyInWhoseRetestTheProgramDied) {
  EXPECT_FALSE(measure_all("row\nexit 3").something_is_missing);
  EXPECT_EQ(crashed_of("hbm"), Words{"hbm"});
  EXPECT_EQ(crashed_of("p2p"), Words{});
}

TEST_F(Measure, KnowsThatTheOnlyRankDiedByASignal) {
  const auto dead_after = [&](const std::string& end) {
    EXPECT_TRUE(measure_one(end));
    const auto document = nlohmann::json::parse(read_file(scratch / "run/hbm.json"));
    return document.at("context").at("shakedown").value("dead_ranks", nlohmann::json::array());
  };
  EXPECT_EQ(dead_after("kill -SEGV $$"), nlohmann::json::parse(R"([{"family": "hbm", "rank": 0}])"));
  EXPECT_TRUE(dead_after("exit 3").empty()) << "that is no signal";
  launch.prefix = {"env"};
  EXPECT_TRUE(dead_after("kill -SEGV $$").empty()) << "it may have started several ranks";
  launch.prefix.clear();
  program("all", "row\nkill -SEGV $$");
  measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_EQ(line_of(scratch / "run/crashed"), "p2p 0");
}

TEST_F(Measure, RemembersTheFamilyInWhichTheProgramOfAllDied) {
  program("all", R"sh(
printf '{"family": "hbm", "result": %s}\n' "$(tr '\n' ' ' <$stored/hbm.json)"
lost nodeb
exit 3)sh");
  const auto together = measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_TRUE(together.something_is_missing);
  EXPECT_TRUE(together.died);
  EXPECT_EQ(together.lost, Words{"nodeb"});
  EXPECT_EQ(line_of(scratch / "run/crashed"), "p2p");
  EXPECT_NE(read_file(scratch / "run/log").find("in p2p: bench_all ended with exit code 3"), std::string::npos);
}

TEST_F(Measure, SaysWhyAHostCannotMeasureThatIsLostBeforeTheFirstRow) {
  program("all", "lost nodeb\nexit 3");
  const auto together = measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  EXPECT_TRUE(together.died);
  EXPECT_EQ(together.lost, Words{"nodeb"});
  EXPECT_EQ(together.why_unfit, "a rank ended");
  EXPECT_FALSE(exists("crashed")) << "no family crashed";
}

TEST_F(Measure, LeavesOutAHostOnWhichRanksCrashInEachStart) {
  launch.hosts = {"u1", "u2"};
  launch.host_count = 2;
  const auto dies = [&](const std::string& host) {
    program("all", "echo 'noticed that process rank 3 with PID 7 on node '" + host +
                       "' exited on signal 9 (Killed).' >&2; echo >>" + (scratch / "starts").string() + "; exit 9");
    return measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  };
  const auto together = dies("u1");
  EXPECT_EQ(together.lost, Words{"u1"});
  EXPECT_EQ(together.why_unfit.rfind("ranks crashed during startup in 3 of 3 launches: rank 3 on u1: ", 0), 0U)
      << together.why_unfit;
  EXPECT_THROW(dies("u$((1 + $(wc -l <" + (scratch / "starts").string() + ") % 2))"), CannotRun)
      << "on another host each time";
  // The launcher names a host after these launches.
  const auto dies_in = [&](const std::string& launches) {
    const auto count = (scratch / ("starts" + launches)).string();
    program("all", "echo >>" + count + "; [[ " + launches + " != *$(wc -l <" + count +
                       ")* ]] || echo 'noticed that process rank 3 with PID 7 on node u1 exited on signal 9 (Killed).' "
                       ">&2; exit 9");
    return measure_together(options, launch, programs, scratch / "run", "r", signals, screen);
  };
  try {
    dies_in("3");
    ADD_FAILURE() << "one launch is not enough to leave out a host";
  } catch (const CannotRun& error) {
    EXPECT_NE(std::string_view(error.what()).find("rank 3 on u1: "), std::string_view::npos)
        << error.what() << ": the rank of any launch is named";
  }
  const auto later = dies_in("26");
  EXPECT_EQ(later.lost, Words{"u1"}) << "the launches after the third are there to name the host";
  const auto twice = dies_in("12");
  EXPECT_EQ(twice.lost, Words{"u1"});
  EXPECT_EQ(twice.why_unfit.rfind("ranks crashed during startup in 2 of 3 launches: rank 3 on u1: ", 0), 0U)
      << twice.why_unfit;
}

TEST_F(Measure, HandsOnTheRefusalOfAFlagWhereNothingWasMeasured) {
  const std::string refuses = "event refused '\"text\": \"--site: no such file\"'\n";
  const auto refusal = [&](const std::string& script) {
    program("all", script);
    return input_error_of([&] { measure_together(options, launch, programs, scratch / "run", "r", signals, screen); });
  };
  EXPECT_EQ(refusal(refuses + "exit 2"), "--site: no such file");
  EXPECT_EQ(refusal("exit 2"), "") << "it has not said why";
  EXPECT_EQ(refusal("row\n" + refuses + "exit 3"), "") << "this code is of another end";
  EXPECT_EQ(refusal(R"sh(printf '{"family": "hbm", "result": %s}\n' "$(tr '\n' ' ' <$stored/hbm.json)")sh"
                    "\n" +
                    refuses + "exit 2"),
            "")
      << "something was measured";
  program("hbm", refuses + "exit 2");
  const auto measures_hbm = [&] {
    measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen);
  };
  EXPECT_EQ(input_error_of(measures_hbm), "--site: no such file") << "the program of one family too";
  program("hbm", "event note '\"text\": \"nodea: 8 GPUs\"'; exit 2");
  EXPECT_EQ(input_error_of(measures_hbm), "") << "a note is not a refusal";
}

TEST_F(Measure, AccusesNoMachineWhereTheSupervisorCannotReport) {
  program("hbm", "kill -KILL $PPID; sleep 10");
  EXPECT_THROW(measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen), CannotRun)
      << "without a result";
  EXPECT_THROW(measure_one("kill -KILL $PPID; sleep 10"), CannotRun);
  EXPECT_EQ(crashed_of("hbm"), Words{}) << "the result stays, unmarked";
  EXPECT_THROW(measure_all("kill -KILL $PPID; sleep 10"), CannotRun);
  EXPECT_EQ(crashed_of("p2p"), Words{});
  EXPECT_FALSE(exists("crashed"));
}

// A script of this name in PATH starts the ranks and fails after their result.
TEST_F(Measure, AccusesNoMachineWhereTheLauncherFails) {
  const auto mpirun = scratch / "bin/mpirun";
  const std::string path = std::getenv("PATH");
  setenv("PATH", ((scratch / "bin").string() + ":" + path).c_str(), 1);
  launch.prefix = {"mpirun"};
  const auto ends_with = [&](const std::string& end) {
    std::ofstream(mpirun) << "#!/bin/bash\ntrap 'exit 1' TERM\nwhile [[ $1 == -x ]]; do shift 2; done\n\"$@\"\n"
                          << end << "\n";
    fs::permissions(mpirun, fs::perms::owner_all);
  };
  for (const auto* end : {"kill -KILL $$", "exit 245"}) {
    ends_with(end);
    EXPECT_THROW(measure_one("exit 0"), CannotRun) << end;
    EXPECT_EQ(crashed_of("hbm"), Words{}) << end;
  }
  // After the end of its ranks. The limit of silence is the sum of both limits and a minute.
  const auto hangs = "mkfifo " + (scratch / "never").string() + "; read -t 100 <>" + (scratch / "never").string();
  ends_with(hangs);
  options.startup_timeout = -60;
  options.timeout = 2;
  EXPECT_THROW(measure_one("exit 0"), CannotRun) << "it hangs";
  EXPECT_EQ(crashed_of("hbm"), Words{});
  EXPECT_TRUE(measure_one("sleep 100")) << "a rank hangs after its result";
  EXPECT_EQ(crashed_of("hbm"), Words{"hbm"});
  ends_with("echo 'noticed that process rank 0 with PID 7 on node u1 exited on signal 9 (Killed).' >&2; " + hangs);
  EXPECT_TRUE(measure_one("exit 0")) << "a rank died before";
  EXPECT_EQ(crashed_of("hbm"), Words{"hbm"});
  ends_with("exit 245");
  launch.host_count = 2;
  EXPECT_TRUE(measure_one("exit 0")) << "a host may be lost";
  EXPECT_EQ(crashed_of("hbm"), Words{"hbm"});
  launch.host_count = 1;
  ends_with("exit 139");
  EXPECT_TRUE(measure_one("exit 0")) << "a signal ended a rank";
  EXPECT_EQ(crashed_of("hbm"), Words{"hbm"});
  setenv("PATH", path.c_str(), 1);
}

TEST_F(Measure, RefusesWhereAGpuIsInUse) {
  program("hbm", R"sh(event refused '"why": "gpu_in_use", "text": "rank 0 (a): GPU-1 is taken"'; exit 3)sh");
  try {
    measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen);
    FAIL() << "it is refused";
  } catch (const CannotRun& refused) {
    EXPECT_STREQ(refused.what(), "rank 0 (a): GPU-1 is taken; wait for it, or end it");
    EXPECT_FALSE(has(refused.what(), "launches")) << "it is not started again";
  }
}

TEST_F(Measure, GoesOnAfterAPreflightThatPassesOnly) {
  fs::copy(stored / "preflight.json", scratch / "run/preflight.json");
  const auto id = nlohmann::json::parse(read_file(stored / "preflight.json"))["context"]["shakedown"]["run_id"];
  EXPECT_TRUE(preflight_allows(options, scratch / "run", id));
  EXPECT_FALSE(preflight_allows(options, scratch / "run", "another run"));
  fs::copy(source / "tests/data/preflight/h200-sxm-4ranks-pinned.json", scratch / "run/preflight.json",
           fs::copy_options::overwrite_existing);
  const auto pinned = nlohmann::json::parse(read_file(scratch / "run/preflight.json"));
  const std::string pinned_id = pinned["context"]["shakedown"]["run_id"];
  EXPECT_FALSE(preflight_allows(options, scratch / "run", pinned_id)) << "all ranks are bound to one core";
  options.despite_preflight = true;
  EXPECT_TRUE(preflight_allows(options, scratch / "run", pinned_id));
}

TEST_F(Measure, GoesOnAfterAPreflightThatOnlyMissesAHost) {
  auto preflight = nlohmann::json::parse(read_file(stored / "preflight.json"));
  auto& context = preflight["context"]["shakedown"];
  const std::string id = context["run_id"];
  context["absent"] = {{{"host", "nodeb"}, {"reason", "ssh: connect to host nodeb: No route to host"}}};
  std::ofstream(scratch / "run/preflight.json") << preflight;
  EXPECT_TRUE(preflight_allows(options, scratch / "run", id)) << "those that are there can be measured";
}

TEST_F(Measure, KeepsWhatTheUserAskedForInEachResult) {
  const auto context = [&] {
    return nlohmann::json::parse(read_file(scratch / "run/hbm.json")).at("context").at("shakedown");
  };
  EXPECT_TRUE(measure_one("exit 0"));
  for (const char* name : {"asked", "absent", "start_attempts"}) EXPECT_FALSE(context().contains(name)) << name;
  options.families = {"hbm"};
  EXPECT_TRUE(measure_one("exit 0"));
  EXPECT_EQ(context().at("asked").at("families"), nlohmann::json{"hbm"});
  for (const char* name : {"absent", "start_attempts"}) EXPECT_FALSE(context().contains(name)) << name;
}

// --- starts, and immediate messages ---

class MeasureStarts : public Measure {
 protected:
  /// Returns why the family has no result; empty if it has one. The script can use `start`, the number of its launch.
  std::string why_not(const std::string& script) {
    const auto counted = (scratch / "starts").string();
    fs::remove(counted);
    program("hbm", "echo >>" + counted + "; start=$(wc -l <" + counted + ")\n" + script);
    try {
      return measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen).value_or("");
    } catch (const CannotRun& error) {
      return error.what();
    }
  }
  std::size_t starts() const { return lines_of(scratch / "starts").value_or(Words{}).size(); }
};

TEST_F(MeasureStarts, AreTriedAgainWhereRanksDieBeforeTheirFirstRow) {
  EXPECT_EQ(why_not("((start == 3)) || exit 9; cat $stored/hbm.json"), "");
  const auto context = nlohmann::json::parse(read_file(scratch / "run/hbm.json"))["context"]["shakedown"];
  EXPECT_EQ(context["start_attempts"], 3);
  const auto log = read_file(scratch / "run/log");
  EXPECT_TRUE(has(log, "launch 1 of 3 (bench_hbm ")) << log;
  EXPECT_TRUE(has(log, "launch 2 of 3") && !has(log, "launch 3 of 3")) << log;
  const auto failed = why_not("exit 9");
  EXPECT_TRUE(has(failed, "3 launches: bench_hbm ") && has(failed, "code 9")) << failed;
  EXPECT_EQ(starts(), 3U);
}

TEST_F(MeasureStarts, ThatFailNameTheRankElseTheCauseThatATableKnows) {
  const auto rank =
      why_not("echo 'noticed that process rank 3 with PID 7 on node u1 exited on signal 9 (Killed).' >&2; exit 9");
  EXPECT_TRUE(has(rank, ": rank 3 on u1: ")) << rank;
  const auto cause = why_not("echo 'ssh: connect to host u1 port 22: No route to host' >&2; exit 9");
  EXPECT_TRUE(has(cause, "ssh: connect to host u1 port 22: No route to host")) << cause;
}

TEST_F(MeasureStarts, AreNotTriedAgainWhereThatWouldChangeNothing) {
  for (const auto* script : {"row; exit 9", "echo '{'; exit 9", "exit 2", "lost nodeb; exit 9"}) {
    const auto why = why_not(script);
    EXPECT_TRUE(why.starts_with("hbm ") && has(why, "bench_hbm")) << script << ": " << why;
    EXPECT_EQ(starts(), 1U) << script;
  }
  launch.rank = 1;
  why_not("exit 9");
  EXPECT_EQ(starts(), 1U) << "the other ranks are started by others";
}

TEST_F(Measure, SaysAtOnceWhatFailsAlready) {
  /// Returns the lines that are printed for this number of rows with errors.
  const auto said_of = [&](std::size_t failing) {
    auto document = nlohmann::json::parse(read_file(stored / "hbm.json"));
    document["context"]["shakedown"]["run_id"] = "r";
    EXPECT_GT(document["benchmarks"].size(), failing);
    std::set<std::string> keys;
    for (auto& row : document["benchmarks"]) {
      const std::string name = row["run_name"];
      if (!keys.contains(name) && keys.size() == failing) continue;
      keys.insert(name);
      row["error_occurred"] = true;
      row["error_message"] = "wrong data: rank 2 (vm): 3 of 4096 comparisons failed";
      row["wrong_ranks"] = {2};
    }
    std::ofstream(scratch / "bad.json") << document.dump();
    program("all",
            "printf '{\"family\": \"hbm\", \"result\": %s}\\n' \"$(cat " + (scratch / "bad.json").string() + ")\"");
    const auto said =
        said_by([&] { measure_together(options, launch, programs, scratch / "run", "r", signals, screen); });
    std::vector<std::string> lines;
    std::istringstream all(said);
    for (std::string line; std::getline(all, line);) {
      if (has(line, "provisional: ")) lines.push_back(line);
    }
    return lines;
  };
  const auto five = said_of(5), six = said_of(6);
  EXPECT_EQ(five.size(), 5U) << joined(five, "\n");
  EXPECT_FALSE(has(five.back(), "of hbm")) << five.back();
  EXPECT_EQ(six.size(), 6U) << joined(six, "\n");
  EXPECT_TRUE(has(six.back(), "1 more ")) << six.back();
}

TEST_F(Measure, SaysOnceRowsBeginThatThePlanTakesLongerThanTheJobHas) {
  const auto said = [&](double seconds_left, const std::string& script) {
    launch.ends =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() + seconds_left;
    program("hbm", script + "\ncat $stored/hbm.json");
    return said_by([&] { measure_family(options, launch, programs, scratch / "run", "r", "hbm", signals, screen); });
  };
  const std::string plan = R"sh(event plan '"key": "hbm", "rows": 2, "seconds": 50'; )sh", row = "row; ",
                    warns = "the plan takes";
  const auto once = said(20, plan + row + row);
  EXPECT_TRUE(has(once, warns) && has(once, " 50 s")) << once;
  EXPECT_EQ(once.find(warns), once.rfind(warns)) << once;
  EXPECT_FALSE(has(said(500, plan + row), warns));
  EXPECT_FALSE(has(said(20, plan), warns)) << "no row has begun";
  EXPECT_FALSE(has(said(20, row), warns)) << "no plan is known";
}

// --- launches of several hosts ---

/// Hosts nodea, nodeb and nodec with a script in place of mpirun. Like Open MPI, the script starts nothing if one of
/// its hosts is down. It records each command line.
class MeasureOnHosts : public Measure {
 protected:
  MeasureOnHosts() {
    const auto mpirun = scratch / "bin/mpirun";
    std::ofstream(mpirun) << "#!/bin/bash\nscratch=" << scratch.string() << R"sh(
echo "$*" >>$scratch/launches
hosts=$(cut -d' ' -f1 $scratch/hosts | tr '\n' ' ')
for ((i = 1; i < $#; i++)); do
  [[ ${!i} != --host ]] || { next=$((i + 1)) && hosts=${!next//,/ }; }
done
for host in $hosts; do
  host=${host%%:*}
  [[ ! -e $scratch/exit.$host ]] || exit $(<$scratch/exit.$host)
  [[ -e $scratch/answer.$host ]] || { echo "ssh: connect to host $host port 22: No route to host" >&2 && exit 1; }
done
for last; do :; done
if [[ $last == discover ]]; then
  for host in $hosts; do cat $scratch/answer.${host%%:*}; done
  exit
fi
while [[ $1 != */bench_* ]]; do shift; done
"$@"
)sh";
    fs::permissions(mpirun, fs::perms::owner_all);
    for (const auto* host : {"nodea", "nodeb", "nodec"}) is_up(host);
    std::ofstream(hosts_file) << "nodea slots=2\nnodeb slots=2\nnodec slots=2\n";
    setenv("PATH", ((scratch / "bin").string() + ":" + path).c_str(), 1);
    setenv("OMPI_MCA_orte_default_hostfile", hosts_file.c_str(), 1);
  }
  ~MeasureOnHosts() override {
    unsetenv("OMPI_MCA_orte_default_hostfile");
    setenv("PATH", path.c_str(), 1);
  }

  void is_up(const std::string& host) const {
    HostAnswer answer;
    answer.host = host;
    answer.boot_id = "boot-of-" + host;
    answer.usable_gpus = 2;
    std::ofstream(scratch / ("answer." + host)) << answer_line(answer) << "\n";
  }
  void is_down(const std::string& host) const { fs::remove(scratch / ("answer." + host)); }
  Words launches() const { return lines_of(scratch / "launches").value_or(Words{}); }
  Launch agreed(const Words& lost = {}) { return agreed_launch(options, process_environment(), signals, lost); }

  const fs::path hosts_file = scratch / "hosts";
  const std::string path = std::getenv("PATH");
};

TEST_F(MeasureOnHosts, AsksAllHostsAtOnceWhereAllAreThere) {
  const auto all = agreed();
  EXPECT_EQ(all.present, (Words{"nodea", "nodeb", "nodec"}));
  EXPECT_EQ(all.boots, (Words{"nodea boot-of-nodea", "nodeb boot-of-nodeb", "nodec boot-of-nodec"}));
  EXPECT_EQ(all.absent, Words{});
  EXPECT_EQ(launches().size(), 1U);
}

TEST_F(MeasureOnHosts, LeavesOutAHostThatDoesNotAnswerAndMissesIt) {
  is_down("nodeb");
  Launch left;
  const auto said = said_by([&] { left = agreed(); });
  EXPECT_EQ(left.hosts, (Words{"nodea", "nodeb", "nodec"}));
  EXPECT_EQ(left.absent, Words{"nodeb"});
  EXPECT_EQ(left.present, (Words{"nodea", "nodec"}));
  EXPECT_EQ(left.boots.size(), 2U);
  EXPECT_EQ(left.host_count, 3) << "that were promised";
  EXPECT_TRUE(has(all_expected(options, left), "hosts=3"));
  EXPECT_TRUE(has(left.reasons["nodeb"], "nodeb port 22: No route to host"));
  EXPECT_TRUE(has(said, "host nodeb does not answer") && has(said, left.reasons["nodeb"])) << said;
  EXPECT_FALSE(has(said, "host nodea")) << said;
  EXPECT_EQ(launches().size(), 4U) << "all at once, and then each alone";
}

TEST_F(MeasureOnHosts, LeavesOutAHostWhoseDriverHangs) {
  const auto hangs = [&](const std::string& host) {
    HostAnswer answer;
    answer.host = host;
    answer.driver_hangs = "nvmlInit_v2, 30 s";
    std::ofstream(scratch / ("answer." + host)) << answer_line(answer) << "\n";
  };
  hangs("nodeb");
  Launch left;
  const auto said = said_by([&] { left = agreed(); });
  EXPECT_EQ(left.present, (Words{"nodea", "nodec"}));
  EXPECT_EQ(left.absent, Words{"nodeb"});
  EXPECT_EQ(left.hung_drivers, Words{"nodeb"});
  EXPECT_TRUE(has(said, "nvmlInit_v2, 30 s")) << said;
  for (const auto* host : {"nodea", "nodec"}) hangs(host);
  EXPECT_THROW(agreed(), DriverHangs) << "no driver answers";
}

TEST_F(MeasureOnHosts, AsksNoHostThatIsKnownToBeLost) {
  is_down("nodeb");
  const auto said = said_by([&] {
    const auto left = agreed({"nodeb"});
    EXPECT_EQ(left.absent, Words{"nodeb"});
    EXPECT_EQ(left.present, (Words{"nodea", "nodec"}));
  });
  EXPECT_EQ(said, "") << "it has been said before";
  ASSERT_EQ(launches().size(), 1U);
  EXPECT_TRUE(has(launches().front(), "--host nodea:2,nodec:2"));
  is_down("nodea");
  const auto again = said_by([&] { EXPECT_EQ(agreed({"nodeb"}).present, Words{"nodec"}); });
  EXPECT_TRUE(has(again, "host nodea") && !has(again, "nodeb")) << again;
}

TEST_F(MeasureOnHosts, SaysWhyNoHostHasAnswered) {
  const auto complaint = [&]() -> std::string {
    try {
      agreed();
    } catch (const CannotRun& error) {
      return error.what();
    }
    return "some have answered";
  };
  for (const auto* host : {"nodea", "nodeb", "nodec"}) is_down(host);
  const auto three = complaint();
  EXPECT_TRUE(has(three, "no host of nodea, nodeb, nodec has answered: ssh: connect to host nodea")) << three;
  std::ofstream(hosts_file) << "nodea slots=2\n";
  EXPECT_TRUE(has(complaint(), "host nodea has")) << complaint();
}

TEST_F(MeasureOnHosts, SaysThreeCausesOnceEachAndNamesEightHosts) {
  const auto complaint = [&](int hosts, int causes) -> std::string {
    std::ofstream file(hosts_file);
    for (int i = 0; i < hosts; ++i) {
      file << "u" << i << " slots=2\n";
      std::ofstream(scratch / ("exit.u" + std::to_string(i))) << 11 + i % causes;
    }
    file.close();
    try {
      agreed();
    } catch (const CannotRun& error) {
      return error.what();
    }
    return "some have answered";
  };
  const std::string ended = "mpirun ended with exit code ";
  const auto unanswered = [](const std::string& hosts) { return "no host of " + hosts + " has answered: "; };
  EXPECT_EQ(complaint(8, 1), unanswered("u0, u1, u2, u3, u4, u5, u6, u7") + ended + "11");
  EXPECT_EQ(complaint(9, 3), unanswered("u0, u1, u2, u3, u4, u5, u6, u7 and 1 more") + "u0, u3, u6: " + ended +
                                 "11; u1, u4, u7: " + ended + "12; u2, u5, u8: " + ended + "13");
  EXPECT_EQ(complaint(4, 4), unanswered("u0, u1, u2, u3") + "u0: " + ended + "11; u1: " + ended + "12; u2: " + ended +
                                 "13; and 1 other cause");
}

TEST_F(MeasureOnHosts, SaysOnceWhichPartOfAMaskIsIgnoredAndRefusesOneThatLeavesNothing) {
  const auto answers = [&](const std::string& host, int gpus) {
    HostAnswer answer;
    answer.host = host;
    answer.usable_gpus = gpus;
    answer.mask = "CUDA_VISIBLE_DEVICES=1,9";
    answer.mask_ignored = "'9' names no GPU";
    std::ofstream(scratch / ("answer." + host)) << answer_line(answer) << "\n";
  };
  for (const auto* host : {"nodeb", "nodec"}) answers(host, 1);
  const std::string said = "CUDA_VISIBLE_DEVICES=1,9 leaves 1 GPU: '9' names no GPU; correct or unset it\n";
  EXPECT_EQ(said_by([&] { agreed(); }), "shakedown: nodeb: " + said);
  answers("nodea", 0);
  try {
    agreed();
    ADD_FAILURE() << "no GPU is left";
  } catch (const CannotRun& error) {
    EXPECT_STREQ(error.what(), "nodea: CUDA_VISIBLE_DEVICES=1,9 leaves 0 GPUs: '9' names no GPU; correct or unset it");
  }
}

TEST_F(MeasureOnHosts, KeepsAllToTheInterfaceThatIsWanted) {
  const auto of_mpi = [](const Launch& one) {
    Words values;
    for (const auto& [name, value] : one.variables) {
      if (has(name, "tcp_if_include")) values.push_back(name + "=" + value);
    }
    return values;
  };
  EXPECT_EQ(of_mpi(agreed()), Words{});
  options.interface = "eth7";
  const auto chosen = agreed();
  EXPECT_EQ(of_mpi(chosen), (Words{"OMPI_MCA_btl_tcp_if_include=eth7", "OMPI_MCA_oob_tcp_if_include=eth7"}));
  const auto command = [&] { return joined(job_of_ranks(options, chosen, {"program"}).command, " "); };
  EXPECT_TRUE(has(command(), "-x SHAKEDOWN_INTERFACE=eth7") && has(command(), "-x NCCL_SOCKET_IFNAME==eth7"));
  setenv("NCCL_SOCKET_IFNAME", "eth8", 1);
  EXPECT_FALSE(has(command(), "NCCL_SOCKET_IFNAME")) << "the user's counts";
  unsetenv("NCCL_SOCKET_IFNAME");
}

TEST(PromisedHosts, AreFoundByTheNamesOfTheirNodes) {
  Launch launch;
  launch.hosts = {"pod-0", "pod-1", "nodec"};
  launch.pods = {{"pod-0", "gpu-7"}, {"pod-1", "gpu-8"}};
  EXPECT_EQ(promised_hosts(launch, {"gpu-8"}), Words{"pod-1"});
  EXPECT_EQ(promised_hosts(launch, {"pod-0", "nodec.cluster", "stranger"}), (Words{"pod-0", "nodec"}));
}

// --- a whole run ---

/// The end of measure_families.
struct RunEnd {
  std::optional<std::string> missed;
  Launch launch;
  std::string said;
};

/// Programs that print the result of a family: with `result hbm` or, for the program of all families, with `give hbm`.
class MeasureFamilies : public MeasureOnHosts {
 protected:
  RunEnd measure() {
    RunEnd all;
    fs::remove_all(scratch / "run");
    all.said = said_by([&] {
      all.launch = agreed();
      const auto run = RunFolder::take(scratch / "run", "r");
      all.missed = measure_families(options, all.launch, programs, run, signals);
    });
    return all;
  }
  void measures_all(const std::string& script) const { program("all", helpers + script); }
  void measures(const std::string& family, const std::string& script) const { program(family, helpers + script); }
  nlohmann::json context_of(const std::string& family) const {
    return nlohmann::json::parse(read_file(scratch / "run" / (family + ".json"))).at("context").at("shakedown");
  }

  const std::string helpers = "pinned=" + (source / "tests/data/preflight/h200-sxm-4ranks-pinned.json").string() + R"sh(
flags=" $* "
with() { [[ $flags == *" $1 "* ]]; }
result() { sed 's/"run_id": *"[^"]*"/"run_id": "r"/' ${2:-$stored/$1.json}; }
give() { printf '{"family": "%s", "result": %s}\n' $1 "$(result $1 $2 | tr '\n' ' ')"; }
)sh";
};

TEST_F(MeasureFamilies, GoesOnWithoutAHostThatTheOthersName) {
  measures_all("if with --families=hbm,p2p; then give hbm; rm " + (scratch / "answer.nodeb").string() +
               "; lost nodeb; exit 3; fi\n"
               "with --families=p2p && with --crashed=p2p && with --lost=nodeb && give p2p\n");
  const auto run = measure();
  EXPECT_EQ(run.missed, std::nullopt) << run.said;
  EXPECT_TRUE(exists("hbm.json") && exists("p2p.json")) << run.said;
  EXPECT_TRUE(has(run.said, "[1/2] hbm: ok, ") && has(run.said, "[2/2] p2p: ok, ")) << run.said;
  EXPECT_EQ(run.launch.absent, Words{"nodeb"});
  EXPECT_EQ(run.launch.lost, Words{"nodeb"});
  EXPECT_TRUE(has(run.said, "host nodeb was reported lost")) << run.said;
  EXPECT_FALSE(has(run.said, "measured alone")) << run.said;
  EXPECT_TRUE(has(launches().back(), "--host nodea:2,nodec:2")) << launches().back();
  EXPECT_FALSE(context_of("p2p").contains("absent")) << "it was there when measuring began";
}

TEST_F(MeasureFamilies, GoesOnWithoutALostHostThatAnswersAndWithASingleHost) {
  std::ofstream(hosts_file) << "nodea slots=2\nnodeb slots=2\n";
  measures_all(
      "if with --families=hbm,p2p; then give hbm; lost nodeb; exit 3; fi\n"
      "with --families=p2p && with --lost=nodeb && give p2p\n");
  const auto run = measure();
  EXPECT_EQ(run.missed, std::nullopt) << run.said;
  EXPECT_TRUE(exists("p2p.json")) << run.said;
  EXPECT_EQ(run.launch.lost, Words{"nodeb"});
  EXPECT_EQ(run.launch.present, Words{"nodea"});
  EXPECT_TRUE(has(launches().back(), "--host nodea:2 ")) << launches().back();
}

TEST_F(MeasureFamilies, StartsAtMostThreeTimesWithFewerHosts) {
  measures_all("row; for host in nodea nodeb nodec; do [[ ! -e " + scratch.string() +
               "/answer.$host ]] || break; done; rm " + scratch.string() + "/answer.$host; lost $host; exit 3");
  for (const auto* host : {"noded", "nodee"}) is_up(host);
  std::ofstream(hosts_file, std::ios::app) << "noded slots=2\nnodee slots=2\n";
  measures("hbm", "result hbm");
  measures("p2p", "row; exit 7");
  const auto run = measure();
  EXPECT_EQ(run.launch.lost, (Words{"nodea", "nodeb"})) << run.said;
  EXPECT_TRUE(has(run.said, "the missing families are measured separately")) << run.said;
}

TEST_F(MeasureFamilies, MeasuresAloneWhereEveryHostIsNamed) {
  measures_all("give hbm; lost nodea nodeb nodec; exit 3");
  measures("p2p", "result p2p");
  const auto run = measure();
  EXPECT_EQ(run.missed, std::nullopt) << run.said;
  EXPECT_EQ(run.launch.lost, Words{}) << "none would be left";
  EXPECT_TRUE(exists("p2p.json"));
}

TEST_F(MeasureFamilies, KeepsWhichHostDidNotStartAndWhy) {
  is_down("nodec");
  measures_all("give hbm; give p2p");
  EXPECT_EQ(measure().missed, std::nullopt);
  for (const auto* family : {"hbm", "p2p"}) {
    const auto absent = context_of(family).at("absent");
    ASSERT_EQ(absent.size(), 1U);
    EXPECT_EQ(absent[0].at("host"), "nodec");
    EXPECT_TRUE(has(absent[0].dump(), "host nodec")) << absent;
    EXPECT_TRUE(absent[0].at("driver_hangs").is_null()) << "that is not why";
    EXPECT_TRUE(absent[0].at("lost_bytes").is_null()) << "nor is that";
    EXPECT_FALSE(context_of(family).contains("start_attempts")) << "the first one went well";
    EXPECT_FALSE(context_of(family).contains("asked")) << "all was";
  }
}

TEST_F(MeasureFamilies, HaveTheirResultsWithoutEventsToo) {
  const std::string missed = "no events of the ranks arrive";
  measures_all("give hbm; exit 3");
  measures("p2p", "result p2p");
  const auto without = measure();
  EXPECT_EQ(without.missed, std::nullopt);
  EXPECT_TRUE(exists("hbm.json") && exists("p2p.json"));
  EXPECT_NE(without.said.find(missed), std::string::npos) << without.said;
  EXPECT_EQ(without.said.find(missed), without.said.rfind(missed)) << "once: " << without.said;
  measures_all("row; give hbm; give p2p");
  EXPECT_FALSE(has(measure().said, missed));
}

TEST_F(MeasureFamilies, MeasuresAloneWhatIsMissing) {
  measures_all("give hbm; exit 3");
  measures("p2p", "result p2p");
  const auto good = measure();
  EXPECT_EQ(good.missed, std::nullopt);
  EXPECT_TRUE(exists("p2p.json"));
  EXPECT_TRUE(has(good.said, "bench_all ended in p2p: ")) << good.said;
  EXPECT_TRUE(has(good.said, "separately")) << good.said;
  EXPECT_FALSE(has(good.said, "lost")) << good.said;
  EXPECT_FALSE(has(good.said, "provisional")) << good.said;
  measures("p2p", "row; exit 7");
  EXPECT_EQ(measure().missed, "p2p wrote no result: mpirun ended with exit code 7");
}

TEST_F(MeasureFamilies, ByTheirOwnProgramsWhereThereIsNoneOfAll) {
  measures("hbm", "row; exit 7");
  measures("p2p", "result p2p");
  const auto run = measure();
  EXPECT_TRUE(has(run.missed.value_or(""), "hbm ") && has(run.missed.value_or(""), "code 7")) << "the first reason";
  EXPECT_TRUE(exists("p2p.json"));
  EXPECT_FALSE(has(run.said, "measured alone")) << run.said;
}

TEST_F(MeasureFamilies, EndsWithAPreflightThatFails) {
  programs.families = {"preflight", "hbm"};
  const std::string failing = "result preflight $pinned", dying = "row; exit 7", well = "result preflight";
  measures("hbm", "result hbm");
  const auto with_preflight = [&](const std::string& script, bool despite) {
    measures("preflight", script);
    options.despite_preflight = despite;
    return measure();
  };
  const auto failed = with_preflight(failing, false);
  EXPECT_EQ(failed.missed, std::nullopt) << "it is not missing but forbidden";
  EXPECT_FALSE(exists("hbm.json"));
  EXPECT_TRUE(has(failed.said, "pre-flight failed, so nothing else is measured")) << failed.said;
  EXPECT_EQ(with_preflight(failing, true).missed, std::nullopt);
  EXPECT_TRUE(exists("hbm.json"));
  EXPECT_TRUE(has(with_preflight(dying, false).missed.value_or(""), "preflight "));
  EXPECT_FALSE(exists("hbm.json"));
  EXPECT_TRUE(has(with_preflight(dying, true).missed.value_or(""), "preflight "));
  EXPECT_TRUE(exists("hbm.json"));
  with_preflight(well, false);
  EXPECT_TRUE(exists("hbm.json"));
}

TEST_F(MeasureFamilies, EndsTheProgramOfAllWithAPreflightThatFails) {
  programs.families = {"preflight", "hbm"};
  measures_all("give preflight $pinned; give hbm; sleep 100");
  const auto run = measure();
  EXPECT_EQ(run.missed, std::nullopt);
  EXPECT_TRUE(exists("preflight.json"));
  EXPECT_FALSE(exists("hbm.json"));
}

TEST_F(Measure, AsARankThatOthersStartedLeavesTheVerdictToRankZero) {
  launch.rank = 1;
  launch.ranks = 2;
  programs.families = {"hbm"};
  const auto as_rank = [&](const std::string& script) -> std::string {
    program("hbm", script);
    try {
      return std::to_string(measure_as_rank(options, launch, programs, signals));
    } catch (const CannotRun& error) {
      return error.what();
    }
  };
  EXPECT_EQ(as_rank("[[ \" $* \" == *' --benchmark_format=json '* ]]"), "0");
  EXPECT_TRUE(has(as_rank("exit 3"), "rank 1 of 2: bench_hbm ") && has(as_rank("exit 3"), "code 3"));
  programs.families = {"hbm", "p2p"};
  EXPECT_TRUE(as_rank("").starts_with("bench_all "));
  program("all", "[[ \" $* \" == *' --families=hbm,p2p '* ]]");
  EXPECT_EQ(as_rank("exit 3"), "0");
  programs.families = {"hbm"};
  EXPECT_EQ(as_rank("exit 3").rfind("rank 1 of 2: bench_hbm ended", 0), 0u) << "one family has its own program";
  EXPECT_EQ(said_by([&] { as_rank(""); }), "shakedown: rank 1 of 2 has measured; rank 0 has the verdict\n");
}

}  // namespace
}  // namespace shakedown::measure_test
