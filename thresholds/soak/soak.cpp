// Judges a series of rounds, with one rule for each thing that only a series shows.
//
// - A fact, an error or wrong data counts in any round.
// - A value that misses a limit or trails its peers counts if it does so in half of the rounds. It also counts if it
// does
//   so in three rounds in a row (two of fewer than 20), and its other misses are too rare to explain this by chance.
//   Otherwise it is a note.
// - A round is slow if the level is 15 % low and beyond 6 standard deviations of the rounds. This must show in several
//   metrics of the GPU alone or in two rounds in a row. The cause is another user of the GPU.
// - If more than half of the GPUs change in the same way, no GPU is named: the cause is the room, the power supply, or
//   a setting.
#include "thresholds/soak/soak.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/soak/deviant_bits.hpp"
#include "thresholds/soak/troubles.hpp"

namespace shakedown {
namespace {

constexpr double slow_round_share = 0.15, sigmas = 6;
constexpr std::size_t rows_for_one_round = 3;
constexpr double hour = 3600;

/// True for counters that stay constant on a healthy GPU. All other counters only cost time, or programs cause them.
bool is_fault_counter(const std::string& name) {
  return name == "ecc_uncorrected_ever" || name == "rows_remapped" || name == "remap_failed" || name == "xids";
}

std::string signed_percent(double part) {
  const auto text = percent_text(std::abs(part));
  return (part < 0 ? "-" : "+") + text;
}

class Judge {
 public:
  explicit Judge(const Soak& soak) : soak_(soak), rounds_(soak.rounds) {
    if (rounds_.empty()) throw InputError("no round of this soak is complete; wait for one");
    for (const SoakRound& round : rounds_) {
      for (const RankFacts& rank : round.ranks) {
        const auto unit = rank.uuid.value_or(rank.host + "/" + std::to_string(rank.local_rank));
        if (index_.emplace(unit, result_.units.size()).second) {
          names_.push_back(unit);
          result_.units.push_back(culprit(rank));
        }
      }
    }
  }

  SoakJudgement judge() {
    begin();
    judge_end();
    judge_restarts();
    judge_troubles();
    judge_counters();
    judge_bits();
    result_.trends = find_trends(soak_, names_);
    judge_hours();
    judge_slow_rounds();
    speak();
    conclude(result_.verdict);
    return std::move(result_);
  }

 private:
  using Places = std::vector<std::size_t>;

  void begin() {
    Verdict& verdict = result_.verdict;
    verdict.run_ids = {soak_.plan.run_id};
    verdict.started = soak_.plan.started;
    std::set<std::string> devices;
    for (const SoakRound& round : rounds_) {
      if (verdict.profile == Verdict{}.profile && !round.profile.empty()) verdict.profile = round.profile;
      if (!round.backend.empty()) verdict.backend = named<Backend>(round.backend);
      verdict.hosts = std::max(verdict.hosts, round.hosts);
      verdict.ranks = std::max(verdict.ranks, static_cast<int>(round.units.size()));
      verdict.families = std::max(verdict.families, round.families);
      verdict.judged_families = std::max(verdict.judged_families, round.judged_families);
      verdict.known_families = std::max(verdict.known_families, round.known_families);
      if (round.state == State::partial || round.state == State::fit) verdict.asked.names = soak_.plan.families;
      for (const RankFacts& rank : round.ranks) devices.insert(rank.device);
    }
    verdict.devices.assign(devices.begin(), devices.end());
    std::map<std::string, int> ranks_of;
    for (const Culprit& unit : result_.units) ++ranks_of[unit.host];
    for (const auto& [host, ranks] : ranks_of) verdict.nodes.push_back({host, ranks});
    verdict.notes.push_back("the order of the families and the pauses follow from the seed " +
                            std::to_string(soak_.plan.seed));
  }

  Finding& add(const std::string& what, Status status, bool counts, const std::string& detail) {
    Finding finding;
    finding.key = Key(what);
    classify(finding, finding.key == machine_key(Code::complete) ? Code::complete : Code::series, 2);
    finding.judgement = Judgement::series;
    finding.status = status;
    finding.severity = counts ? Severity::fail : Severity::warn;
    finding.detail = detail;
    result_.verdict.findings.push_back(std::move(finding));
    return result_.verdict.findings.back();
  }

  /// Adds a finding about a unit. If `place` is not a unit, it is a host.
  Finding& add_at(const std::string& what, const std::string& place, Status status, bool counts,
                  const std::string& detail) {
    const auto found = index_.find(place);
    if (found == index_.end()) {
      Finding& finding = add(place.empty() ? what : what + "/host:" + place, status, counts, detail);
      if (!place.empty()) name_offenders(finding, {Culprit{std::nullopt, place, std::nullopt, std::nullopt, {}}});
      return finding;
    }
    const Culprit& unit = result_.units[found->second];
    Finding& finding = add(what + "/rank:" + std::to_string(unit.rank.value_or(0)), status, counts, detail);
    name_offenders(finding, {unit});
    return finding;
  }

  /// Adds a finding about a unit, or about both ends of a link.
  Finding& add_at(const std::string& what, const std::vector<std::string>& places, Status status, bool counts,
                  const std::string& detail) {
    if (places.size() < 2) return add_at(what, places.empty() ? "" : places.front(), status, counts, detail);
    Finding& finding = add(what, status, counts, detail);
    std::vector<Culprit> ends;
    for (const std::string& place : places) {
      const auto known = index_.find(place);
      if (known == index_.end()) continue;
      ends.push_back(result_.units[known->second]);
      finding.key =
          Key(finding.key.text() + (ends.size() == 1 ? "/ranks:" : "-") + std::to_string(ends.back().rank.value_or(0)));
    }
    name_offenders(finding, ends);
    return finding;
  }

  std::string time(double seconds) const {
    return soak_.plan.duration_s < 2 * hour ? number_with_one_digit(seconds / 60) + " minutes"
                                            : number_with_one_digit(seconds / hour) + " hours";
  }

  /// Returns when this happened: "in 3 of 480 rounds, from hour 7.0 (...) to hour 7.1 (...)".
  std::string when(const std::vector<std::size_t>& rounds) const {
    const auto first = soak_.when(rounds_[rounds.front()]), last = soak_.when(rounds_[rounds.back()]);
    return "in " + std::to_string(rounds.size()) + " of " + plural(rounds_.size(), "round") +
           (rounds.size() == 1 ? ", at " + first : ", from " + first + " to " + last);
  }

  void judge_end() {
    const bool ended = soak_.complete();
    const auto unmeasured = static_cast<std::size_t>(std::count_if(rounds_.begin(), rounds_.end(), is_unmeasured));
    const bool complete = ended && unmeasured == 0;
    Finding& finding = add("machine/complete", complete ? Status::pass : Status::missing, true,
                           "ran for " + time(soak_.watched_s()) + " of " + time(soak_.plan.duration_s) + ", in " +
                               plural(rounds_.size(), "round") +
                               (unmeasured > 0 ? "; " + std::to_string(unmeasured) + " not measured" : ""));
    if (!ended) finding.next = "continue it with shakedown accept --resume";
    judge_rounds();
    judge_units();
  }

  /// Checks that each bad round has a reason, and that each good round has judged something.
  void judge_rounds() {
    Places silent, nothing;
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      const SoakRound& round = rounds_[i];
      const bool good = is_good(round.state);
      if (!good && round.findings.empty()) silent.push_back(i);
      if (good && (round.judged_families == 0 || round.units.empty())) nothing.push_back(i);
    }
    if (!silent.empty()) {
      add("watch/rounds/of:silent", Status::missing, true, "did not pass, but has no bad finding: " + when(silent));
    }
    if (!nothing.empty()) {
      add("watch/rounds/of:nothing", Status::missing, true, "passed, but nothing was judged: " + when(nothing));
    }
  }

  void judge_units() {
    for (const std::string& unit : names_) {
      if (rounds_.back().rank_of(unit) || rounds_.back().units.empty()) continue;
      Places with;
      for (std::size_t i = 0; i < rounds_.size(); ++i) {
        if (rounds_[i].rank_of(unit)) with.push_back(i);
      }
      add_at("watch/gone", unit, Status::missing, true, "was present " + when(with) + ", but is not in the last round");
    }
  }

  void judge_restarts() {
    std::map<std::string, std::string> boots;  // by host: its boot id
    for (const SoakRound& round : rounds_) {
      const auto& before =
          rounds_[static_cast<std::size_t>(&round - rounds_.data()) - (&round == rounds_.data() ? 0 : 1)];
      const auto gap = "between " + soak_.when(before) + " and " + soak_.when(round);
      bool restarted = false;
      for (const std::string& boot : round.boots) {
        const auto blank = boot.find(' ');
        const auto host = boot.substr(0, blank), id = boot.substr(std::min(boot.size(), blank));
        const auto [known, fresh] = boots.emplace(host, id);
        if (fresh || known->second == id) continue;
        known->second = id;
        restarted = true;
        Finding& finding = add_at("watch/restart", host, Status::inconclusive, true,
                                  host + " restarted " + gap + "; it is unknown whether this was on purpose");
        finding.next =
            on_host(host, "run last -x reboot shutdown; if nobody restarted the host on purpose, isolate it");
      }
      if (round.unwatched_s > 0 && !restarted) {
        result_.verdict.notes.push_back("the soak did not measure for " + time(round.unwatched_s) + " " + gap +
                                        ": it was stopped and resumed");
      }
    }
  }

  void judge_troubles() {
    for (const auto& [where, trouble] : troubles_of(rounds_)) {
      const bool counts = !trouble.figure || lasts(trouble.rounds, rounds_.size());
      std::string keys = trouble.keys.begin()->text();
      if (trouble.keys.size() > 1) keys += " and " + std::to_string(trouble.keys.size() - 1) + " more";
      std::string others;
      for (const std::size_t i : trouble.rounds) {
        if (others.empty() && where.places.size() == 1) others = others_at(i, where.places.front());
      }
      Finding& finding =
          add_at("watch/" + where.what.text(), where.places, trouble.worst, counts,
                 when(trouble.rounds) + ": " + keys + (trouble.detail.empty() ? "" : ": " + trouble.detail) + others +
                     (counts ? "" : "; a warning, because it happened once"));
      finding.value = static_cast<double>(trouble.rounds.size());
      finding.unit = "rounds";
    }
  }

  std::string others_at(std::size_t round, const std::string& unit) const {
    const auto rank = rounds_[round].rank_of(unit);
    const auto& others = rounds_[round].others;
    if (!rank || *rank >= others.size() || !others[*rank]) return "";
    return "; it was in use by " + *others[*rank];
  }

  void judge_counters() {
    for (const std::string& name : soak_.names(&SoakRound::counters)) {
      for (const std::string& unit : names_) {
        // Some counters begin at zero when the machine restarts.
        std::optional<double> first, last;
        double more = 0;
        std::vector<std::size_t> grown;
        each_value(soak_, &SoakRound::counters, name, unit, [&](std::size_t i, double value) {
          if (last && value > *last) {
            more += value - *last;
            grown.push_back(i);
          }
          first = first.value_or(value);
          last = value;
        });
        if (grown.empty()) continue;
        Finding& finding =
            add_at("watch/counters/of:" + name, unit, Status::fail, is_fault_counter(name),
                   name + " has grown " +
                       (more == *last - *first ? "from " + number_text(*first) + " to " + number_text(*last)
                                               : "by " + number_text(more)) +
                       " since the start, " + when(grown));
        finding.value = more;
        finding.limit = {LimitKind::max, 0};
      }
    }
  }

  /// Compares a unit with itself: its bits must be those of its other rounds with the same input and algorithm.
  void judge_bits() {
    for (const auto& [unit, bits] : deviant_bits(soak_, names_)) {
      add_at("watch/bits", unit, Status::fail, true,
             "the GPU computed different bits than in its other rounds from the same input with the same algorithm "
             "(silent data "
             "corruption), " +
                 when(bits.rounds) + ": " + bits.example.text());
    }
  }

  // Trends -----------------------------------------------------------------------------------------------------------

  std::string hour_text(std::size_t which) const {
    const double begin = static_cast<double>(which) * soak_.hour_s();
    for (const SoakRound& round : rounds_) {
      if (round.begin_s >= begin) return soak_.when(round);
    }
    return soak_.when(rounds_.back());
  }

  /// Returns a text such as "gemm is 3.0 % below its own first hour at worst, low from hour 6.0 (...) to the end; trend
  /// -0.30 % an hour (-0.31 to -0.29)".
  std::string loss_text(const SoakTrend& trend) const {
    double worst = 0;
    for (const std::size_t h : trend.low) worst = std::min(worst, *trend.hours[h]);
    std::string text = trend.name + " is " + percent_text(-worst) + " below its own first hour, low from " +
                       hour_text(trend.low.front()) + " to " +
                       (trend.low.back() + 1 == trend.hours.size() ? "the end" : hour_text(trend.low.back() + 1));
    if (trend.fit && trend.fit->low) {
      text += "; trend " + signed_percent(trend.fit->slope) + " an hour (" + signed_percent(*trend.fit->low) + " to " +
              signed_percent(*trend.fit->high) + ")";
    }
    return text;
  }

  /// True if more than half of the units change in the same way, so that no single unit is at fault.
  bool common(std::size_t count) const { return names_.size() > 1 && 2 * count > names_.size(); }

  bool is_judged() const {
    return result_.verdict.backend != Backend::host;
  }  // ranks of the host backend share its cores

  void judge_hours() {
    std::map<std::string, std::size_t> low_in;  // by class: its units
    for (const SoakTrend& trend : result_.trends) low_in[trend.name] += trend.low.empty() || trend.unit.empty() ? 0 : 1;
    std::map<std::string, std::vector<const SoakTrend*>> by_place;
    for (const SoakTrend& trend : result_.trends) {
      if (trend.low.empty()) continue;
      by_place[common(low_in[trend.name]) ? "" : trend.unit].push_back(&trend);
    }
    for (const auto& [place, trends] : by_place) {
      std::string detail;
      std::set<std::string> said;
      const SoakTrend* worst = trends.front();
      for (const SoakTrend* trend : trends) {
        constexpr std::size_t max_classes_named = 4;
        if (trend->low.size() > worst->low.size()) worst = trend;
        if (said.insert(trend->name).second && said.size() <= max_classes_named)
          detail += (detail.empty() ? "" : "; ") + loss_text(*trend);
      }
      if (place.empty()) detail += "; no single GPU: the cooling, the power supply, or another common cause";
      Finding& finding = add_at("watch/drift", place, Status::fail, is_judged(), detail);
      finding.value = 100 * *worst->hours[worst->low.back()];
      finding.limit = {LimitKind::min, -100 * worst->limit};
      finding.unit = "%";
      finding.source = "each GPU against its own first hour (docs/statistics.md)";
    }
  }

  void judge_slow_rounds() {
    // By rounds and unit: the classes.
    std::map<std::pair<std::vector<std::size_t>, std::string>, std::vector<std::string>> slow;
    for (const SoakTrend& trend : result_.trends) {
      std::vector<double> known;
      for (const auto& level : trend.levels) {
        if (level) known.push_back(*level);
      }
      if (known.empty()) continue;
      const double limit = std::max(slow_round_share, sigmas * robust_sigma(known));
      std::vector<std::size_t> rounds;
      for (std::size_t i = 0; i < rounds_.size(); ++i) {
        if (trend.levels[i] && *trend.levels[i] < -limit) rounds.push_back(i);
      }
      // One low value of one metric does not count, because it may be an accident. Metrics of the host do not count
      // either, because other work on the host affects them.
      if (trend.rows < rows_for_one_round || trend.through_host) {
        std::vector<std::size_t> pairs;
        for (const std::size_t i : rounds) {
          const auto is = [&](std::size_t other) { return std::binary_search(rounds.begin(), rounds.end(), other); };
          if (is(i + 1) || (i > 0 && is(i - 1))) pairs.push_back(i);
        }
        rounds = std::move(pairs);
      }
      if (!rounds.empty()) slow[{rounds, trend.unit}].push_back(trend.name);
    }
    std::map<std::string, std::pair<std::set<std::size_t>, std::set<std::string>>> by_unit;
    for (const auto& [where, classes] : slow) {
      by_unit[where.second].first.insert(where.first.begin(), where.first.end());
      by_unit[where.second].second.insert(classes.begin(), classes.end());
    }
    for (const auto& [unit, what] : by_unit) {
      std::string detail, others;
      std::vector<std::size_t> episode;
      const auto end = [&] {
        if (episode.empty()) return;
        detail += (detail.empty() ? "" : "; ") + when(episode);
        episode.clear();
      };
      for (const std::size_t i : what.first) {
        if (!episode.empty() && episode.back() + 1 != i) end();
        episode.push_back(i);
        if (others.empty()) others = others_at(i, unit);
      }
      end();
      Finding& finding = add_at("watch/slow", unit, Status::fail, is_judged(),
                                joined(what.second) + " more than " + percent_text(slow_round_share) +
                                    " below its own first hour " + detail + others);
      finding.value = static_cast<double>(what.first.size());
      finding.unit = "rounds";
    }
  }

  void speak() {
    std::size_t good = 0;
    for (const SoakRound& round : rounds_) good += is_good(round.state) ? 1 : 0;
    result_.verdict.summaries.push_back(
        {Judgement::series,
         std::to_string(good) + " of " + plural(rounds_.size(), "round") + " passed, in " + time(soak_.watched_s())});
  }

  const Soak& soak_;
  const std::vector<SoakRound>& rounds_;
  std::map<std::string, std::size_t> index_;
  std::vector<std::string> names_;  // names of the units
  SoakJudgement result_;
};

}  // namespace

SoakJudgement judge_soak(const Soak& soak) { return Judge(soak).judge(); }

}  // namespace shakedown
