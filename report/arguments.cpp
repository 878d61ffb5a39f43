#include "report/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "base/run_lock.hpp"
#include "thresholds/results/measured.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/expectation.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

template <class Number>
Number number(const std::string& flag, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError(flag + ": \"" + text + "\" is not a number; see --help");
  }
  return value;
}

int count(const std::string& flag, const std::string& text) {
  const int value = number<int>(flag, text);
  if (value < 1) throw InputError(flag + ": " + text + " is below 1; see --help");
  return value;
}

/// Parses the folder name of a scaling launch: "1node", "4nodes".
std::optional<int> nodes_of_launch(const std::string& name) {
  int nodes = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), nodes);
  const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
  return error == std::errc() && (rest == "nodes" || rest == "node") ? std::optional(nodes) : std::nullopt;
}

std::vector<std::string> words(const std::string& flag, const std::string& text) {
  auto parts = split(text, ',');
  if (std::find(parts.begin(), parts.end(), "") == parts.end()) return parts;
  throw InputError(flag + ": an empty word in \"" + text + "\"; separate words by one comma");
}

std::vector<std::filesystem::path> paths(const std::string& flag, const std::string& text) {
  const auto parts = words(flag, text);
  return {parts.begin(), parts.end()};
}

/// Returns the folder of the newest run if each run has a folder of its own, else `folder`.
std::filesystem::path latest_of(const std::filesystem::path& folder) {
  return is_folder(folder / "latest") ? folder / "latest" : folder;
}

using Handler = std::function<void(const std::string& value)>;

bool yes_or_no(const std::string& flag, const std::string& text) {
  if (text != "yes" && text != "no") throw InputError(flag + ": \"" + text + "\" is neither yes nor no; see --help");
  return text == "yes";
}

std::map<std::string, Handler> flags_with_value(Arguments& a) {
  std::map<std::string, Handler> flags{
      {"--results",
       [&a](const std::string& v) {
         a.results = paths("--results", v);
         for (auto& path : a.results) path = latest_of(path);
       }},
      {"--thresholds", [&a](const std::string& v) { a.thresholds = v; }},
      {"--family", [&a](const std::string& v) { a.judge.families.names = words("--family", v); }},
      {"--baseline", [&a](const std::string& v) { a.baseline = paths("--baseline", v); }},
      {"--tolerance", [&a](const std::string& v) { a.tolerance = number<double>("--tolerance", v); }},
      {"--min-effect", [&a](const std::string& v) { a.regression.min_effect = number<double>("--min-effect", v); }},
      {"--store", [&a](const std::string& v) { a.store = v; }},
      {"--out", [&a](const std::string& v) { a.out = v; }},
      {"--floors", [&a](const std::string& v) { a.floors = v; }},
      {"--quantile", [&a](const std::string& v) { a.floor_options.quantile = number<double>("--quantile", v); }},
      {"--margin", [&a](const std::string& v) { a.floor_options.margin = number<double>("--margin", v); }},
      {"--color", [&a](const std::string& v) { a.color = yes_or_no("--color", v); }},
      {"--width", [&a](const std::string& v) { a.width = static_cast<std::size_t>(count("--width", v)); }},
      {"--nodes", [&a](const std::string& v) { a.nodes = v; }},
      {"--scaling", [&a](const std::string& v) { a.scaling = paths("--scaling", v); }},
      {"--roster", [&a](const std::string& v) { a.judge.roster = read_roster(v); }},
      {"--expect", [&a](const std::string& v) { a.judge.expected = parse_expected(v); }},
      {"--run-id",
       [&a](const std::string& v) {
         a.judge.run_id = v.front() == '@' ? line_of(v.substr(1)) : v;
         if (!a.judge.run_id) throw InputError("--run-id: " + v.substr(1) + " cannot be read; measure first");
       }},
      {"--site", [&a](const std::string& v) { a.site = v; }},
      {"--explain", [&a](const std::string& v) { a.explain = v; }},
  };
  for (const Output& output : outputs()) {
    flags[output.flag] = [&a, &output](const std::string& v) { a.outputs[output.flag] = v; };
  }
  for (const RegressionOutput& output : regression_outputs()) {
    flags[output.flag] = [&a, &output](const std::string& v) { a.outputs[output.flag] = v; };
  }
  return flags;
}

std::map<std::string, bool*> flags_without_value(Arguments& a) {
  return {{"--mixed-runs", &a.judge.mixed_runs},
          {"--allow-faults", &a.judge.allow_faults},
          {"--allow-different", &a.regression.allow_different},
          {"--scontrol", &a.scontrol},
          {"--kubectl", &a.kubectl},
          {"--all", &a.all},
          {"--partial-ok", &a.partial_ok},
          {"--skip-unmeasured", &a.skip_unmeasured},
          {"--help", &a.help},
          {"--version", &a.version}};
}

/// True if a table of outputs has a flag.
bool has_flag(const auto& table, const std::string& flag) {
  return std::any_of(table.begin(), table.end(), [&](const auto& output) { return output.flag == flag; });
}

/// Returns the verbs and programs that take a flag; empty for flags that all of them accept, such as --color.
std::string takers_of(const std::string& flag) {
  const std::string stored = "report nodes acceptance_test ", judging = "accept measure " + stored;
  static const std::map<std::string, std::string> takers{
      {"--results", judging + "regress archive baseline_create"},
      {"--family", judging + "regress"},
      {"--baseline", judging + "regress baseline_merge baseline_show"},
      {"--tolerance", judging},
      {"--expect", judging},
      {"--roster", judging},
      {"--site", judging},
      {"--allow-faults", judging + "regress"},
      {"--scaling", "accept " + stored},
      {"--run-id", stored},
      {"--mixed-runs", stored},
      {"--explain", "report acceptance_test"},
      {"--partial-ok", "accept report acceptance_test"},
      {"--skip-unmeasured", "acceptance_test"},
      {"--min-effect", "regress"},
      {"--store", "regress"},
      {"--allow-different", judging + "regress"},
      {"--out", "archive baseline_create baseline_merge baseline_show"},
      {"--floors", "baseline_create baseline_merge baseline_show"},
      {"--quantile", "baseline_create baseline_merge baseline_show"},
      {"--margin", "baseline_create baseline_merge baseline_show"},
      {"--nodes", "nodes stored"},
      {"--scontrol", "nodes stored"},
      {"--kubectl", "nodes stored"}};
  if (const auto found = takers.find(flag); found != takers.end()) return found->second;
  return (has_flag(outputs(), flag) ? "accept " + stored + "stored" : "") +
         (has_flag(regression_outputs(), flag) ? " regress" : "");
}

}  // namespace

void refuse_repeated(const std::vector<std::string>& words) {
  std::set<std::string> seen;
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag.rfind("--", 0) == 0 && !seen.insert(flag).second) {
      throw InputError(flag + " is given twice, and one of the two would be lost: give it once");
    }
  }
}

void refuse_ignored(const std::string& program, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    auto takers = split(takers_of(flag), ' ');
    std::string asked = program;
    std::replace(asked.begin(), asked.end(), ' ', '_');
    if (takers.empty() || std::find(takers.begin(), takers.end(), asked) != takers.end()) continue;
    if (program == "stored") {
      throw InputError(flag + ": a stored verdict is shown as it is; give --results to judge anew");
    }
    std::string known;
    std::erase(takers, "stored");
    for (std::string& taker : takers) {
      std::replace(taker.begin(), taker.end(), '_', taker == "acceptance_test" ? '_' : ' ');
      known.append(known.empty() ? "" : ", ").append(taker);
    }
    throw InputError(flag + ": " + program + " would ignore it; it is of " + known);
  }
}

Arguments parse_arguments(const std::vector<std::string>& words, const std::filesystem::path& thresholds) {
  Arguments arguments;
  const char* named = std::getenv("SHAKEDOWN_THRESHOLDS");
  arguments.thresholds = named != nullptr && *named != '\0' ? std::filesystem::path(named) : thresholds;
  refuse_repeated(words);
  const auto with_value = flags_with_value(arguments);
  const auto switches = flags_without_value(arguments);
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    if (word == "--color") {
      arguments.color = true;
    } else if (const auto found = switches.find(word); found != switches.end()) {
      *found->second = true;
    } else if (const auto handler = with_value.find(flag); handler != with_value.end()) {
      const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (value.empty()) throw InputError(flag + " needs a value: " + flag + "=...; see --help");
      handler->second(value);
    } else {
      throw InputError("unknown flag \"" + word + "\"; see --help");
    }
  }
  std::map<std::filesystem::path, std::string> written;
  for (const auto& [flag, file] : arguments.outputs) {
    const auto [other, fresh] = written.emplace(file, flag);
    if (!fresh && file != "/dev/null") {
      throw InputError(other->second + " and " + flag + " name the same file, " + file.string() +
                       ": one would be lost");
    }
  }
  if (const auto flag = output_over_input(words); !flag.empty()) {
    throw InputError(flag + ": the file is input of the same command, and would be overwritten; name another file");
  }
  const auto given = [&words](std::string_view flag) {
    return std::any_of(words.begin(), words.end(), [&](const auto& w) { return w.rfind(flag, 0) == 0; });
  };
  for (const char* const flag : {"--quantile", "--margin"}) {
    if (given(flag) && !arguments.floors) throw InputError(std::string(flag) + " is of --floors: give that too");
  }
  arguments.regression.families = arguments.judge.families;
  return arguments;
}

std::string arguments_help() {
  std::string help =
      R"(  --results=F[,F...]      result files, or folders of them (*.json but verdict.json and baseline.json); of
                          a folder of runs the latest
  --thresholds=F          one profile, or a folder of them (default: SHAKEDOWN_THRESHOLDS, else ours)
  --family=LIST           judge these families only; the best verdict is then PARTIAL, or FIT for preflight
  --partial-ok            exit with 0 for PARTIAL, where all that was asked for is good
  --skip-unmeasured       of acceptance_test: end with 77 then, which CTest takes for a skipped test
  --expect=ranks=N,hosts=M,backend=cuda
                          how many ranks and hosts there should be, and on what they should measure
  --roster=FILE           the hosts that should report: one "host", "host 8", "host slots=8" or "node[1-4]" a line
  --site=FILE             what this cluster is made of: fabric, topology, roster, own limits
  --baseline=F[,F...]     what to compare with: baseline.json, result files, or folders of them
  --tolerance=X           how far a judged run may fall short of --baseline, relative (default 0.05)
  --min-effect=X          of regress: the least change to report, relative (default 0.01)
  --allow-different       compare with a baseline of other machines, drivers or settings too, and note it
  --store=DIR             of regress: compare with the earlier runs in DIR, then add this one if it is accepted and
                          nothing is worse; the first run only begins the store
  --out=DIR               of baseline: where it goes, as DIR/<profile>/<N>ranks/baseline.json; of archive: the file
  --floors=F.yaml         of baseline: propose a profile named F from the observed values
  --quantile=X --margin=X of --floors: this quantile (default 0.01) less this part (default 0.03)
  --scaling=DIR[,DIR...]  the same results with other numbers of ranks, or on other numbers of nodes: what each rank
                          loses when more of them work
  --nodes=DIR             of nodes: write good_nodes, bad_nodes (host files) and nodes.json there
  --scontrol, --kubectl   of nodes: print the commands that drain bad nodes and return good ones that we drained
  --explain=KEY           how the judgement of this key came about
  --run-id=ID             the run that all files must be of; @FILE reads it there
  --mixed-runs            permit files of different runs
  --allow-faults          permit results measured with an injected fault (to test the tests)
  --color[=yes|no]        colour the table (default: no, or as NO_COLOR and CLICOLOR_FORCE say)
  --width=N               wrap cells so that tables fit into N columns (default 120)
  --all                   list the values that no rule judges, and the copies of every host, too
  --help, --version
)";
  const auto add = [&](const char* name, const std::string& text) {
    std::string flag = std::string("  ") + name + "=F";
    flag.resize(std::max<std::size_t>(flag.size() + 1, 26), ' ');
    help += flag + text + "\n";
  };
  for (const Output& output : outputs()) add(output.flag, output.help);
  for (const RegressionOutput& output : regression_outputs()) {
    if (!has_flag(outputs(), output.flag)) add(output.flag, std::string("of regress: ") + output.help);
  }
  return help;
}

namespace {

/// Returns the sets that --scaling names, or else the launches of fewer nodes in the run's folder (accept --scaling).
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
    const auto lost = launches / name / "lost";
    sets.push_back({nodes, path_exists(lost) ? split(read_file(lost), '\n') : std::vector<std::string>{},
                    read_results(result_files(launches / name))});
  }
  return sets;
}

}  // namespace

namespace {

/// The references for a judgement. They do not depend on the results.
struct Given {
  std::optional<Site> site;
  std::vector<Profile> profiles;
  std::optional<Baseline> baseline;
};

Given given_references(const Arguments& arguments) {
  Given given;
  if (arguments.site) given.site = read_site(*arguments.site);
  given.profiles = profiles_of(given.site ? &*given.site : nullptr, load_profiles(arguments.thresholds));
  if (!arguments.baseline.empty()) {
    given.baseline = read_baseline(arguments.baseline, arguments.judge.allow_faults);
  }
  return given;
}

}  // namespace

void check_references(const Arguments& arguments) { static_cast<void>(given_references(arguments)); }

Judged judge(const Arguments& arguments) {
  if (arguments.results.empty()) throw InputError("--results is missing; see --help");
  auto measured = std::make_unique<const Measured>(read_results(arguments.results));
  auto [site, profiles, baseline] = given_references(arguments);
  // Only the profile of these GPUs gets the rules of the site: on other GPUs they can be out of reach.
  const auto* ours = measured->files.empty() ? nullptr : select_profile(measured->files, profiles).profile;
  for (Profile& profile : profiles) {
    if (ours == nullptr || ours == &profile) profile = on_site(profile, site ? &*site : nullptr, *measured);
  }
  auto options = arguments.judge;
  for (const auto& folder : arguments.results) {
    if (auto why = unfinished(folder); why && options.families.all()) options.unfinished = std::move(why);
  }
  if (site) {
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
  references.baseline = std::move(baseline);
  references.scaling = scaling_of(arguments);
  Verdict verdict = judge(*measured, references, options);
  return {std::move(measured), std::move(profiles), std::move(verdict)};
}

int exit_code(const Verdict& verdict, const Arguments& arguments) {
  return verdict.state == State::partial && arguments.partial_ok ? 0 : verdict.exit_code;
}

bool no_color() {
  const char* const value = std::getenv("NO_COLOR");
  return value != nullptr && *value != '\0';
}

TerminalStyle style_of(const Arguments& arguments) {
  const auto is_set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' && std::string(value) != "0";
  };
  return {arguments.color.value_or(is_set("CLICOLOR_FORCE") && !no_color()), arguments.width, arguments.all};
}

}  // namespace shakedown
