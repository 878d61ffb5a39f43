#include "launch/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/roll.hpp"
#include "node/dcgm.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Seconds = std::chrono::duration<double>;

const std::string resident = "all";  // the program that measures all families in one process per rank

/// What the ranks say of the end that they are coming to (fixtures/watchdog.cpp).
bool announces_end(std::string_view line) {
  return line.rfind("shakedown: timeout:", 0) == 0 || line.find("; the job cannot go on") != std::string_view::npos;
}

/// The hosts that the ranks name when they end a job (fixtures/watchdog.cpp); nothing for another line.
std::optional<Words> lost_hosts_in(std::string_view line) {
  constexpr std::string_view start = "shakedown-lost: ";
  if (line.rfind(start, 0) != 0) return std::nullopt;
  std::istringstream words(std::string(line.substr(start.size())));
  return Words(std::istream_iterator<std::string>(words), {});
}

/// What somebody wants to be read at once.
bool is_for_people(std::string_view line) { return line.rfind("shakedown:", 0) == 0; }

void stop_if_told(Signals& signals) {
  if (const auto& signal = signals.taken()) throw CannotRun("ended by " + *signal);
}

bool on_path(const Environment& environment, const std::string& program) {
  std::istringstream folders(environment("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

bool is_one_of(const std::string& host, const Words& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const auto& other) { return same_host_name(host, other); });
}

/// What a command prints, within a few seconds; empty if it cannot be run.
std::string output_of(const Words& command, Signals& signals) {
  std::string text;
  Job job{command};
  job.out = job.error = [&](std::string_view line) { text.append(line).append("\n"); };
  job.limit = std::chrono::seconds(20);
  run_jobs({job}, signals);
  return text;
}

Words with(const Words& prefix, const Words& command) {
  Words all = prefix;
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

std::string boot_of(const HostAnswer& answer) { return answer.host + " " + answer.boot_id.value_or(""); }

/// A job that the hosts answer, and what else was said.
struct RollCall {
  std::vector<HostAnswer> answers;
  std::string said;  // the last line of standard error
};

Job roll_call(const FrontDoor& door, const Launch& launch, const Words& prefix, RollCall& call) {
  Job job{with(prefix, {fs::read_symlink("/proc/self/exe"), "roll"}), launch.variables};
  job.out = [&call](std::string_view line) {
    if (auto answer = answer_in(line)) call.answers.push_back(std::move(*answer));
  };
  job.error = [&call](std::string_view line) {
    if (!line.empty()) call.said = one_line(std::string(line));
  };
  job.limit = Seconds(door.startup_timeout);
  return job;
}

/// mpirun waits for all hosts before it starts anything: who does not come is found by asking each alone.
Words silent_hosts(const FrontDoor& door, const Launch& launch, const Words& asked, Signals& signals) {
  constexpr std::size_t at_once = 32;
  Words alone = launch.roll;  // without the list of those who are left, to which mpirun would add
  if (const auto list = std::find(alone.begin(), alone.end(), "--host"); list != alone.end()) {
    alone.erase(list, list + 2);
  }
  FrontDoor patience = door;
  patience.startup_timeout = std::min(door.startup_timeout, 20.0);
  Words silent;
  for (std::size_t begin = 0; begin < asked.size(); begin += at_once) {
    const Words hosts(asked.begin() + static_cast<std::ptrdiff_t>(begin),
                      asked.begin() + static_cast<std::ptrdiff_t>(std::min(begin + at_once, asked.size())));
    std::vector<RollCall> calls(hosts.size());
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      jobs.push_back(roll_call(patience, launch, with(alone, {"--host", hosts[i]}), calls[i]));
    }
    run_jobs(jobs, signals);
    stop_if_told(signals);
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (calls[i].answers.empty()) silent.push_back(hosts[i]);
    }
  }
  return silent;
}

LaunchSite site_of(const Environment& environment, Signals& signals) {
  LaunchSite site;
  site.environment = environment;
  if (const auto file = host_file_of(environment)) {
    std::ifstream in(*file);
    if (in) site.host_file = std::string(std::istreambuf_iterator<char>(in), {});
  }
  const bool slurm = environment("SLURM_JOB_ID").has_value() && !environment("SHAKEDOWN_LAUNCH");
  if (slurm && on_path(environment, "srun")) site.srun_plugins = output_of({"srun", "--mpi=list"}, signals);
  site.mpirun = on_path(environment, "mpirun");
  site.ssh = on_path(environment, "ssh") || on_path(environment, "rsh");
  site.root = geteuid() == 0;
  return site;
}

/// What fails already of a family that has arrived: said at once, since the rest takes a while.
void show_provisional(const FrontDoor& door, const fs::path& folder, const std::string& id, const std::string& family,
                      Screen& screen) {
  Arguments arguments = door.judge;
  arguments.results = {folder / (family + ".json")};
  arguments.judge.family = family;
  arguments.judge.run_id = id;
  const auto verdict = judge(arguments).verdict;
  screen.arrived(family, verdict);
  screen.clear();
  constexpr std::size_t most = 5;
  std::size_t failing = 0;
  for (const auto& finding : verdict.findings) {
    if (makes_fail(finding, family) && ++failing <= most) say("provisional: " + printable(short_text(finding)));
  }
  if (failing > most) say("provisional: and " + std::to_string(failing - most) + " more of " + family);
}

/// The JSON document among what rank 0 has printed; empty if there is no whole one.
std::string document_in(const std::string& text) {
  const auto begin = text.rfind("{\n", 0) == 0 ? 0 : text.find("\n{\n");
  if (begin == std::string::npos) return "";
  auto document = text.substr(begin == 0 ? 0 : begin + 1);
  document.resize(document.rfind('}') + 1);
  return nlohmann::json::accept(document) ? document + "\n" : "";
}

/// A benchmark program on all ranks: its log, what people shall see of it, and the limits of its silence.
class Program {
 public:
  Program(const FrontDoor& door, const Launch& launch, const Programs& programs, const fs::path& folder,
          const std::string& id, const std::string& name, const Words& flags, Screen& screen)
      : screen_(screen), name_("bench_" + name), log_(folder / "log", std::ios::app) {
    Words command{programs.of(name), "--tier=" + door.tier, "--timeout=" + number_text(door.timeout),
                  "--startup-timeout=" + number_text(door.startup_timeout)};
    command.insert(command.end(), flags.begin(), flags.end());
    if (!door.shared_folder.empty() && (name == "preflight" || name == resident)) {
      command.push_back("--shared-folder=" + door.shared_folder);
    }
    const bool dcgm = door.dcgm > 0 && (name == "preflight" || name == resident);
    if (dcgm) command.push_back("--dcgm=" + std::to_string(door.dcgm));
    if (door.judge.site && (name == "pairs" || name == resident)) {
      command.push_back("--site=" + fs::absolute(*door.judge.site).string());
    }
    if (door.retune) command.push_back("--retune");
    // Whoever judges what is measured now shall know what has died before, and with whom.
    if (const auto crashed = lines_of(folder / "crashed")) {
      command.push_back("--crashed=" + joined(*crashed, ","));
      if (!launch.lost.empty()) command.push_back("--lost=" + joined(launch.lost, ","));
    }
    if (const auto expected = all_expected(door, launch); !expected.empty()) command.push_back("--expect=" + expected);
    command.push_back("--run-id=" + id);
    // Beside the folders of runs, so that the next run has what this one tunes.
    const char* const choices = std::getenv("SHAKEDOWN_CHOICES");
    job = job_of_ranks(door, launch, command,
                       {{"SHAKEDOWN_CHOICES", choices != nullptr ? choices : folder.parent_path() / "choices"}});
    job.error = [this](std::string_view line) {
      log_ << line << std::endl;
      if (const auto hosts = lost_hosts_in(line)) lost.insert(lost.end(), hosts->begin(), hosts->end());
      screen_.heard(line);
      if (!is_for_people(line)) return;
      screen_.clear();
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
    job.tick = [this] { screen_.tick(); };
    job.announces_end = announces_end;
    // The ranks' own limits speak first: the start, one benchmark, and a minute.
    job.silence = Seconds(door.startup_timeout + door.timeout + 60 + (dcgm ? dcgm_limit(door.dcgm, door.timeout) : 0));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Ending run(Signals& signals) {
    auto ending = run_jobs({job}, signals).front();
    stop_if_told(signals);
    return ending;
  }
  /// Says how it ended, and keeps what it printed.
  void complain(const Ending& ending, const std::string& what, const std::string& printed = "") {
    const auto line = name_ + " " + what + ": " + ending.text(job.command.front());
    log_ << line << "\n" << printed << std::flush;
    screen_.clear();
    say(line);
  }

  Job job;
  Words lost;  // hosts that its ranks named

 private:
  Screen& screen_;
  std::string name_;
  std::ofstream log_;
};

fs::path file_of(const fs::path& folder, const std::string& family) { return folder / (family + ".json"); }

Words missing_in(const fs::path& folder, const Words& families) {
  Words missing;
  std::copy_if(families.begin(), families.end(), std::back_inserter(missing),
               [&](const auto& family) { return !fs::exists(file_of(folder, family)); });
  return missing;
}

/// {"family": "gemm", "result": {...}}: the family and its document, as they stand there; nothing for another line, or
/// for one that was cut off.
std::optional<std::pair<std::string, std::string>> streamed(std::string_view line) {
  constexpr std::string_view start = "{\"family\": \"", middle = "\", \"result\": ";
  const auto begin = line.find(start);  // a launcher may put the rank before it
  const auto end = line.find(middle, begin);
  const auto last = line.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || last <= end) return std::nullopt;
  const auto family = line.substr(begin + start.size(), end - begin - start.size());
  const auto document = line.substr(end + middle.size(), last - end - middle.size());
  if (!nlohmann::json::accept(document)) return std::nullopt;
  return std::pair(std::string(family), std::string(document) + "\n");
}

}  // namespace

Words promised_hosts(const Launch& launch, const Words& named) {
  Words all = named, found;
  for (const auto& [pod, node] : launch.pods) {
    if (is_one_of(node, named)) all.push_back(pod);
  }
  std::copy_if(launch.hosts.begin(), launch.hosts.end(), std::back_inserter(found),
               [&](const auto& host) { return is_one_of(host, all); });
  return found;
}

void say(const std::string& line) { std::fprintf(stderr, "shakedown: %s\n", line.c_str()); }

Programs find_programs(const std::vector<std::string>& wanted) {
  Programs programs;
  const auto list = lines_of(beside_program("share/shakedown/families"));
  std::error_code error;
  for (const auto* folder : {"bench", "bin"}) {
    programs.folder = beside_program(folder);
    if (list && fs::exists(programs.of(list->front()), error)) break;
    programs.folder.clear();
  }
  if (programs.folder.empty()) {
    throw CannotRun("there are no benchmark programs beside " + beside_program("").string() +
                    ": build them (ci/build), or install them all");
  }
  for (const auto& family : wanted) {
    if (std::find(list->begin(), list->end(), family) == list->end()) {
      throw InputError("--families: \"" + family + "\" is none of " + joined(*list));
    }
  }
  std::copy_if(list->begin(), list->end(), std::back_inserter(programs.families), [&](const auto& family) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), family) != wanted.end();
  });
  return programs;
}

Launch agreed_launch(const FrontDoor& door, const Environment& environment, Signals& signals, const Words& lost) {
  std::string why;
  auto launch = launch_that_answers(door, environment, signals, lost, why);
  if (!launch) throw CannotRun(why);
  return std::move(*launch);
}

std::optional<Launch> launch_that_answers(const FrontDoor& door, const Environment& environment, Signals& signals,
                                          const Words& lost, std::string& why) {
  const auto here = answer_of_this_host(environment);
  auto site = site_of(environment, signals);
  site.gpus = here.usable_gpus;
  site.absent = lost;
  const auto chosen = [&] {
    auto launch = choose_launch(site);
    if (door.interface.empty()) return launch;
    for (const auto* of_mpi : {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"}) {
      launch.variables.emplace_back(of_mpi, door.interface);
    }
    return launch;
  };
  auto launch = chosen();
  if (!launch.note.empty()) say(launch.note);
  if (launch.roll.empty()) {
    launch.boots = {boot_of(here)};
    return launch;
  }

  RollCall call;
  const auto ending = run_jobs({roll_call(door, launch, launch.roll, call)}, signals).front();
  stop_if_told(signals);
  const auto what = ending.text(launch.roll.front()) + (call.said.empty() ? "" : " (" + call.said + ")");
  auto hosts = distinct_hosts(call.answers);
  if (hosts.empty() && launch.host_count > 1) {
    Words asked;
    std::copy_if(launch.hosts.begin(), launch.hosts.end(), std::back_inserter(asked),
                 [&](const auto& host) { return !is_one_of(host, lost); });
    const auto silent = silent_hosts(door, launch, asked, signals);
    site.absent.insert(site.absent.end(), silent.begin(), silent.end());
    if (silent.size() == asked.size() || silent.empty()) {
      why = "no host of " + joined(launch.hosts) + " has answered: " + what;
      return std::nullopt;
    }
  } else if (hosts.empty()) {
    why = "no host has answered: " + what;
    return std::nullopt;
  } else {
    site.absent = absent_hosts(launch.hosts, hosts);
  }
  for (const auto& host : site.absent) {
    if (!is_one_of(host, lost)) say("host " + host + " does not answer: it is left out, and missed");
  }
  int most = 0;
  for (const auto& host : hosts) most = std::max(most, host.usable_gpus);
  if (most > 0) site.gpus = most;  // a launcher of its own may have none
  const int promised = launch.host_count;
  launch = chosen();
  launch.host_count = std::max(promised, static_cast<int>(hosts.size()));
  for (const auto& host : hosts) launch.present.push_back(host.name());
  for (const auto& host : hosts) {
    launch.boots.push_back(boot_of(host));
    if (host.node) launch.pods.emplace_back(host.host, *host.node);
  }
  launch.absent = site.absent;
  return launch;
}

Job job_of_ranks(const FrontDoor& door, const Launch& launch, const Words& command, Variables variables) {
  Job job{launch.prefix, launch.variables};
  if (!door.nccl.empty()) {
    variables.emplace_back("LD_PRELOAD", door.nccl);  // comes before what a program was linked with
  }
  if (!door.interface.empty()) {
    variables.emplace_back("SHAKEDOWN_INTERFACE", door.interface);
    if (std::getenv("NCCL_SOCKET_IFNAME") == nullptr) {
      variables.emplace_back("NCCL_SOCKET_IFNAME", "=" + door.interface);
    }
  }
  const bool own_mpirun = !launch.prefix.empty() && launch.prefix.front() == "mpirun";
  for (const auto& [name, value] : variables) {
    if (own_mpirun) {
      job.command = with(job.command, {"-x", name + "=" + value});  // it hands on its own variables only
    } else {
      job.variables.emplace_back(name, value);
    }
  }
  job.command = with(job.command, command);
  return job;
}

std::string all_expected(const FrontDoor& door, const Launch& launch) {
  Words expected{launch.expected(), door.expected};
  std::erase(expected, "");
  return joined(expected, ",");
}

bool measure_family(const FrontDoor& door, const Launch& launch, const Programs& programs, const fs::path& folder,
                    const std::string& id, const std::string& family, Signals& signals, Screen& screen) {
  Program program(door, launch, programs, folder, id, family, {"--benchmark_format=json"}, screen);
  std::string printed;
  program.job.out = [&printed](std::string_view line) { printed.append(line).append("\n"); };
  const auto ending = program.run(signals);
  const auto document = document_in(printed);
  if (document.empty()) {
    program.complain(ending, "wrote no result", printed);
    return false;
  }
  replace_file(file_of(folder, family), document);
  return true;
}

Together measure_together(const FrontDoor& door, const Launch& launch, const Programs& programs, const fs::path& folder,
                          const std::string& id, Signals& signals, Screen& screen) {
  if (programs.families.size() < 2 || !fs::exists(programs.of(resident))) return {true, false, {}};
  Program program(door, launch, programs, folder, id, resident,
                  {"--stream", "--families=" + joined(missing_in(folder, programs.families), ",")}, screen);
  bool closed = false;
  program.job.out = [&](std::string_view line) {
    const auto result = streamed(line);
    if (closed || !result || fs::path(result->first).filename() != result->first) return;
    replace_file(file_of(folder, result->first), result->second);
    show_provisional(door, folder, id, result->first, screen);
    if (result->first == "preflight") closed = !preflight_allows(door, folder, id);
  };
  program.job.enough = [&closed] { return closed ? "pre-flight failed" : ""; };
  const auto ending = program.run(signals);
  const auto missing = missing_in(folder, programs.families);
  const bool well = ending.told.empty() && (ending.code == 0 || ending.code == 1);  // 1: with error rows
  // Of what it left out though it ended well there is nothing to measure here: pairs of hosts on one host.
  if (closed || missing.empty() || well) return {};
  std::ofstream(folder / "crashed", std::ios::app) << missing.front() << "\n";
  program.complain(ending, "ended in " + missing.front());
  return {true, true, program.lost};
}

bool preflight_allows(const FrontDoor& door, const fs::path& folder, const std::string& id) {
  if (door.despite_preflight) return true;
  Arguments arguments = door.judge;
  arguments.results = {folder / "preflight.json"};
  arguments.judge.family = "preflight";
  arguments.judge.run_id = id;
  const int code = judge(arguments).verdict.exit_code;
  if (code == 0 || code == 3) return true;  // well, or a kind of machine that no profile knows
  say("pre-flight failed, so nothing else is measured; --despite-preflight (SHAKEDOWN_DESPITE_PREFLIGHT=1) measures "
      "all "
      "the same");
  return false;
}

namespace {

/// How what is missing is started on the hosts that are left: without those that the ranks named or that do not answer
/// any more. Nothing: there is one host, all are still there, or none would be left.
std::optional<Launch> without_lost(const FrontDoor& door, const Launch& launch, const Words& named, Signals& signals) {
  if (launch.hosts.size() < 2) return std::nullopt;
  Words lost = launch.absent;
  for (const auto& host : promised_hosts(launch, named)) {
    if (is_one_of(host, lost)) continue;
    say("host " + host + " was named by the others: what is missing is measured without it");
    lost.push_back(host);
  }
  if (lost.size() >= launch.hosts.size()) return std::nullopt;
  auto left = agreed_launch(door, process_environment(), signals, lost);
  if (left.absent.size() == launch.absent.size()) return std::nullopt;
  left.lost = launch.lost;
  std::copy_if(left.absent.begin(), left.absent.end(), std::back_inserter(left.lost),
               [&](const auto& host) { return !is_one_of(host, launch.absent); });
  return left;
}

}  // namespace

void measure_families(const FrontDoor& door, Launch& launch, const Programs& programs, const RunFolder& run,
                      Signals& signals) {
  constexpr int most_launches = 3;
  Screen screen(programs.families);
  for (int launches = 1;; ++launches) {
    const auto together = measure_together(door, launch, programs, run.path(), run.id(), signals, screen);
    if (!together.something_is_missing) return;
    screen.clear();
    const auto left =
        together.died && launches < most_launches ? without_lost(door, launch, together.lost, signals) : std::nullopt;
    if (!left && together.died) say("what is missing is measured alone");
    if (!left) break;
    launch = *left;
  }
  for (const auto& family : missing_in(run.path(), programs.families)) {
    const bool there = measure_family(door, launch, programs, run.path(), run.id(), family, signals, screen);
    if (there) show_provisional(door, run.path(), run.id(), family, screen);
    if (family != "preflight") continue;
    if (there ? !preflight_allows(door, run.path(), run.id()) : !door.despite_preflight) return;
  }
}

}  // namespace shakedown
