#include "thresholds/soak/soak_rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdlib>
#include <set>

#include "base/sha256.hpp"
#include "base/text.hpp"
#include "thresholds/findings/diagnosis.hpp"
#include "thresholds/results/json_field.hpp"

namespace shakedown {
namespace {

constexpr double seconds_per_hour = 3600;

}  // namespace

template <class Archive>
void members(Archive& archive, SoakPlan& plan) {
  archive("run_id", plan.run_id)("started", plan.started)("duration_s", plan.duration_s)("seed", plan.seed);
  archive("families", plan.families)("tier", plan.tier).younger("flags", plan.flags);
}

template <class Archive>
void members(Archive& archive, RoundFinding& finding) {
  archive("key", finding.key)("metric", finding.metric)("status", finding.status)("figure", finding.figure);
  archive("places", finding.places)("detail", finding.detail);
}

template <class Archive>
void members(Archive& archive, SoakRound& round) {
  archive("round", round.number)("started", round.started)("begin_s", round.begin_s)("length_s", round.length_s);
  archive.unless("unwatched_s", round.unwatched_s).unless("rest_s", round.rest_s)("order", round.order);
  archive("boots", round.boots)("ranks", round.ranks)("units", round.units)("state", round.state);
  archive("profile", round.profile)("backend", round.backend)("hosts", round.hosts);
  archive.unless("known_families", round.known_families, 0);
  archive("families", round.families)("judged_families", round.judged_families);
  constexpr bool reads = std::same_as<Archive, Reader>;
  by_text(round.figures, [&](auto& texts) { return archive("figures", texts), reads; });
  by_text(round.bits, [&](auto& texts) { return archive.unless("bits", texts), reads; });
  archive.unless("counters", round.counters).unless("others", round.others);
  archive("findings", round.findings).unless("finding_count", round.finding_count);
}

namespace {

constexpr const char* counters[] = {"ecc_uncorrected_ever", "rows_remapped",      "remap_failed",  "xids",
                                    "xids_of_programs",     "ecc_corrected_ever", "nvlink_errors", "pcie_replays"};

// Rounds a value to the digits that reports show.
std::optional<double> shortened(const std::optional<double>& value) {
  return value ? std::optional(std::strtod(number_text(*value).c_str(), nullptr)) : std::nullopt;
}

void keep_figures(const Measured& measured, SoakRound& round) {
  for (const auto& [key, benchmark] : measured.benchmarks) {
    if (benchmark.error() != nullptr || benchmark.waiver() != nullptr) continue;
    if (family_of(key) == "preflight") {
      for (const char* name : counters) {
        if (auto values = rank_values(benchmark, name); !values.empty()) round.counters[name] = std::move(values);
      }
      continue;
    }
    if (auto sums = rank_values(benchmark, "checksum"); !sums.empty()) {
      // A training step uses the algorithms of its products, so all algorithms of this family together are the
      // algorithm of the step.
      const auto& algorithms = benchmark.context->algorithms;
      const auto chosen = algorithms.find(key);
      const auto how = chosen != algorithms.end() ? chosen->second
                       : algorithms.empty()       ? std::string()
                                                  : sha256(json_text(algorithms, -1)).substr(0, 16);
      round.bits.emplace(FigureName(key, how), std::move(sums));
    }
    const auto metric = headline_metric(benchmark);
    if (metric.empty()) continue;
    auto values = is_shared(key, metric) ? RankValues{} : rank_values(benchmark, metric);
    if (values.empty()) values = {run_value(benchmark, metric)};
    for (auto& value : values) value = shortened(value);
    round.figures.emplace(FigureName(key, metric), std::move(values));
  }
}

void keep_ranks(const Context& context, SoakRound& round) {
  round.ranks = context.ranks;
  for (const auto& rank : round.ranks) {
    round.units.push_back(rank.uuid.value_or(rank.host + "/" + std::to_string(rank.local_rank)));
    if (!rank.processes || rank.processes->empty()) continue;
    const auto& first = rank.processes->front();
    round.others.resize(round.ranks.size());
    round.others.at(static_cast<std::size_t>(rank.rank)) =
        "pid " + (first.pid ? std::to_string(*first.pid) : "?") + " " + first.name.value_or("");
  }
}

RoundFinding kept(const Finding& finding, const std::vector<std::string>& units) {
  constexpr std::size_t max_detail_bytes = 300;
  RoundFinding round{finding.key, finding.metric, finding.status, finding.value.has_value(), {}, finding.detail};
  round.figure = round.figure && finding.wrong_ranks.empty();
  for (const char* const facts : {"machine", "preflight"}) {
    round.figure = round.figure && family_of(finding.key) != facts;
  }
  std::set<std::string> places;
  const auto add = [&](int rank) {
    if (static_cast<std::size_t>(rank) < units.size()) places.insert(units[static_cast<std::size_t>(rank)]);
  };
  for (const int rank : finding.wrong_ranks) add(rank);
  if (finding.own) {
    for (const int rank : *finding.own) add(rank);
  } else if (places.empty()) {
    for (const auto& offender : finding.offenders)
      offender.rank ? add(*offender.rank) : void(places.insert(offender.host));
  }
  round.places.assign(places.begin(), places.end());
  if (round.detail.size() > max_detail_bytes) round.detail = round.detail.substr(0, max_detail_bytes) + "...";
  return round;
}

/// Returns the suspects of all findings together: a GPU, or the ends of a link. Wrong data is omitted, because it has
/// findings of its own.
std::vector<RoundFinding> suspects_of(const Verdict& verdict, const std::vector<std::string>& units) {
  std::vector<RoundFinding> suspects;
  for (const Diagnosis& culprit : verdict.culprits) {
    const bool data =
        std::find(culprit.causes.begin(), culprit.causes.end(), Cause::wrong_data) != culprit.causes.end();
    if (!culprit.fails || data) continue;
    Finding finding;
    finding.key = Key("suspect");
    finding.status = Status::fail;
    finding.value = 0;
    finding.offenders = culprit.places;
    finding.detail = causes_text(culprit);
    if (!culprit.evidence.empty()) {
      finding.detail += ": " + culprit.evidence.front().key.text() + " " + culprit.evidence.front().metric;
      if (culprit.percent) finding.detail += ", " + percent_text(*culprit.percent / 100) + " worse than expected";
    }
    suspects.push_back(kept(finding, units));
  }
  return suspects;
}

}  // namespace

std::string soak_line(const SoakPlan& plan) { return json_text(plan, -1) + "\n"; }
std::string soak_line(const SoakRound& round) { return json_text(round, -1) + "\n"; }

void summarize(const Measured& measured, const Verdict& verdict, SoakRound& round) {
  round.state = verdict.state;
  round.profile = verdict.profile;
  round.backend = verdict.backend ? name(*verdict.backend) : "";
  round.hosts = verdict.hosts;
  round.families = verdict.families;
  round.judged_families = verdict.judged_families;
  round.known_families = verdict.known_families;
  keep_ranks(measured.files.front().context, round);
  keep_figures(measured, round);
  round.findings = suspects_of(verdict, round.units);
  const bool explained = !round.findings.empty();
  for (const Finding& finding : verdict.findings) {
    if (finding.good() || !finding.counts()) continue;
    ++round.finding_count;
    // Facts and wrong data are few, and they are first, so that they are always stored.
    auto one = kept(finding, round.units);
    if (one.figure && explained) continue;  // omitted, because a slow GPU also slows down the copies of others
    const auto at = one.figure ? round.findings.end()
                               : std::find_if(round.findings.begin(), round.findings.end(),
                                              [](const RoundFinding& other) { return other.figure; });
    round.findings.insert(at, std::move(one));
    if (round.findings.size() > SoakRound::max_findings) round.findings.pop_back();
  }
}

Soak read_soak(const std::filesystem::path& folder) {
  const auto file = folder / soak_file;
  const std::string text = read_file(file);
  Soak soak;
  int number = 0;
  for (std::size_t begin = 0, end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    const std::filesystem::path place(file.string() + ":" + std::to_string(++number));
    const auto document = document_of_text(std::string_view(text).substr(begin, end - begin));
    const Field line(place, "", document);
    if (document.is_discarded()) line.refuse("is not JSON; start a new soak, or remove the line");
    if (number == 1) {
      Reader::read(line, soak.plan);
      if (!(soak.plan.duration_s > 0)) line["duration_s"].refuse("is not a duration of a soak");
      continue;
    }
    const int last = soak.rounds.empty() ? 0 : soak.rounds.back().number;
    auto& round = soak.rounds.emplace_back();
    Reader::read(line, round);
    if (round.number <= last) line["round"].refuse("does not follow round " + std::to_string(last));
    if (round.begin_s < 0 || round.length_s < 0 || round.unwatched_s < 0 || round.rest_s < 0) {
      line.refuse("has a negative time");
    }
    constexpr double max_hours = 1e5;  // 11 years; the limit exists because each hour has a column in memory
    if (round.begin_s > max_hours * soak.hour_s()) line["begin_s"].refuse("is beyond the longest soak");
  }
  if (number == 0) throw InputError(file.string() + ": has no plan; start a new soak");
  return soak;
}

std::string number_with_one_digit(double value) { return fmt::format("{:.1f}", std::round(value * 10) / 10); }

std::optional<std::size_t> SoakRound::rank_of(const std::string& unit) const {
  const auto found = std::find(units.begin(), units.end(), unit);
  if (found == units.end()) return std::nullopt;
  return static_cast<std::size_t>(found - units.begin());
}

std::optional<double> SoakRound::shared_figure(const FigureName& name) const {
  const auto found = figures.find(name);
  return found == figures.end() || found->second.empty() ? std::nullopt : found->second.front();
}

double Soak::watched_s() const {
  double watched = 0;
  for (const SoakRound& round : rounds) watched += round.rest_s + round.length_s;
  return watched;
}

double Soak::hour_s() const { return std::max(1.0, std::min(seconds_per_hour, plan.duration_s / 4)); }

std::string Soak::when(const SoakRound& round) const {
  const bool minutes = plan.duration_s < 2 * seconds_per_hour;
  return (minutes ? "minute " : "hour ") + number_with_one_digit(round.begin_s / (minutes ? 60 : seconds_per_hour)) +
         " (" + round.started + ")";
}

}  // namespace shakedown
