#include "launch/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "base/files.hpp"
#include "base/launcher_secret.hpp"
#include "base/nearest_word.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "report/outputs.hpp"
#include "thresholds/catalogue/families.hpp"

namespace shakedown {
namespace {

/// Returns the seconds of a duration such as "90s", "8m", "24h" or "7d".
double soak_seconds(const std::string& duration) {
  const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  return units.at(duration.back()) * std::strtod(duration.c_str(), nullptr);
}

/// Returns the path of the site's NCCL library, which is given as a file or as its folder.
std::string nccl_library(const std::string& given) {
  const TimedCall call("read", given);
  std::error_code error;
  std::filesystem::path file = std::filesystem::absolute(given, error);
  if (std::filesystem::is_directory(file, error)) file /= "libnccl.so.2";
  // Checks for an ELF file, because the loader would only warn and then use another library.
  if (std::ifstream(file).get() != 0x7f) {
    throw InputError("SHAKEDOWN_NCCL=" + given + ": " + file.string() +
                     " is not a readable library; name libnccl.so.2 or its folder");
  }
  return file.string();
}

/// Returns the words, and a flag for each variable that is set and whose flag is not in the words. Errors: InputError
/// with the name of the variable, because the user did not give the flag.
std::vector<std::string> with_variables(const std::vector<std::string>& words, const Environment& environment,
                                        const std::string& verb) {
  auto all = words;
  for (const auto& [name, flag] : {std::pair{"SHAKEDOWN_TIER", "--tier="},
                                   {"SHAKEDOWN_TIMEOUT", "--timeout="},
                                   {"SHAKEDOWN_SHARED_FOLDER", "--shared-folder="},
                                   {"SHAKEDOWN_CHECKPOINT_DIR", "--checkpoint-dir="},
                                   {"SHAKEDOWN_STORAGE_DIR", "--storage-dir="},
                                   {"SHAKEDOWN_DCGM", "--dcgm="},
                                   {"SHAKEDOWN_INTERFACE", "--interface="},
                                   {"SHAKEDOWN_EXPECT", "--expect="},
                                   {"SHAKEDOWN_ROSTER", "--roster="}}) {
    const auto value = environment(name).value_or("");
    const bool of_gate = std::string_view(flag) == "--tier=" || std::string_view(flag) == "--dcgm=";
    const auto has = [&flag = flag, of_gate](const std::string& word) {
      return word.starts_with(flag) || (of_gate && word.starts_with("--gate="));
    };
    if (value.empty() || std::any_of(words.begin(), words.end(), has)) continue;
    all.insert(all.begin(), flag + value);
    const auto fault = input_error_of([&] { parse_flags(all_flags(), verb, {all.front()}); });
    if (!fault.empty()) throw InputError(std::string(name) + ", which stands for " + fault);
  }
  return all;
}

/// True if the variable is 1. Errors: InputError for a value that is neither 1 nor 0, because it could mean either.
bool is_on(const Environment& environment, const std::string& name) {
  const auto value = environment(name).value_or("");
  if (value == "1" || value == "0" || value.empty()) return value == "1";
  throw InputError(name + "=" + one_line(value) + " is neither 1 nor 0; set it to 1, or unset it");
}

/// Throws InputError for flags that contradict each other.
void check_contradictions(const AcceptOptions& options) {
  if (options.planned_ranks > 0 && !options.plan) {
    throw InputError("--ranks needs --plan: without --plan, --expect=ranks=N is the number of ranks that must report");
  }
  if (options.resume && (options.soak_s || options.seed)) {
    throw InputError("--resume continues with the flags of the soak: leave --for and --seed out");
  }
  if (!options.soak_s && !options.resume && (options.stop_on_fail || options.seed)) {
    throw InputError("--stop-on and --seed are for a soak: give --for too");
  }
  if (options.scaling && (options.soak_s || options.resume)) {
    throw InputError("--scaling cannot be combined with --for or --resume");
  }
  if ((options.backend == "virtual") != !options.chip.empty()) {
    throw InputError("--backend=virtual and --chip=NAME: give both, such as --chip=b300, or neither");
  }
  if (!options.chip.empty() && (options.soak_s || options.resume || options.scaling || options.again)) {
    throw InputError("--backend=virtual measures nothing: leave --for, --resume, --scaling and --again out");
  }
  if (std::ranges::find(options.families, "storage") != options.families.end() && options.storage_dir.empty()) {
    throw InputError("--families: storage needs --storage-dir=DIR, a folder that all hosts share");
  }
  const bool has_steps = options.families.empty() || std::ranges::any_of(options.families, has_training_steps);
  if (options.profile && !has_steps) {
    throw InputError("--profile divides training steps: add train_step or lora_step to --families");
  }
  if (options.again && (options.soak_s || options.resume || options.scaling || !options.families.empty())) {
    throw InputError("--again cannot be combined with --families, --for, --resume or --scaling");
  }
}

/// Sets what a gate decides. Ranks report a hang before the gate itself must end them. Errors: InputError for flags
/// that contradict it.
void begin_gate(const GivenFlags& given, AcceptOptions& options) {
  options.gate = GateLimit{std::strtod(given.all().at("--gate").c_str(), nullptr)};
  for (const char* const flag : {"--tier", "--again", "--scaling", "--for", "--resume", "--dcgm", "--limit"}) {
    if (given.has(flag)) {
      throw InputError("--gate and " + std::string(flag) + " cannot be combined: a gate has its own rows and limits");
    }
  }
  constexpr double start_share = 0.6, row_share = 0.4;
  options.tier = Tier::gate;
  const auto all = options.waiting ? std::vector<std::string>{"preflight", "gemm", "hbm"} : gate_families();
  for (const auto& family : options.families) {
    if (std::ranges::find(all, family) == all.end()) {
      throw InputError("--families: " + family + " is not in " +
                       (options.waiting ? "a gate that a job waits for" : "a gate") + ", which has " + joined(all));
    }
  }
  if (options.families.empty()) options.families = all;
  options.startup_timeout = std::min(options.startup_timeout, start_share * options.gate->seconds);
  options.timeout = std::min(options.timeout, row_share * options.gate->seconds);
}

/// Returns the words without those that the plan of a soak stores anyway, and without those that name its folder.
std::vector<std::string> flags_to_resume(std::vector<std::string> words) {
  std::erase_if(words, [](const std::string& word) {
    constexpr std::array flags_of_plan{"--for",    "--seed",    "--families", "--tier",
                                       "--folder", "--results", "--keep",     "--resume"};
    return std::find(flags_of_plan.begin(), flags_of_plan.end(), word.substr(0, word.find('='))) != flags_of_plan.end();
  });
  return words;
}

}  // namespace

std::filesystem::path shipped_profiles() { return beside_program("share/shakedown/thresholds"); }

AcceptOptions parse_accept_options(const std::vector<std::string>& words, const Environment& environment,
                                   const std::string& verb) {
  launcher_secret(environment);  // an invalid secret is refused before the ranks start
  const auto all = with_variables(words, environment, verb);
  const auto given = parse_flags(all_flags(), verb, all);
  AcceptOptions options;
  options.despite_preflight = given.has("--despite-preflight") || is_on(environment, "SHAKEDOWN_DESPITE_PREFLIGHT");
  options.run_id = environment("SHAKEDOWN_RUN_ID").value_or("");
  if (const auto nccl = environment("SHAKEDOWN_NCCL").value_or(""); !nccl.empty()) options.nccl = nccl_library(nccl);
  given("--backend", options.backend)("--chip", options.chip);
  given("--tier", options.tier)("--families", options.families)("--plan", options.plan)("--retune", options.retune);
  given("--profile", options.profile);
  given("--ranks", options.planned_ranks);
  given("--results", options.results)("--folder", options.folder)("--keep", options.keep)("--resume", options.resume);
  given("--timeout", options.timeout)("--startup-timeout", options.startup_timeout)("--dcgm", options.dcgm);
  given("--shared-folder", options.shared_folder)("--checkpoint-dir", options.checkpoint_dir)("--storage-dir",
                                                                                              options.storage_dir);
  given("--interface", options.interface)("--expect", options.expected)("--scaling", options.scaling);
  if (given.has("--for")) options.soak_s = soak_seconds(given.all().at("--for"));
  given("--seed", options.seed)("--again", options.again)("--waiting", options.waiting);
  options.is_tier_given = given.has("--tier");
  options.stop_on_fail = given.has("--stop-on");
  if (!options.checkpoint_dir.empty()) options.checkpoint_dir = std::filesystem::absolute(options.checkpoint_dir);
  if (!options.storage_dir.empty()) options.storage_dir = std::filesystem::absolute(options.storage_dir);
  options.flags = flags_to_resume(words);
  if (given.has("--gate")) begin_gate(given, options);
  if (options.waiting && !options.gate) {
    throw InputError("--waiting needs --gate: an acceptance needs the machine for itself");
  }
  check_contradictions(options);
  options.judge = arguments_of(given, all, shipped_profiles());
  refuse_outputs_over_results(options.judge.outputs);
  return options;
}

}  // namespace shakedown
