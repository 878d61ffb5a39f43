#include "report/arguments.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>

#include "base/console.hpp"
#include "base/nearest_word.hpp"
#include "base/run_lock.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/ledger/own_runs.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/expectation.hpp"
#include "thresholds/rules/profile_named.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {
namespace {

/// Returns the number of nodes in the folder name of a scaling launch: "1node", "4nodes".
std::optional<int> nodes_of_launch(const std::string& name) {
  int nodes = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), nodes);
  const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
  return error == std::errc() && (rest == "nodes" || rest == "node") ? std::optional(nodes) : std::nullopt;
}

/// Returns the folder of the newest run if `folder` contains one folder for each run, else `folder` itself.
std::filesystem::path latest_of(const std::filesystem::path& folder) {
  return is_folder(folder / "latest") ? folder / "latest" : folder;
}

/// Throws InputError if two outputs, or an output and an input, are the same file.
void check_outputs(const OutputFiles& outputs, const std::vector<std::string>& words) {
  std::map<std::filesystem::path, std::string> written;
  for (const auto& [flag, file] : outputs) {
    const auto [other, fresh] = written.emplace(file, flag);
    if (fresh || file == "/dev/null") continue;
    throw InputError(other->second + " and " + flag + " name the same file, " + file.string() + ": one would be lost");
  }
  if (const auto flag = output_over_input(words); !flag.empty()) {
    throw InputError(flag + ": the file is input of the same command, and would be overwritten; name another file");
  }
}

}  // namespace

const FlagTable& all_flags() {
  static const FlagTable table = [] {
    auto all = flag_table();
    all.push_back({"output files"});
    const auto add = [&all](const auto& formats, const char* takers) {
      for (const auto& output : formats) all.push_back({output.flag, "=F", takers, output.help});
    };
    add(outputs<Judged>(), "accept report nodes acceptance_test demo stored");
    add(outputs<Regression>(), "regress");
    add(outputs<Fleet>(), "fleet");
    add(outputs<History>(), "history");
    return all;
  }();
  return table;
}

Arguments arguments_of(const GivenFlags& given, const std::vector<std::string>& words,
                       const std::filesystem::path& thresholds) {
  Arguments a;
  if (const char* named = std::getenv("SHAKEDOWN_THRESHOLDS"); named != nullptr) a.thresholds = named;
  given("--thresholds", a.thresholds);
  a.thresholds = a.thresholds.empty() ? thresholds : profile_named(a.thresholds, thresholds);
  given("--baseline", a.baseline)("--tolerance", a.tolerance)("--min-effect", a.regression.min_effect);
  given("--allow-different", a.regression.allow_different)("--store", a.store)("--out", a.out)("--floors", a.floors);
  given("--quantile", a.floor_options.quantile)("--margin", a.floor_options.margin)("--site", a.site);
  given("--color", a.color)("--width", a.width)("--all", a.all)("--explain", a.explain)("--fault", a.fault);
  given("--event", a.event)("--node", a.node)("--reason", a.reason)("--due", a.due)("--price", a.prices);
  given("--key", a.key)("--signers", a.signers);
  given("--hosts", a.rehearsal.hosts)("--gpus", a.rehearsal.gpus)("--clusters", a.rehearsal.clusters);
  given("--noise", a.rehearsal.noise);
  given("--seed", a.rehearsal.seed);
  if (const char* named = std::getenv("SHAKEDOWN_LEDGER"); named != nullptr && *named != 0) a.ledger = named;
  given("--ledger", a.ledger);
  given("--nodes", a.nodes)("--scontrol", a.scontrol)("--kubectl", a.kubectl)("--run-id", a.judge.run_id);
  given("--mixed-runs", a.judge.mixed_runs)("--allow-faults", a.judge.allow_faults)("--partial-ok", a.partial_ok);
  given("--skip-unmeasured", a.skip_unmeasured)("--help", a.help)("--version", a.version);
  for (const auto& [flag, value] : given.all()) {
    if (output_flags().contains(flag)) a.outputs[flag] = value;
    if (flag == "--roster") a.judge.roster = read_roster(value);
    if (flag == "--expect") a.judge.expected = parse_expected(value);
  }
  if (a.judge.run_id && a.judge.run_id->starts_with('@')) {
    const auto file = a.judge.run_id->substr(1);
    a.judge.run_id = line_of(file);
    if (!a.judge.run_id) throw InputError("--run-id: " + file + " cannot be read; measure first");
  }
  check_outputs(a.outputs, words);
  for (const char* const flag : {"--quantile", "--margin"}) {
    if (given.has(flag) && !a.floors) throw InputError(std::string(flag) + " needs --floors: give that too");
  }
  return a;
}

Arguments parse_arguments(const std::string& taker, const std::vector<std::string>& words,
                          const std::filesystem::path& thresholds) {
  const auto given = parse_flags(all_flags(), taker, words);
  auto arguments = arguments_of(given, with_equals(all_flags(), taker, words), thresholds);
  given("--results", arguments.results);
  for (auto& path : arguments.results) path = taker == "fleet" ? path : latest_of(path);
  given("--families", arguments.judge.families.names);
  arguments.regression.families = arguments.judge.families;
  given("--scaling", arguments.scaling);
  const bool stored = (taker == "report" || taker == "nodes") && is_stored(arguments);
  if (!stored) refuse_outputs_over_results(arguments.outputs);
  for (const auto& [flag, value] : given.all()) {
    if (!stored || find_flag(all_flags(), flag, taker)->is_taken_by("stored")) continue;
    throw InputError(flag + ": has no effect on a stored verdict; give --results to judge again");
  }
  return arguments;
}

bool is_stored(const Arguments& arguments) {
  return arguments.results.empty() && arguments.outputs.contains("--verdict");
}

namespace {

/// Returns the result sets that --scaling gives, else the launches on fewer nodes that accept --scaling left in the
/// run's folder.
std::vector<ScalingSet> scaling_of(const Arguments& arguments) {
  std::vector<ScalingSet> sets;
  for (const auto& folder : arguments.scaling) sets.push_back({.files = read_results(std::vector{folder})});
  if (!sets.empty() || arguments.results.size() != 1) return sets;
  const auto launches = arguments.results.front() / scaling_folder;
  if (!is_folder(launches)) return sets;
  const auto names = names_in(launches);
  if (!names) throw CannotRead(launches.string() + ": cannot be read; judge again");
  for (const auto& name : *names) {
    const auto nodes = nodes_of_launch(name);
    if (!nodes) continue;
    const auto file = launches / name / "lost";
    const auto lost = path_exists(file) ? lines_of(file) : std::vector<std::string>{};
    if (!lost) throw CannotRead(file.string() + ": cannot be read; judge again");
    sets.push_back({nodes, *lost, read_results(result_files(launches / name))});
  }
  return sets;
}

}  // namespace

GivenReferences read_references(const Arguments& arguments) {
  GivenReferences given;
  if (arguments.site) given.site = read_site(*arguments.site);
  given.profiles = profiles_of(given.site_or_null(), load_profiles(arguments.thresholds));
  if (!arguments.baseline.empty()) {
    given.baseline = read_baseline(arguments.baseline, arguments.judge.allow_faults);
  }
  return given;
}

std::vector<Profile> GivenReferences::profiles_for(const Measured& measured) const {
  auto for_run = profiles;
  // Adds the rules of the site file only to the profile of the measured GPUs, because other GPU models may not be able
  // to meet them.
  const auto* ours = measured.files.empty() ? nullptr : select_profile(measured.files, for_run).profile;
  for (Profile& profile : for_run) {
    if (ours == nullptr || ours == &profile) profile = on_site(profile, site_or_null(), measured);
  }
  return for_run;
}

namespace {

/// Throws InputError for an unknown family whose name resembles a known one.
void refuse_mistyped(const Arguments& arguments, const Measured& measured, const std::vector<Profile>& profiles) {
  std::vector<std::string> known;
  for (const auto& row : family_rows()) known.emplace_back(row.name);
  for (const auto& [key, benchmark] : measured.benchmarks) known.push_back(key.family());
  for (const auto& profile : profiles) {
    for (const auto& rule : profile.rules) known.push_back(rule.benchmark.family());
  }
  for (const auto& family : arguments.judge.families.names) {
    const auto meant = did_you_mean(family, known);
    if (meant.empty() || std::find(known.begin(), known.end(), family) != known.end()) continue;
    throw InputError("--families: \"" + family + "\" is not a family" + meant);
  }
}

}  // namespace

Judged judge(const Arguments& arguments) {
  if (arguments.results.empty()) throw InputError("--results is missing; see --help");
  auto measured = std::make_unique<const Measured>(read_results(arguments.results));
  const auto given =
      arguments.references ? arguments.references : std::make_shared<const GivenReferences>(read_references(arguments));
  refuse_mistyped(arguments, *measured, given->profiles);
  auto profiles = given->profiles_for(*measured);
  auto options = arguments.judge;
  for (const auto& folder : arguments.results) {
    if (auto why = unfinished(folder); why && options.families.all()) options.unfinished = std::move(why);
  }
  if (const auto& site = given->site) {
    const bool stored = std::any_of(measured->files.begin(), measured->files.end(),
                                    [](const Results& file) { return !file.context.asked.roster.empty(); });
    if (options.roster.empty() && !stored) {
      for (const auto& host : site->roster) options.roster.push_back({host, std::nullopt});
    }
    options.places = {site->topology, site->racks};
  }
  References references(profiles);
  references.change.min_effect = arguments.tolerance;
  references.change.allow_different = arguments.regression.allow_different;
  references.baseline = given->baseline;
  if (given->own_runs) references.own = own_record(*given->own_runs, *measured);
  references.scaling = scaling_of(arguments);
  Verdict verdict = judge(*measured, references, options);
  return {std::move(measured), std::move(profiles), std::move(verdict)};
}

int exit_code(const Verdict& verdict, const Arguments& arguments) {
  return verdict.state == State::partial && arguments.partial_ok ? 0 : verdict.exit_code;
}

TerminalStyle style_of(const Arguments& arguments) {
  const auto width = arguments.width.value_or(columns_of(STDOUT_FILENO).value_or(TerminalStyle{}.width));
  return {arguments.color.value_or(shows_color(STDOUT_FILENO)), std::max<std::size_t>(width, 40), arguments.all};
}

}  // namespace shakedown
