// Proposes limits from a baseline. A person must read them before use.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/history/baseline.hpp"

namespace shakedown {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

// Rounds to three significant digits, so that the limit is further from the values.
double rounded(double value, bool down) {
  if (!(value > 0)) return 0;
  const double step = std::pow(10, std::floor(std::log10(value)) - 2);
  return (down ? std::floor(value / step + 1e-9) : std::ceil(value / step - 1e-9)) * step;
}

std::string percent(double part) { return number_text(100 * part) + " %"; }

std::vector<double> all(const std::map<std::string, std::vector<double>>& by_launch) {
  std::vector<double> values;
  for (const auto& [launch, list] : by_launch) values.insert(values.end(), list.begin(), list.end());
  return values;
}

// Returns "measured 2026-11-21 on 4 x NVIDIA H200, driver 580.159.04, NCCL 2.28.3, NVLS off".
std::string provenance(const Baseline& baseline) {
  std::string first, last;
  for (const auto& [launch, facts] : baseline.launches) {
    const std::string day = facts.started.substr(0, 10);
    if (first.empty() || day < first) first = day;
    if (day > last) last = day;
  }
  std::string text = "measured " + first + (first == last ? "" : " to " + last) + " on " +
                     std::to_string(baseline.ranks) + " x " + joined(baseline.facts.at("device"), " and ");
  const auto add = [&](const char* word, const char* field) {
    const auto& values = baseline.facts.at(field);
    if (!values.empty()) text += std::string(", ") + word + " " + joined(values, " and ");
  };
  add("driver", "driver");
  add("NCCL", "nccl");
  add("NVLS", "nvls");
  return text;
}

class Proposal {
 public:
  Proposal(const Baseline& baseline, const Profile* reference, const FloorOptions& options)
      : baseline_(baseline), reference_(reference), options_(options), provenance_(provenance(baseline)) {}

  // Returns the rule as YAML; empty if it could never fail or never pass.
  std::string rule(const std::string& key, const BaselineBenchmark& benchmark) const {
    const std::string& metric = benchmark.headline;
    const Series& series = benchmark.series.at(metric);
    const bool by_rank = !is_collective(family_of(key)) && !series.ranks.empty();
    const std::vector<double> values = all(by_rank ? series.ranks : series.launches);
    const bool from_above = lower_is_better(metric);
    const double worst = quantile(values, from_above ? 1 - options_.quantile : options_.quantile);
    const double limit = rounded(worst * (from_above ? 1 + options_.margin : 1 - options_.margin), !from_above);
    if (!(limit > 0)) return "";
    if (!from_above && reference_ != nullptr) {
      const auto bound = ceiling(reference_->peak, Key(key), metric, {baseline_.ranks, baseline_.hosts});
      if (bound && limit > *bound) return "";
    }
    return "  - {benchmark: " + quoted(key) + ", metric: " + metric + ", every: " + (by_rank ? "rank" : "run") + ", " +
           (from_above ? "max: " : "min: ") + number_text(limit) + conditions(key) +
           ", source: " + quoted(source(values.size(), series.launches.size(), from_above, by_rank)) + "}\n";
  }

 private:
  std::string conditions(const std::string& key) const {
    std::string text = ", ranks: " + std::to_string(baseline_.ranks) + ", hosts: " + std::to_string(baseline_.hosts);
    const auto& nvls = baseline_.facts.at("nvls");
    if (is_collective(family_of(key)) &&
        (nvls == std::set<std::string>{"on"} || nvls == std::set<std::string>{"off"})) {
      text += ", nvls: \"" + *nvls.begin() + "\"";
    }
    return text + ", tier: " + *baseline_.facts.at("tier").begin();
  }

  std::string source(std::size_t values, std::size_t launches, bool from_above, bool by_rank) const {
    return "proposed: " + percent(from_above ? 1 - options_.quantile : options_.quantile) + " quantile of " +
           std::to_string(values) + (by_rank ? " values of ranks in " : " values in ") + std::to_string(launches) +
           (launches == 1 ? " launch" : " launches") + (from_above ? " plus " : " less ") + percent(options_.margin) +
           ", " + provenance_;
  }

  const Baseline& baseline_;
  const Profile* reference_;
  const FloorOptions& options_;
  std::string provenance_;
};

std::string match(const Baseline& baseline) {
  std::string devices;
  for (const std::string& device : baseline.facts.at("device")) {
    devices += (devices.empty() ? "" : ", ") + quoted(device);
  }
  return "match: {backend: " + *baseline.facts.at("backend").begin() + ", device: [" + devices + "]}\n";
}

std::string peak(const Profile& reference) {
  std::string text;
  for (const auto& [name, value] : reference.peak) text += name + ": " + number_text(value) + ", ";
  return text.empty() ? "" : "peak: {" + text + "source: " + quoted("profile " + reference.name) + "}\n";
}

std::size_t left_out(const Baseline& baseline, const std::string& key) {
  return static_cast<std::size_t>(std::count_if(baseline.left_out.begin(), baseline.left_out.end(),
                                                [&](const LeftOut& value) { return value.key == key; }));
}

std::map<std::string, std::set<std::string>> launches_by_family(const Baseline& baseline) {
  std::map<std::string, std::set<std::string>> all;
  for (const auto& [key, benchmark] : baseline.benchmarks) {
    for (const auto& [launch, values] : benchmark.series.at(benchmark.headline).launches) {
      all[family_of(key)].insert(launch);
    }
  }
  return all;
}

}  // namespace

std::string floors_yaml(const Baseline& baseline, const std::string& name, const Profile* reference,
                        const FloorOptions& options) {
  if (!(options.quantile >= 0 && options.quantile < 0.5)) {
    throw InputError("--quantile must be from 0 to below 0.5, as in 0.01");
  }
  if (!(options.margin >= 0 && options.margin < 1)) throw InputError("--margin must be from 0 to below 1, as in 0.03");
  if (baseline.facts.at("tier").size() != 1) throw InputError("a baseline of one tier is needed to propose floors");
  const Proposal proposal(baseline, reference, options);
  const auto of_family = launches_by_family(baseline);
  std::string rules, left;
  for (const auto& [key, benchmark] : baseline.benchmarks) {
    const auto measured = benchmark.series.at(benchmark.headline).launches.size() + left_out(baseline, key);
    if (const auto launches = of_family.at(family_of(key)).size(); measured < launches) {
      left += fmt::format("# no limit for {}: in {} of {} launches only\n", key, measured, launches);
      continue;
    }
    const std::string rule = proposal.rule(key, benchmark);
    rules += rule;
    if (rule.empty()) left += "# no limit for " + key + ": zero, or above what physics allows\n";
  }
  if (rules.empty()) throw InputError("no benchmark of the baseline has a value for a floor");
  return "# Floors proposed from a baseline by shakedown baseline. Read them before they judge machines.\nschema: 2\n"
         "profile: " +
         quoted(name) + "\n" + match(baseline) + (reference == nullptr ? "" : peak(*reference)) +
         "unjudged: [preflight]  # facts, not figures: no reference until this includes the rules of a shipped "
         "profile\n" +
         left + "rules:\n" + rules;
}

}  // namespace shakedown
