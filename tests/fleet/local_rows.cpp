#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tests/fleet/families.hpp"

namespace shakedown::fleet {

namespace {

/// Other algorithms for bf16, stored: 2.8 % more per clock, at a clock that is as much lower.
constexpr double other_per_clock = 1.028, best_per_ghz_bf16 = 530;

Row gemm(const World& w, const std::string& key, const Json& like) {
  Row row = copied(w, key, like, as_local);
  auto stored = [&](const char* metric) { return numbers(like["by_rank"][metric]); };
  const auto per_ghz = stored("tflops_per_ghz"), mhz = stored("sm_mhz"), tflops = stored("tflops"),
             seconds = stored("seconds");
  Values agreement, work;
  for (std::size_t r = 0; r < tflops.size(); ++r) {
    agreement.push_back(tflops[r] / (per_ghz[r] * mhz[r] / 1000));
    work.push_back(tflops[r] * seconds[r]);
  }
  const bool cap = capped(like);
  double other = 1;
  if (cap && has(key, "bf16") && median(per_ghz) * other_per_clock < best_per_ghz_bf16 &&
      w.chances.dice(Kind::gemm, key).at("algorithm").uniform() < w.plan.noise.other_algorithm) {
    other = other_per_clock;
  }
  std::vector<Clock> clocks;
  for (int r = 0; r < w.site.count(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    clocks.push_back(w.clock(key, r, median(mhz) / other, cap));
    const double rate = below(median(per_ghz) * w.good(Kind::gemm, key, r),
                              largest(per_ghz) * headroom[static_cast<std::size_t>(Kind::gemm)]) *
                        other / w.damage.longer(r, key);
    row.by_rank["tflops_per_ghz"][at] = rate;
    row.by_rank["tflops"][at] = median(agreement) * rate * clocks.back().mhz / 1000;
    row.by_rank["seconds"][at] = median(work) / row.by_rank["tflops"][at];
  }
  for (auto& value : row.by_rank["sm_mhz"]) value = median(mhz);
  add_telemetry(w, row, like, &clocks);
  for (std::size_t r = 0; r < w.site.gpus().size() && row.by_rank.contains("tflops_per_w"); ++r) {
    row.by_rank["tflops_per_w"][r] = row.by_rank["tflops"][r] / row.by_rank["power_w"][r];
  }
  finish(w, row, like, "tflops", false, false);
  return row;
}

/// Local work: one figure per rank, by its own time. `rate` is how fast a rank is in it, 1 being usual; nothing where
/// it only stands by.
Row local(const World& w, const std::string& key, const Json& like, const Like& as,
          const std::function<std::optional<double>(int)>& rate, double most = HUGE_VAL) {
  const auto kind = kind_of(key);
  const bool time = kind == Kind::latency;
  const std::string headline = time                                        ? "latency_us"
                               : like["by_rank"].contains("copy_gb_per_s") ? "copy_gb_per_s"
                                                                           : "hbm_gb_per_s";
  Row row = copied(w, key, like, as);
  const auto stored = numbers(like["by_rank"][headline]);
  const double usual = median(stored), spent = median(numbers(like["by_rank"]["seconds"]));
  const double fastest = time ? usual / largest(stored, -1) : largest(stored) / usual;
  for (int r = 0; r < w.site.count(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    const auto own = rate(r);
    const double quick =
        !own ? unknown
             : std::min(below(w.good(kind, key, r), fastest * headroom[static_cast<std::size_t>(kind)]) * *own,
                        most / usual);
    row.by_rank[headline][at] = time ? usual / quick : usual * quick;
    row.by_rank["seconds"][at] = spent / quick;
  }
  add_telemetry(w, row, like, nullptr);
  finish(w, row, like, headline, time, false);
  if (row.head.contains("copy_gb_per_s") && headline == "hbm_gb_per_s")
    row.head["copy_gb_per_s"] = number(row.head["hbm_gb_per_s"]) / 2;
  return row;
}

/// A figure that is looked at again where a rank is so far off.
struct Doubted {
  std::string metric;
  double off;
};

using Make = std::function<Row(const World&)>;

void repetitions(std::vector<Row>& rows, const Rows& take) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].head["repetitions"] = rows.size();
    rows[i].head["repetition_index"] = i;
    take(rows[i]);
  }
}

/// As the programs do it (docs/measuring.md): where a value is far off and no other row is of its type, direction or
/// kind, the row is measured twice more. `alone`: of a pair, which no other row has.
void measured(const World& w, const Make& make, const std::vector<Doubted>& doubted, const Rows& take,
              bool alone = false) {
  std::vector<Row> rows{make(w)};
  const auto sort_of = [](const std::string& key) {
    const auto parts = std::count(key.begin(), key.end(), '/');
    return parts == 0 ? key : key.substr(0, key.find('/', key.find('/') + 1));
  };
  const std::string key = rows.front().key, family = key.substr(0, key.find('/'));
  int alike = 0;
  for (const auto& other : w.templates.at(family)["benchmarks"]) {
    const auto name = key_of(other["name"]);
    alike += sort_of(name) == sort_of(key) && !has(name, "load:") ? 1 : 0;
  }
  const auto is_off = [&](const Doubted& of) {
    const auto& values = rows.front().by_rank[of.metric];
    const double usual = median(values), highest = largest(values), lowest = largest(values, -1);
    return of.metric == "latency_us" ? highest / usual - 1 > of.off
                                     : 1 - lowest / (w.site.count() == 2 ? highest : usual) > of.off;
  };
  // A GPU that is a tenth slower than in other rows, for which this row stands as it would be another time.
  const auto is_odd = [&](const Row& other) {
    for (const Doubted& of : doubted) {
      const auto &values = rows.front().by_rank[of.metric], &others = other.by_rank.at(of.metric);
      for (std::size_t r = 0; r < values.size(); ++r) {
        if (others[r] * 0.9 > values[r]) return true;
      }
    }
    return false;
  };
  bool again = (alone || alike == 1) && std::any_of(doubted.begin(), doubted.end(), is_off);
  if (alike > 1 && (family == "gemm" || family == "hbm")) {
    again = is_odd(make(w.at_attempt(3)));
  }
  again = again && !has(key, "load:");
  for (std::uint64_t attempt = 1; again && attempt < 3; ++attempt) rows.push_back(make(w.at_attempt(attempt)));
  repetitions(rows, take);
}

}  // namespace

void local_rows(const World& w, const std::string& key, const Json& like, const Rows& take) {
  const auto rank = part(key, "rank");
  if (starts(key, "gemm"))
    return measured(
        w, [&](const World& at) { return gemm(at, key, like); }, {{"tflops_per_ghz", 0.0235}, {"tflops", 0.11}}, take);
  if (!starts(key, "pcie")) {
    const auto make = [&](const World& at) {
      return local(at, key, like, as_local, [&](int r) { return 1 / w.damage.longer(r, key); });
    };
    return measured(w, make, {{"hbm_gb_per_s", starts(key, "hbm") ? 0.03 : 0.06}}, take);
  }
  // Half the lanes limit each direction to half of what one GPU alone has.
  const double alone =
      largest(numbers(w.of_template("pcie/op:h2d/active:one/rank:0/bytes:268435456")["by_rank"]["copy_gb_per_s"]));
  const auto limited = [&](const Row& row, int r, double value) {
    for (const auto& fault : w.plan.faults) {
      if (fault.kind == "pcie" && w.site.strikes(fault, r))
        value = std::min(value, alone / 2 * (has(row.key, "op:both") ? 2 : 1));
    }
    return value;
  };
  if (rank && *rank != 0) return;  // all are made from the first
  const auto of = [&](int only, std::uint64_t attempt = 0) {
    const auto one = rank ? with_part(key, "rank", only) : key;
    const auto& source = rank ? w.of_template(with_part(key, "rank", only % 4)) : like;
    const auto as = [&](int l) { return !rank || l == only || l % 4 != only % 4 ? l % 4 : (l + 1) % 4; };
    const double usual = median(numbers(source["by_rank"]["copy_gb_per_s"]));
    const Row row{one, {}};
    const auto rate = [&](int r) -> std::optional<double> {
      if (rank && w.site.gpu(r).local != only) return std::nullopt;
      return std::min(1 / w.damage.longer(r, one), limited(row, r, usual) / usual);
    };
    return local(w.at_attempt(attempt), one, source, as, rate, alone * (has(key, "op:both") ? 2 : 1));
  };
  // As the programs do it: what is lower than what this copy reaches elsewhere is measured twice more.
  std::vector<std::vector<Row>> rows;
  Values all;
  for (int only = 0; only < (rank ? w.site.local_most() : 1); ++only) {
    rows.push_back({of(only)});
    for (const double value : rows.back().front().by_rank["copy_gb_per_s"]) {
      if (std::isfinite(value)) all.push_back(value);
    }
  }
  const double low = (w.site.count() == 2 ? largest(all) : median(all)) * (1 - (rank ? 0.05 : 0.1));
  for (int only = 0; only < static_cast<int>(rows.size()); ++only) {
    auto& those = rows[static_cast<std::size_t>(only)];
    const auto& values = those.front().by_rank["copy_gb_per_s"];
    const bool again = std::any_of(values.begin(), values.end(), [&](double value) { return value < low; });
    for (std::uint64_t attempt = 1; again && attempt < 3; ++attempt) those.push_back(of(only, attempt));
    repetitions(those, take);
  }
}

void peer_rows(const World& w, const std::string& key, const Rows& take) {
  const auto src = part(key, "src"), dst = part(key, "dst"), shift = part(key, "shift");
  if (w.site.local_most() < 2 || (src && (*src != 0 || *dst != 1)) || (shift && *shift != 1))
    return;  // made from the first
  const bool both = has(key, "dir:both");
  const auto slow = [&](int from, int to, const std::string& one) {
    return w.damage.path(from, to) / std::max(w.damage.longer(from, one), w.damage.longer(to, one));
  };
  const auto add = [&](const Make& make) {
    has(key, "op:latency") ? measured(w, make, {{"latency_us", 0.1}}, take, true) : take(make(w));
  };
  if (shift) {
    for (int by = 1; by < w.site.local_most(); ++by) {
      const auto one = with_part(key, "shift", by);
      const auto rate = [&](int r) -> std::optional<double> {
        const int n = w.site.on_host(w.site.gpu(r).host);
        if (by >= n) return std::nullopt;
        return slow(w.site.rank_at(w.site.gpu(r).host, (w.site.gpu(r).local - by + n) % n), r, one);
      };
      add([&](const World& at) {
        return local(at, one, w.of_template(with_part(key, "shift", (by - 1) % 3 + 1)), as_local, rate);
      });
    }
    return;
  }
  for (int from = 0; from < w.site.local_most(); ++from) {
    for (int to = both ? from + 1 : 0; to < w.site.local_most(); ++to) {
      if (from == to) continue;
      int s = from % 4, d = to % 4 == s ? (s + 1) % 4 : to % 4;
      if (both && s > d) std::swap(s, d);
      const auto one = with_part(with_part(key, "src", from), "dst", to);
      const auto as = [&](int l) {
        if (l == from || l == to) return (l == from) ? s : d;
        int other = l % 4;
        while (other == s || other == d) other = (other + 1) % 4;
        return other;
      };
      const auto rate = [&](int r) -> std::optional<double> {
        const int l = w.site.gpu(r).local, peer = w.site.rank_at(w.site.gpu(r).host, l == to ? from : to);
        if (peer < 0 || (l != to && !(both && l == from))) return std::nullopt;
        if (has(key, "op:latency")) return 1 / std::max(w.damage.longer(r, one), w.damage.longer(peer, one));
        return slow(peer, r, one);
      };
      add([&](const World& at) {
        return local(at, one, w.of_template(with_part(with_part(key, "src", s), "dst", d)), as, rate);
      });
    }
  }
}

}  // namespace shakedown::fleet
