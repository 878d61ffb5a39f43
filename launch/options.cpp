#include "launch/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "base/files.hpp"
#include "base/timed_call.hpp"
#include "launch/nearest_word.hpp"

namespace shakedown {
namespace {

template <class Number>
Number positive(const std::string& flag, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr double max_seconds = 1e7;  // seconds, as of the benchmarks
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) ||
      static_cast<double>(value) > max_seconds) {
    throw InputError(flag + ": '" + text + "' is not a positive number up to 10000000; see --help");
  }
  return value;
}

/// "90s", "8m", "24h", "7d"
double duration(const std::string& flag, const std::string& text) {
  const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const auto unit = units.find(text.empty() ? ' ' : text.back());
  if (unit == units.end()) throw InputError(flag + ": '" + text + "' has no unit: write 90s, 8m, 24h or 7d");
  return unit->second * positive<double>(flag, text.substr(0, text.size() - 1));
}

std::uint32_t seed(const std::string& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  throw InputError("--seed: '" + text + "' is not a number from 0 to 4294967295; see --help");
}

/// "1,2,4"
std::vector<int> rising(const std::string& flag, const std::string& text) {
  std::vector<int> numbers;
  std::istringstream list(text);
  for (std::string word; std::getline(list, word, ',');) {
    numbers.push_back(positive<int>(flag, word));
    if (numbers.size() > 1 && numbers.back() <= numbers[numbers.size() - 2]) {
      throw InputError(flag + ": '" + text + "' does not rise: write numbers of nodes as in 1,2,4,8");
    }
  }
  return numbers;
}

/// False: the flag is not one of ours.
bool take(AcceptOptions& options, const std::string& flag, const std::string& value) {
  if (flag == "--tier") {
    if (value != "quick" && value != "full") throw InputError("--tier: '" + value + "' is neither quick nor full");
    options.tier = value;
  } else if (flag == "--families") {
    std::istringstream names(value);
    for (std::string name; std::getline(names, name, ',');) options.families.push_back(name);
  } else if (flag == "--results") {
    options.results = value;
  } else if (flag == "--folder") {
    options.folder = value;
  } else if (flag == "--keep") {
    options.keep = positive<int>(flag, value);
  } else if (flag == "--for") {
    options.soak_s = duration(flag, value);
  } else if (flag == "--scaling") {
    options.scaling = rising(flag, value);
  } else if (flag == "--seed") {
    options.seed = seed(value);
  } else if (flag == "--stop-on") {
    if (value != "fail") throw InputError("--stop-on: '" + value + "' is not fail");
    options.stop_on_fail = true;
  } else if (flag == "--timeout") {
    options.timeout = positive<double>(flag, value);
  } else if (flag == "--limit") {
    static_cast<void>(positive<double>(flag, value));  // the keeper's
  } else if (flag == "--startup-timeout") {
    options.startup_timeout = positive<double>(flag, value);
  } else if (flag == "--shared-folder") {
    options.shared_folder = value;
  } else if (flag == "--checkpoint-dir") {
    options.checkpoint_dir = std::filesystem::absolute(value).string();
  } else if (flag == "--dcgm") {
    options.dcgm = positive<int>(flag, value);
    if (options.dcgm > 3) throw InputError("--dcgm: '" + value + "' is none of 1, 2, 3");
  } else if (flag == "--interface") {
    options.interface = value;
  } else if (flag == "--expect") {
    options.expected = value;
    options.judge.judge.expected = parse_expected(value);
  } else {
    return false;
  }
  return true;
}

/// The site's NCCL: a library, or the folder that it is in.
std::string nccl_library(const std::string& given) {
  const TimedCall call("read", given);
  std::error_code error;
  std::filesystem::path file = std::filesystem::absolute(given, error);
  if (std::filesystem::is_directory(file, error)) file /= "libnccl.so.2";
  if (std::ifstream(file).get() != 0x7f) {  // of ELF; a loader would warn and go on with another one
    throw InputError("SHAKEDOWN_NCCL=" + given + ": " + file.string() +
                     " is no library that can be read; name libnccl.so.2 or the folder that has it");
  }
  return file.string();
}

/// "--tier", "--families" and all others that the help names.
std::vector<std::string> known_flags() {
  const auto help = front_door_help() + arguments_help();
  std::vector<std::string> flags;
  for (auto at = help.find("--"); at != std::string::npos; at = help.find("--", at + 2)) {
    const auto end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    flags.push_back(help.substr(at, end - at));
  }
  return flags;
}

std::string meant_flag(const std::vector<std::string>& words) {
  const auto flags = known_flags();
  for (const auto& word : words) {
    const auto flag = word.substr(0, word.find('='));
    if (std::find(flags.begin(), flags.end(), flag) == flags.end()) return did_you_mean(flag, flags);
  }
  return "";
}

}  // namespace

Arguments parse_judging(const std::vector<std::string>& words) {
  constexpr std::size_t min_width = 40;
  Arguments arguments;
  try {
    arguments = parse_arguments(words, beside_program("share/shakedown/thresholds"));
  } catch (const InputError& error) {
    throw InputError(error.what() + meant_flag(words));
  }
  if (!(arguments.tolerance >= 0 && arguments.tolerance < 1)) {
    throw InputError("--tolerance: " + number_text(arguments.tolerance) +
                     " is not from 0 to below 1, as 0.05 is; see --help");
  }
  if (arguments.width < min_width) {
    throw InputError("--width: " + std::to_string(arguments.width) + " is below " + std::to_string(min_width) +
                     " columns, which a table needs; see --help");
  }
  return arguments;
}

AcceptOptions parse_accept_options(const std::vector<std::string>& words, const Environment& environment) {
  refuse_repeated(words);
  AcceptOptions options;
  std::vector<std::string> judges;
  const auto set = [&environment](const char* name) { return environment(name).value_or(""); };
  for (const auto& [name, flag] : {std::pair{"SHAKEDOWN_TIER", "--tier"},
                                   {"SHAKEDOWN_TIMEOUT", "--timeout"},
                                   {"SHAKEDOWN_SHARED_FOLDER", "--shared-folder"},
                                   {"SHAKEDOWN_CHECKPOINT_DIR", "--checkpoint-dir"},
                                   {"SHAKEDOWN_DCGM", "--dcgm"},
                                   {"SHAKEDOWN_INTERFACE", "--interface"},
                                   {"SHAKEDOWN_EXPECT", "--expect"}}) {
    if (!set(name).empty()) take(options, flag, set(name));
  }
  const bool names_roster =
      std::any_of(words.begin(), words.end(), [](const auto& word) { return word.rfind("--roster=", 0) == 0; });
  if (!set("SHAKEDOWN_ROSTER").empty() && !names_roster) judges.push_back("--roster=" + set("SHAKEDOWN_ROSTER"));
  options.despite_preflight = set("SHAKEDOWN_DESPITE_PREFLIGHT") == "1";
  options.run_id = set("SHAKEDOWN_RUN_ID");
  const std::map<std::string_view, bool*> switches{{"--despite-preflight", &options.despite_preflight},
                                                   {"--plan", &options.plan},
                                                   {"--retune", &options.retune},
                                                   {"--resume", &options.resume}};
  if (!set("SHAKEDOWN_NCCL").empty()) options.nccl = nccl_library(set("SHAKEDOWN_NCCL"));
  for (const auto& word : words) {
    const auto equals = word.find('=');
    const auto flag = word.substr(0, equals);
    // What stands in the plan of a soak, or says where that is.
    constexpr std::array of_plan{"--for",    "--seed",    "--families", "--tier",
                                 "--folder", "--results", "--keep",     "--resume"};
    if (std::find(of_plan.begin(), of_plan.end(), flag) == of_plan.end()) options.flags.push_back(word);
    if (flag == "--family") throw InputError("--family: accept and measure take --families=LIST; see --help");
    if (const auto found = switches.find(word); found != switches.end()) {
      *found->second = true;
    } else if (word == "--scaling") {
      options.scaling.emplace();
    } else if (equals == std::string::npos || !take(options, flag, word.substr(equals + 1))) {
      judges.push_back(word);
    } else if (equals + 1 == word.size()) {
      throw InputError(flag + " needs a value: " + flag + "=...; see --help");
    }
  }
  if (options.resume && (options.soak_s || options.seed)) {
    throw InputError("--resume goes on with what was asked for: leave --for and --seed out");
  }
  if (!options.soak_s && !options.resume && (options.stop_on_fail || options.seed)) {
    throw InputError("--stop-on and --seed are of a soak: give --for too");
  }
  if (options.scaling && (options.soak_s || options.resume)) {
    throw InputError("--scaling is of one acceptance: leave --for and --resume out");
  }
  const auto expected = options.judge.judge.expected;
  options.judge = parse_judging(judges);
  options.judge.judge.expected = expected;
  return options;
}

std::string front_door_help() {
  return R"(  --tier=quick|full       few sizes, or all and lasting loads (default quick, or SHAKEDOWN_TIER)
  --families=LIST         measure these only; what the verdict then misses, it says
  --retune                time algorithms anew, whatever earlier runs on such GPUs chose
  --despite-preflight     measure although pre-flight failed (SHAKEDOWN_DESPITE_PREFLIGHT=1)
  --plan                  say what would run, and end
  --results=DIR           run folders stand there, and latest (default SHAKEDOWN_RESULTS, build/results, ./results)
  --keep=N                keep so many runs there (default 20)
  --folder=DIR            measure into this folder instead
  --for=8m|24h|7d         a soak: rounds of all families in changing order, each judged, and then the series of them
  --scaling[=1,2,4]       AllReduce and training steps also on fewer nodes: what is left of one node's rate for each GPU
  --resume                go on with the soak in latest, or in --folder, after a kill or a reboot
  --stop-on=fail          end a soak with its first failure
  --seed=N                of the order of a soak (default: made up, and recorded)
  --timeout=S             for each benchmark (default 300, or SHAKEDOWN_TIMEOUT)
  --limit=S               answer within S seconds: INCOMPLETE if the verdict is not there by then
  --startup-timeout=S     until every host has answered (default 120)
  --interface=NAME        hosts talk over this one: ranks, MPI's TCP, and NCCL unless it is told (SHAKEDOWN_INTERFACE)
  --dcgm=1|2|3            pre-flight runs dcgmi diag at this level: seconds, minutes, half an hour (SHAKEDOWN_DCGM)
  --shared-folder=DIR     pre-flight checks that all hosts see the same in it (SHAKEDOWN_SHARED_FOLDER)
  --checkpoint-dir=DIR    checkpoints are written into it and must fit, else into TMPDIR (SHAKEDOWN_CHECKPOINT_DIR)
)";
}

}  // namespace shakedown
