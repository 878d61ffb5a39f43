#include "tests/fleet/making.hpp"

#include <algorithm>
#include <cmath>

namespace shakedown::fleet {

namespace {

/// In a collective the ranks' own times must differ by so much before the fixture calls one late.
constexpr double late_spread = 0.05;

void set_run(Row& row, const Json& like, const std::string& headline, double value, bool time) {
  const double faster = time ? number(like[headline]) / value : value / number(like[headline]);
  row.head[headline] = value;
  for (const char* rate : {"bytes_per_second", "items_per_second"}) {
    if (like.contains(rate)) row.head[rate] = number(like[rate]) * faster;
  }
  for (const char* duration : {"real_time", "cpu_time"}) row.head[duration] = number(like[duration]) / faster;
}

}  // namespace

bool capped(const Json& like) {
  const auto parts = numbers(like.value("throttle", Json::object()).value("sw_power_cap", Json::array()));
  return std::count_if(parts.begin(), parts.end(), [](double part) { return part > 0; }) >= 2;
}

Row copied(const World& w, const std::string& key, const Json& like, const Like& as) {
  Row row{key, like};
  const auto name = like["name"].get<std::string>();
  row.head["name"] = row.head["run_name"] = key + name.substr(key_of(name).size());
  for (const char* member : {"by_rank", "text_by_rank", "throttle", "errors", "errors_rows"}) row.head.erase(member);
  std::vector<std::size_t> sources;
  for (const auto& g : w.site.gpus()) sources.push_back(static_cast<std::size_t>(as(g.local)));
  const Json words = like.value("text_by_rank", Json::object());
  for (const auto& [member, columns] : {std::pair{"by_rank", &row.by_rank}, {"throttle", &row.throttle}}) {
    const Json figures = like.value(member, Json::object());
    for (const auto& [metric, array] : figures.items()) {
      const auto stored = numbers(array);
      for (const auto s : sources) (*columns)[metric].push_back(stored[s]);
    }
  }
  for (const auto& [metric, array] : words.items()) {
    Texts stored;
    for (const auto& text : array) {
      stored.push_back(text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt);
    }
    for (const auto s : sources) row.texts[metric].push_back(stored[s]);
  }
  for (int r = 0; r < w.site.count() && row.by_rank.contains("arrival_us"); ++r) {
    auto& arrival = row.by_rank["arrival_us"][static_cast<std::size_t>(r)];
    const Dice here = Dice(w.plan.seed).at("arrival").at(w.plan.launch).at(key).at(static_cast<std::uint64_t>(r));
    arrival =
        arrival * std::exp(0.3 * here.normal()) + (w.site.gpu(r).host > 0 ? 1.5 * std::abs(here.at(1).normal()) : 0);
    arrival += w.damage.late_us(r);
  }
  return row;
}

void add_telemetry(const World& w, Row& row, const Json& like, const std::vector<Clock>* clocks) {
  const bool cap = capped(like);
  for (int r = 0; r < w.site.count(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    auto& mhz = row.by_rank["sm_mhz"][at];
    const double usual = mhz;
    const Clock own = clocks != nullptr ? (*clocks)[at] : w.clock(row.key, r, usual, cap);
    if (!std::isnan(usual)) mhz = own.mhz;
    auto& throttled = row.by_rank["throttled"][at];
    auto& heat = row.by_rank["temperature_c"][at];
    auto& power = row.by_rank["power_w"][at];
    heat += std::round(2 * Dice(w.plan.seed).at("heat").at(static_cast<std::uint64_t>(r)).normal());
    if (cap) power *= w.damage.power_part(r);
    if (own.at_power_cap || std::isnan(throttled)) continue;
    for (auto& [reason, parts] : row.throttle) parts[at] = 0;
    throttled = 0;
    const auto* const fault = w.damage.clock_fault(r, std::isnan(usual) ? w.max_mhz : usual * 0.999);
    if (fault == nullptr) continue;
    if (cap) power *= 0.85;
    if (fault->reason.empty()) continue;
    const bool hot = fault->kind == "heat";
    if (hot) heat = std::max(heat + 25, 86.0);
    if (hot) column(w, row.throttle, "hw_slowdown")[at] = 1;
    column(w, row.throttle, fault->reason)[at] = 1;
    throttled = 1;
  }
}

Values& column(const World& w, std::map<std::string, Values>& columns, const std::string& name) {
  return columns.emplace(name, Values(w.site.gpus().size(), 0)).first->second;
}

void finish(const World& w, Row& row, const Json& like, const std::string& headline, bool time, bool collective) {
  const auto& seconds = row.by_rank["seconds"];
  std::size_t longest_one = 0, shortest = 0;
  int known = 0;
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    if (std::isnan(seconds[r])) continue;
    if (known++ == 0) longest_one = shortest = r;
    if (seconds[r] > seconds[longest_one]) longest_one = r;
    if (seconds[r] < seconds[shortest]) shortest = r;
  }
  const bool late =
      collective && known >= 2 && seconds[longest_one] - seconds[shortest] > late_spread * median(seconds);
  if (known >= 2 && !has(row.key, "lora_step")) {
    const auto chosen = collective ? like.value("label", "") : "";
    std::string label = chosen.substr(0, chosen.find(", "));
    if (starts(label, "slowest") || starts(label, "last")) label.clear();
    if (late)
      label +=
          (label.empty() ? "last to arrive: " : ", last to arrive: ") + w.site.rank_name(static_cast<int>(shortest));
    if (!collective) label = "slowest: " + w.site.rank_name(static_cast<int>(longest_one));
    if (label.empty()) row.head.erase("label");
    if (!label.empty()) row.head["label"] = label;
  }
  const auto pace_setter = late ? shortest : longest_one;
  for (const char* name : {"power_w", "sm_mhz", "temperature_c", "throttled", "tflops_per_ghz", "tflops_per_w"}) {
    if (!row.head.contains(name)) continue;
    const auto found = row.by_rank.find(name);
    const double value = found == row.by_rank.end() ? unknown : found->second[pace_setter];
    row.head[name] = std::isnan(value) ? Json(nullptr) : Json(value);
  }
  const auto stored = numbers(like["by_rank"][headline]);
  const double slowest = largest(stored, time ? 1 : -1), before = number(like[headline]);
  const double ratio = time ? std::max(1.0, before / slowest) : std::min(1.0, before / slowest);
  set_run(row, like, headline, row.by_rank[headline][longest_one] * ratio, time);
}

void forget_telemetry(const World& w, Row& row) {
  if (w.plan.noise.telemetry) return;
  for (const char* name : {"power_w", "sm_mhz", "temperature_c", "throttled", "tflops_per_ghz", "tflops_per_w"}) {
    if (row.head.contains(name)) row.head[name] = nullptr;
    if (row.by_rank.contains(name)) row.by_rank[name].assign(w.site.gpus().size(), unknown);
  }
  row.throttle.clear();
}

}  // namespace shakedown::fleet
