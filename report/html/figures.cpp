// The figures of the page: GPUs against their peers, copies between GPUs, collectives over size, rates against floor
// and ceiling, clocks and heat, the parts of a training step. One file, since they share heat tables, scales and
// captions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "report/escape.hpp"
#include "report/html/sections.hpp"
#include "report/html/svg.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/metrics.hpp"
#include "thresholds/results/matrix.hpp"
#include "thresholds/rules/applicability.hpp"

namespace shakedown {
namespace {

// Beyond so many GPUs all are shown as a distribution, too.
constexpr std::size_t max_gpus_in_full = 64;
constexpr int min_points = 5;  // of a line over sizes

std::string rank_name(const RankFacts& rank) {
  return std::to_string(rank.rank) + " " + rank.host + " GPU " + std::to_string(rank.local_rank);
}

std::string figure(const std::string& caption, const std::string& body) {
  return body.empty() ? "" : "<figure><figcaption>" + html_escaped(caption) + "</figcaption>" + body + "</figure>";
}

std::string heat_cell(const std::string& text, const std::string& classes = "") {
  return "<td" + (classes.empty() ? "" : " class=\"" + classes + "\"") + ">" + html_escaped(text) + "</td>";
}

std::string heat_head(const std::string& corner, const std::vector<std::string>& columns) {
  std::string out = "<thead><tr><td>" + html_escaped(corner) + "</td>";
  for (const std::string& column : columns) out += "<th scope=\"col\">" + html_escaped(column) + "</th>";
  return out + "</tr></thead>";
}

std::string heat(const std::string& head, const std::string& rows) {
  return "<div class=\"wide\" tabindex=\"0\"><table class=\"heat\">" + head + "<tbody>" + rows +
         "</tbody></table></div>";
}

// The tint of how far a value is on the bad side, in parts of what is no more healthy.
std::string tint(double part) {
  if (part >= 1) return "w4";
  if (part >= 0.75) return "w3";
  if (part >= 0.5) return "w2";
  if (part >= 0.25) return "w1";
  if (part <= -0.75) return "b2";
  return part <= -0.25 ? "b1" : "";
}

// ---------------------------------------------------------------------------------------------------------------------
// GPUs against their peers

double limit_of(const Column& group) { return std::max(group.limit, group.kind.class_effect); }

// Raw GEMM of one type follows the clock that each chip has; its rate per GHz says more.
std::vector<const Column*> gpu_groups(const UnitTable& table) {
  std::set<std::string> per_clock;
  for (const Column& group : table.columns) {
    if (group.metric == "tflops_per_ghz") per_clock.insert(group.name);
  }
  std::vector<const Column*> groups;
  for (const Column& group : table.columns) {
    const bool of_links = group.cells.empty() || family_of(group.name) == "p2p";  // they have a matrix
    const bool repeats = group.metric == "tflops" && group.name != "gemm" && per_clock.contains(group.name);
    if (!of_links && !repeats) groups.push_back(&group);
  }
  return groups;
}

std::string name_of(const Column& group) {
  std::string text = group.name;
  if (const auto dtype = key_part(text, "dtype"); !dtype.empty()) text = family_of(text) + " " + std::string(dtype);
  std::replace(text.begin(), text.end(), '/', ' ');
  return text + (group.metric == "tflops_per_ghz" ? " per GHz" : group.metric == "capacity_gb" ? " size" : "");
}

/// Ranks in their order, or of very many the worst: those that stand out or come close to it.
std::vector<int> shown_ranks(const Page& page, const std::vector<const Column*>& groups) {
  std::vector<double> worst(page.context->ranks.size(), -1);
  for (const Column* group : groups) {
    for (const Cell& cell : group->cells) {
      auto& part = worst[static_cast<std::size_t>(cell.unit.rank)];
      part = std::max(part, cell.shortfall / limit_of(*group));
    }
  }
  std::vector<int> ranks(worst.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (ranks.size() <= max_gpus_in_full) return ranks;
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return worst[static_cast<std::size_t>(a)] > worst[static_cast<std::size_t>(b)];
  });
  ranks.resize(max_gpus);
  return ranks;
}

std::string peers_heat(const Page& page, const std::vector<const Column*>& groups, const std::vector<int>& ranks) {
  std::vector<std::string> columns;
  std::vector<std::map<int, const Cell*>> units(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    columns.push_back(name_of(*groups[i]));
    for (const Cell& cell : groups[i]->cells) units[i].emplace(cell.unit.rank, &cell);
  }
  std::string rows;
  for (const int rank : ranks) {
    const RankFacts& facts = page.context->ranks[static_cast<std::size_t>(rank)];
    rows += "<tr><th scope=\"row\" title=\"" + html_escaped(facts.uuid.value_or("")) + "\">" +
            html_escaped(rank_name(facts)) + "</th>";
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto found = units[i].find(rank);
      if (found == units[i].end()) {
        rows += "<td></td>";
        continue;
      }
      const Cell& cell = *found->second;
      const double tenths = std::round(-1000 * cell.shortfall) / 10;
      rows += heat_cell((tenths == 0 ? "0.0" : fmt::format("{:+.1f}", tenths)) + (cell.out ? " !" : ""),
                        joined_words(tint(cell.shortfall / limit_of(*groups[i])), cell.out ? "out" : ""));
    }
    rows += "</tr>\n";
  }
  std::string limits = "<tr><th scope=\"row\">stands out beyond</th>";
  for (const Column* group : groups) limits += heat_cell(fmt::format("{:.1f}", -100 * limit_of(*group)));
  return heat(heat_head("rank", columns), rows + limits + "</tr>");
}

std::string against_peers(const Page& page) {
  const auto groups = gpu_groups(page.peers);
  if (groups.empty()) return "";
  const auto ranks = shown_ranks(page, groups);
  const bool all = ranks.size() == page.context->ranks.size();
  std::string out =
      figure(all ? "Percent above or below the middle of all GPUs; ! stands out."
                 : "The " + std::to_string(ranks.size()) + " worst of " + std::to_string(page.context->ranks.size()) +
                       " GPUs, in percent above or below the middle of all; ! stands out.",
             peers_heat(page, groups, ranks));
  if (!all) {
    std::string many;
    for (const Column* group : groups) {
      std::vector<double> values;
      for (const Cell& cell : group->cells) values.push_back(-100 * cell.shortfall);
      many += figure(name_of(*group), svg::distribution(name_of(*group) + " of all GPUs", std::move(values),
                                                        -100 * limit_of(*group), "%"));
    }
    out +=
        "<h3>All GPUs</h3><p class=\"soft\">How many are how far from the middle; heights by the logarithm, so that "
        "one in 10,000 is seen. Orange values, left of the dashed line, are outliers.</p><div class=\"many\">" +
        many + "</div>";
  }
  return section("peers", "GPUs against each other",
                 "A GPU is judged by the middle of its values in a class, not by its worst one.", out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Copies

struct Shown {
  PairMatrix matrix;
  double centre = 0;  // of all hosts
  double worst = 0;   // shortfall of its worst cell
};

double shortfall(double value, double centre, const std::string& metric) {
  if (centre == 0) return 0;
  return lower_is_better(metric) ? value / centre - 1 : 1 - value / centre;
}

std::vector<Shown> matrices(const Page& page) {
  std::vector<Shown> all;
  std::map<std::string, std::vector<double>> values;
  for (const Results& file : page.judged.measured->files) {
    if (file.context.world_size != page.context->world_size) continue;
    for (PairMatrix& matrix : pair_matrices(file.context, file.rows)) {
      for (const auto& row : matrix.values) {
        for (const auto& value : row) {
          if (value) values[matrix.key].push_back(*value);
        }
      }
      all.push_back({std::move(matrix), 0, 0});
    }
  }
  std::map<std::string, double> centres;
  for (auto& [key, numbers] : values) centres[key] = median(std::move(numbers));
  for (Shown& shown : all) {
    shown.centre = centres[shown.matrix.key];
    if (const auto worst = shown.matrix.worst()) {
      shown.worst = shortfall(worst->value, shown.centre, shown.matrix.metric);
    }
  }
  return all;
}

std::string matrix_table(const Shown& shown) {
  const PairMatrix& m = shown.matrix;
  const auto worst = m.worst();
  // What stands out among copies is known of the catalogue; a latency may differ more.
  const double max_healthy_shortfall = lower_is_better(m.metric) ? 0.2 : 0.03;
  std::vector<std::string> columns;
  for (std::size_t dst = 0; dst < m.values.size(); ++dst) columns.push_back(std::to_string(dst));
  std::string rows;
  for (std::size_t src = 0; src < m.values.size(); ++src) {
    rows += "<tr><th scope=\"row\">" + std::to_string(src) + "</th>";
    for (std::size_t dst = 0; dst < m.values[src].size(); ++dst) {
      const auto& value = m.values[src][dst];
      if (!value) {
        rows += "<td></td>";
        continue;
      }
      const double off = shortfall(*value, shown.centre, m.metric) / max_healthy_shortfall;
      const bool is_worst = worst && worst->src == static_cast<int>(src) && worst->dst == static_cast<int>(dst);
      rows += heat_cell(fmt::format("{:.{}f}{}", *value, lower_is_better(m.metric) ? 2 : 1, off >= 1 ? " !" : ""),
                        joined_words(tint(off), is_worst && off >= 1 ? "out" : ""));
    }
    rows += "</tr>\n";
  }
  return figure(m.key.text() + " on " + m.host + ", " + unit_of(m.metric) +
                    (worst ? "; worst " + std::to_string(worst->src) + " to " + std::to_string(worst->dst) : ""),
                heat(heat_head("from\\to", columns), rows));
}

std::string copies(const Page& page) {
  std::vector<Shown> all = matrices(page);
  if (all.empty()) return "";
  const std::size_t count = all.size();
  std::stable_sort(all.begin(), all.end(), [](const Shown& a, const Shown& b) { return a.worst > b.worst; });
  if (all.size() > max_matrices) all.resize(max_matrices);
  std::string out = "<div class=\"many\">";
  for (const Shown& shown : all) out += matrix_table(shown);
  out += "</div>";
  if (count > all.size())
    out += "<p class=\"soft\">The worst " + std::to_string(all.size()) + " of " + std::to_string(count) + ".</p>";
  return section("copies", "Copies between the GPUs of a host",
                 "Source by row, destination by column. Tinted: below the middle of all such copies; ! by more than is "
                 "healthy.",
                 out);
}

// Every host by rail: the best of its rounds with partners on other hosts, since a pair is as fast as its slower end.
std::string rails(const Page& page) {
  constexpr double max_healthy_shortfall = 0.05;  // as thresholds/culprits/fabric.hpp takes it
  std::vector<std::optional<double>> best(page.context->ranks.size());
  for (const auto& [key, benchmark] : page.judged.measured->benchmarks) {
    if (family_of(key) != "pairs" || key_number(key, "confirm") || key_part(key, "op") != "sendrecv") continue;
    const auto values = rank_values(benchmark, "busbw_gb_per_s");
    for (std::size_t rank = 0; rank < std::min(values.size(), best.size()); ++rank) {
      if (values[rank]) best[rank] = std::max(best[rank].value_or(0), *values[rank]);
    }
  }
  struct Line {
    std::vector<std::optional<double>> rails;
    double worst = -1;
  };
  std::map<std::string, Line> hosts;
  std::vector<std::vector<double>> of_rail;
  for (const RankFacts& rank : page.context->ranks) {
    const auto& value = best[static_cast<std::size_t>(rank.rank)];
    const auto rail = static_cast<std::size_t>(rank.local_rank);
    auto& line = hosts[rank.host].rails;
    line.resize(std::max(line.size(), rail + 1));
    of_rail.resize(std::max(of_rail.size(), rail + 1));
    line[rail] = value;
    if (value) of_rail[rail].push_back(*value);
  }
  std::vector<std::string> columns;
  std::vector<double> centres;
  for (auto& values : of_rail) {
    columns.push_back("rail " + std::to_string(columns.size()));
    centres.push_back(values.empty() ? 0 : median(std::move(values)));
  }
  if (std::all_of(centres.begin(), centres.end(), [](double centre) { return centre == 0; })) return "";
  std::vector<std::pair<std::string, Line>> lines(hosts.begin(), hosts.end());
  for (auto& [host, line] : lines) {
    for (std::size_t rail = 0; rail < line.rails.size(); ++rail) {
      // Who never answered is as bad as can be.
      const double off = line.rails[rail] ? shortfall(*line.rails[rail], centres[rail], "busbw_gb_per_s") : 1;
      line.worst = std::max(line.worst, off);
    }
  }
  const std::size_t count = lines.size();
  if (count > max_gpus) {
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto& a, const auto& b) { return a.second.worst > b.second.worst; });
    lines.resize(max_gpus);
  }
  std::string rows;
  for (const auto& [host, line] : lines) {
    rows += "<tr><th scope=\"row\">" + html_escaped(host) + "</th>";
    for (std::size_t rail = 0; rail < line.rails.size(); ++rail) {
      const auto& value = line.rails[rail];
      const double off = value ? shortfall(*value, centres[rail], "busbw_gb_per_s") / max_healthy_shortfall : 1;
      rows += heat_cell(value ? fmt::format("{:.1f}{}", *value, off >= 1 ? " !" : "") : "silent !",
                        joined_words(tint(off), off >= 1 ? "out" : ""));
    }
    rows += "</tr>\n";
  }
  return section(
      "rails", "Hosts by rail",
      "GB/s each way with partners on other hosts, the best of the rounds; ! is more than 5 % below the middle "
      "of the rail.",
      heat(heat_head("host", columns), rows) + (count > lines.size()
                                                    ? "<p class=\"soft\">The worst " + std::to_string(lines.size()) +
                                                          " of " + std::to_string(count) + ".</p>"
                                                    : ""));
}

// ---------------------------------------------------------------------------------------------------------------------
// Rates against floor and ceiling

class Rates {
 public:
  explicit Rates(const Page& page) : page_(page) {
    for (const Finding& f : page.verdict.findings) {
      if (f.judgement == Judgement::rule && f.limit && f.limit->kind == LimitKind::min && f.counts()) {
        floors_.emplace(std::pair(f.key, f.metric), f.limit->value);
      }
    }
  }

  std::optional<double> floor(const std::string& key, const std::string& metric) const {
    const auto found = floors_.find({key, metric});
    return found == floors_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<double> roof(const Benchmark& benchmark, const std::string& metric) const {
    if (page_.profile == nullptr) return std::nullopt;
    const auto most = ceiling(page_.profile->peak, benchmark.key, metric, scale_of(*benchmark.context));
    // That of a copy to the host is of any link that a host may have: far from PCIe, it says nothing.
    return family_of(benchmark.key) == "pcie" ? std::nullopt : most;
  }

 private:
  const Page& page_;
  std::map<std::pair<std::string, std::string>, double> floors_;
};

std::string over_size(const Page& page, const Rates& rates) {
  const std::string metric = "busbw_gb_per_s";
  std::map<std::string, std::map<double, const Benchmark*>> series;  // by the key without its size
  for (const auto& [key, benchmark] : page.judged.measured->benchmarks) {
    const auto bytes = key_number(key, "bytes");
    if (!is_collective(family_of(key)) || !bytes || *bytes <= 0) continue;
    series[with_part(key, "bytes", "N")].emplace(static_cast<double>(*bytes), &benchmark);
  }
  std::string out;
  for (const auto& [name, sizes] : series) {
    svg::Line measured{"measured", "main", {}, true}, floor{"floor", "floor", {}, true}, roof{"ceiling", "roof", {}};
    for (const auto& [bytes, benchmark] : sizes) {
      const auto value = run_value(*benchmark, metric);
      if (!value) continue;
      const std::string size = svg::bytes_text(bytes);
      measured.points.push_back({bytes, *value, size + ": " + quantity_text(*value, "GB/s")});
      if (const auto limit = rates.floor(benchmark->key, metric)) {
        floor.points.push_back({bytes, *limit, "floor " + number_text(*limit)});
      }
      if (const auto limit = rates.roof(*benchmark, metric)) roof.points.push_back({bytes, *limit, ""});
    }
    if (measured.points.size() < min_points) continue;
    out += figure(name + " over its size; bus bandwidth in GB/s",
                  "<div class=\"wide\" tabindex=\"0\">" +
                      svg::over_bytes(name + ": bus bandwidth over size", "GB/s", {roof, measured, floor}) + "</div>");
    std::string table;
    for (const auto& [bytes, benchmark] : sizes) {
      const auto value = run_value(*benchmark, metric), latency = run_value(*benchmark, "latency_us");
      table += "<tr><th scope=\"row\">" + svg::bytes_text(bytes) + "</th>" +
               cell(value ? number_text(*value) : "-", "GB/s") + cell(latency ? number_text(*latency) : "-", "us") +
               "</tr>";
    }
    out +=
        folded("the same as a table", "<table class=\"tight\">" + heads({"size", "bus bandwidth, GB/s", "time, us"}) +
                                          "<tbody>" + table + "</tbody></table>");
  }
  return section("over-size", "Collectives over size",
                 "Bus bandwidth counts what the busiest link carries. The dashed line joins the floors of the profile, "
                 "the dotted one is what the hardware can do.",
                 out);
}

std::string bar_row(const Benchmark& benchmark, const std::string& metric, const Rates& rates) {
  const auto value = run_value(benchmark, metric);
  if (!value) return "";
  const auto floor = rates.floor(benchmark.key, metric), roof = rates.roof(benchmark, metric);
  const double full = roof ? *roof : 1.15 * std::max(*value, floor.value_or(0));
  if (full <= 0) return "";
  const bool low = floor && *value < *floor;
  const std::string unit = unit_of(metric);
  const auto part = [&](double number) { return number / full; };
  return "<tr>" + name_cell(benchmark.key, "") + "<td>" +
         svg::bar(benchmark.key.text() + ": " + quantity_text(*value, unit) + (low ? ", below its floor" : ""),
                  part(*value), floor ? std::optional(part(*floor)) : std::nullopt, low) +
         "</td>" + cell(quantity_text(*value, unit) + (low ? " !" : ""), "slowest") +
         cell(floor ? number_text(*floor) : "-", "floor") +
         cell(roof ? number_text(*roof) + fmt::format(" ({:.0f} %)", 100 * *value / *roof) : "-", "ceiling") +
         "</tr>\n";
}

std::string bars(const Page& page, const Rates& rates) {
  std::map<std::string, std::string> rows;
  for (const auto& [key, benchmark] : page.judged.measured->benchmarks) {
    const std::string family = family_of(key), metric = headline_metric(benchmark);
    const bool of_pair = key_number(key, "src") || key_number(key, "rank") || key_number(key, "shift");
    const bool small = family == "allreduce" || key_number(key, "bytes").value_or(1 << 30) < (1 << 27);
    if (metric.empty() || lower_is_better(metric) || of_pair || small) continue;
    rows[family] += bar_row(benchmark, metric, rates);
  }
  std::string out;
  for (const auto& [family, body] : rows) {
    if (body.empty()) continue;
    out += "<h3>" + html_escaped(family) + "</h3><table class=\"tight stack\">" +
           heads({"benchmark", "of the ceiling", "slowest", "floor", "ceiling"}) + "<tbody>" + body +
           "</tbody></table>";
  }
  return section("rates", "Rates, floors and ceilings",
                 "Bars show the slowest GPU as a part of what the hardware can do; the red mark is the floor that the "
                 "profile asks for. ! is below it.",
                 out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Clock, heat and power

struct Sensor {
  const char* name;
  const char* title;
  const char* unit;
  double healthy;    // a difference from the middle of more than this is marked
  bool high_is_bad;  // else what is low
};
constexpr std::array<Sensor, 3> sensors{{{"sm_mhz", "Clock", "MHz", 0.12, false},
                                         {"temperature_c", "Temperature", "C", 0.25, true},
                                         {"power_w", "Power", "W", 0, false}}};

// By rank the middle of what a family showed; of heat the most.
std::vector<std::optional<double>> by_family(const Page& page, const std::string& family, const Sensor& sensor) {
  std::vector<std::vector<double>> values(page.context->ranks.size());
  for (const auto& [key, benchmark] : page.judged.measured->benchmarks) {
    if (family_of(key) != family || benchmark.context->world_size != page.context->world_size) continue;
    const auto column = rank_values(benchmark, sensor.name);
    for (std::size_t rank = 0; rank < std::min(column.size(), values.size()); ++rank) {
      if (column[rank]) values[rank].push_back(*column[rank]);
    }
  }
  std::vector<std::optional<double>> out(values.size());
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank].empty()) continue;
    out[rank] = sensor.high_is_bad ? *std::max_element(values[rank].begin(), values[rank].end())
                                   : median(std::move(values[rank]));
  }
  return out;
}

std::string sensor_table(const Page& page, const Sensor& sensor, const std::set<std::string>& families,
                         const std::vector<int>& ranks, std::string& many) {
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<double>>> values;
  std::vector<double> centres;
  for (const std::string& family : families) {
    auto column = by_family(page, family, sensor);
    std::vector<double> known;
    for (const auto& value : column) {
      if (value) known.push_back(*value);
    }
    if (known.empty()) continue;
    columns.push_back(family);
    centres.push_back(median(known));
    values.push_back(std::move(column));
    if (ranks.size() == page.context->ranks.size() || (family != "gemm" && !is_training(family))) continue;
    const std::string name = std::string(sensor.title) + " in " + family;
    many += figure(name, svg::distribution(name, std::move(known), std::nullopt, sensor.unit));
  }
  if (columns.empty()) return "";
  std::string rows;
  for (const int rank : ranks) {
    rows += "<tr><th scope=\"row\">" + html_escaped(rank_name(page.context->ranks[static_cast<std::size_t>(rank)])) +
            "</th>";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto& value = values[i][static_cast<std::size_t>(rank)];
      if (!value) {
        rows += "<td></td>";
        continue;
      }
      const double off = centres[i] == 0 ? 0 : *value / centres[i] - 1;
      std::string classes;
      if (sensor.healthy > 0) {
        classes = tint((sensor.high_is_bad ? off : -off) / sensor.healthy);
      } else {
        classes = std::abs(off) > 0.1 ? "n3" : std::abs(off) > 0.05 ? "n2" : std::abs(off) > 0.02 ? "n1" : "";
      }
      rows += heat_cell(fmt::format("{:.0f}", *value), classes);
    }
    rows += "</tr>\n";
  }
  return figure(std::string(sensor.title) + ", " + sensor.unit, heat(heat_head("rank", columns), rows));
}

std::string heat_and_power(const Page& page) {
  std::set<std::string> families;
  for (const auto& [key, benchmark] : page.judged.measured->benchmarks) {
    if (family_of(key) != "preflight") families.insert(family_of(key));
  }
  const auto ranks = shown_ranks(page, gpu_groups(page.peers));
  std::string tables, many;
  for (const Sensor& sensor : sensors) tables += sensor_table(page, sensor, families, ranks, many);
  if (tables.empty()) return "";
  return section(
      "heat", "Clock, heat and power while it worked",
      "By GPU and kind of benchmark: the middle of the clock and of the power, the highest temperature. Tinted: "
      "lower clock or hotter than the middle of all GPUs; power that differs.",
      "<div class=\"many\">" + tables + "</div>" +
          (many.empty() ? "" : "<h3>All GPUs</h3><div class=\"many\">" + many + "</div>"));
}

// ---------------------------------------------------------------------------------------------------------------------
// A training step

std::string step_parts(const Page& page) {
  constexpr std::array<std::array<const char*, 3>, 4> parts{{{"forward_ms", "forward", "f1"},
                                                             {"backward_ms", "backward", "f2"},
                                                             {"exposed_comm_ms", "waiting for others", "f3"},
                                                             {"optimizer_ms", "optimizer", "f4"}}};
  constexpr std::size_t max_ranks_shown = 16;
  std::string out;
  for (const auto& [key, benchmark] : page.judged.measured->benchmarks) {
    std::map<std::string, std::vector<std::optional<double>>> values;
    for (const auto& part : parts) values[part[0]] = rank_values(benchmark, part[0]);
    const auto step = run_value(benchmark, "step_ms");
    const std::size_t ranks = values["forward_ms"].size();
    if (ranks == 0 || !step) continue;
    const auto at = [&](const char* name, std::size_t rank) {
      return rank < values[name].size() ? values[name][rank].value_or(0) : 0;
    };
    // The others wait for the rank that waits least.
    std::vector<std::size_t> order(ranks);
    std::iota(order.begin(), order.end(), 0u);
    if (ranks > max_ranks_shown) {
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return at("exposed_comm_ms", a) < at("exposed_comm_ms", b);
      });
      order.resize(max_ranks_shown);
    }
    std::string rows;
    for (const std::size_t rank : order) {
      std::vector<svg::Piece> pieces;
      double sum = 0;
      for (const auto& part : parts) {
        pieces.push_back({part[1], part[2], at(part[0], rank)});
        sum += pieces.back().value;
      }
      pieces.push_back({"rest", "f5", std::max(0.0, *step - sum)});
      const std::string name = rank_name(benchmark.context->ranks[rank]);
      std::string words = name + ":";
      for (const auto& piece : pieces) words += " " + piece.name + " " + fmt::format("{:.1f}", piece.value);
      rows += "<tr><th scope=\"row\">" + html_escaped(name) + "</th><td>" +
              svg::pieces(words + " ms", pieces, std::max(sum, *step)) + "</td></tr>";
    }
    out += figure(key.text() + ", ms of a step of " + number_text(*step) + " ms" +
                      (ranks > max_ranks_shown ? "; the 16 that the others wait for most" : ""),
                  "<table class=\"tight\"><thead><tr><th scope=\"col\">rank</th><th scope=\"col\">forward, backward, "
                  "waiting for others, optimizer, rest</th></tr></thead><tbody>" +
                      rows + "</tbody></table>");
  }
  return section("step", "A training step",
                 "Where its time goes, by rank. The others wait for the rank that waits least.", out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Rounds of a soak

double worst_hour(const SoakTrend& trend) {
  double worst = 0;
  for (const auto& hour : trend.hours) worst = std::max(worst, hour ? -*hour : 0);
  return trend.low.empty() ? worst : worst + 1e9;  // what is surely worse stands above what may be noise
}

std::string trends_heat(const Soak& soak, const SoakJudgement& judged) {
  constexpr std::size_t max_columns = 24;
  std::size_t hours = 1;
  std::vector<const SoakTrend*> trends;
  for (const SoakTrend& trend : judged.trends) {
    hours = std::max(hours, trend.hours.size());
    trends.push_back(&trend);
  }
  std::stable_sort(trends.begin(), trends.end(),
                   [](const SoakTrend* a, const SoakTrend* b) { return worst_hour(*a) > worst_hour(*b); });
  if (trends.size() > max_gpus) trends.resize(max_gpus);
  const std::size_t each = (hours + max_columns - 1) / max_columns;
  const bool minutes = soak.plan.duration_s < 7200;
  std::vector<std::string> columns;
  for (std::size_t h = 0; h < hours; h += each) {
    const double begin = static_cast<double>(h) * soak.hour_s() / (minutes ? 60 : 3600);
    columns.push_back(number_text(std::round(10 * begin) / 10));
  }
  std::map<std::string, std::string> names;
  for (const Culprit& unit : judged.units) {
    names.emplace(unit.uuid.value_or(unit.host + "/" + std::to_string(unit.local_rank.value_or(0))),
                  unit.host + (unit.local_rank ? " GPU " + std::to_string(*unit.local_rank) : ""));
  }
  std::string rows;
  for (const SoakTrend* trend : trends) {
    const auto name = names.find(trend->unit);
    rows += "<tr><th scope=\"row\">" +
            html_escaped(joined_words(name == names.end() ? "all" : name->second, trend->name)) + "</th>";
    for (std::size_t h = 0; h < hours; h += each) {
      std::vector<double> levels;
      bool low = false;
      for (std::size_t i = h; i < std::min(h + each, trend->hours.size()); ++i) {
        if (trend->hours[i]) levels.push_back(*trend->hours[i]);
        low = low || std::find(trend->low.begin(), trend->low.end(), i) != trend->low.end();
      }
      if (levels.empty()) {
        rows += "<td></td>";
        continue;
      }
      const double part = median(levels), tenths = std::round(1000 * part) / 10;
      rows += heat_cell((tenths == 0 ? "0.0" : fmt::format("{:+.1f}", tenths)) + (low ? " !" : ""),
                        joined_words(trend->limit > 0 ? tint(-part / trend->limit) : "", low ? "out" : ""));
    }
    rows += "</tr>\n";
  }
  const std::string left = judged.trends.size() > trends.size()
                               ? "The " + std::to_string(trends.size()) + " worst of " +
                                     std::to_string(judged.trends.size()) + ", by " + (minutes ? "minute." : "hour.")
                               : std::string(minutes ? "By minute." : "By hour.");
  return rows.empty() ? "" : figure(left, heat(heat_head(minutes ? "minute" : "hour", columns), rows));
}

}  // namespace

std::string rounds_section(const Page& page) {
  if (page.judged.soak == nullptr) return "";
  const Soak& soak = *page.judged.soak;
  std::string rows;
  std::size_t bad = 0;
  for (const SoakRound& round : soak.rounds) {
    if (round.state == State::pass || ++bad > max_gpus) continue;
    const std::string what =
        round.findings.empty() ? "" : joined_words(round.findings.front().key, round.findings.front().detail);
    rows += "<tr>" + cell(std::to_string(round.number), "round") + cell(soak.when(round), "when") +
            cell(std::string(name(round.state)), "state") + cell(one_line(what), "first finding") + "</tr>";
  }
  if (!rows.empty()) {
    rows = "<table class=\"stack\">" + heads({"round", "when", "state", "first finding"}) + "<tbody>" + rows +
           "</tbody></table>";
  }
  return section("rounds", "Rounds over time",
                 plural(soak.rounds.size(), "round") + ", " + std::to_string(bad) +
                     " of them no pass. Percent against each GPU's own first hour; ! is surely worse.",
                 trends_heat(soak, *page.judged.soak_judgement) + rows);
}

std::string figures(const Page& page) {
  if (page.context == nullptr) return "";
  const Rates rates(page);
  return against_peers(page) + copies(page) + rails(page) + over_size(page, rates) + bars(page, rates) +
         step_parts(page) + heat_and_power(page);
}

}  // namespace shakedown
