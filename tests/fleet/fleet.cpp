#include "tests/fleet/fleet.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

namespace shakedown::fleet {

namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<double>;  // by rank; NaN stands for null
using Texts = std::vector<std::optional<std::string>>;

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr const char* families_written[] = {"preflight", "gemm",      "hbm",         "memtest",  "p2p",
                                            "pcie",      "allreduce", "collectives", "lora_step"};
const std::string common_gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

/// How much faster than the fastest stored value a made-up one may be: what a wire limits, not at all; what software or
/// a wait limits, a little. GEMM per clock: 1.02 keeps all types below what the silicon can do.
constexpr ByKind<double> headroom{1, 1.02, 1.002, 1.005, 1.0005, 1.005, 1.001, 1.2, 1.01, 1.3, 1.3, 1.2};

/// Other algorithms for bf16, stored: 2.8 % more per clock, at a clock that is as much lower.
constexpr double other_per_clock = 1.028, best_per_ghz_bf16 = 530;
/// A step of the training, stored: products 336 of 449 ms, other kernels that memory limits 57 ms.
constexpr double products_of_step = 0.75, memory_of_step = 0.13;
/// Between hosts: published busbw of healthy clusters is 0.76 to 1.02 of what NICs allow; all to all 0.84 to 0.86.
constexpr double nics = 8, nic_gb_per_s = 50, ring_part = 0.92, alltoall_part = 0.85, sendrecv_part = 0.96;
/// Seconds that a small collective takes longer per further rank of a host (stored: 5.4 us of two, 7.6 of four), and
/// per doubling of the hosts.
constexpr double further_rank = 1.1e-6, doubling_of_hosts = 6e-6;
/// In a collective the ranks' own times must differ by so much before the fixture calls one late.
constexpr double late_spread = 0.05;

double median(Values values) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  if (values.empty()) return unknown;
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double largest(const Values& values, double sign = 1) {
  double most = -HUGE_VAL;
  for (const double v : values) most = std::isnan(v) ? most : std::max(most, sign * v);
  return sign * most;
}

/// What is faster than can be is mirrored.
double below(double value, double ceiling) { return value > ceiling ? ceiling * ceiling / value : value; }

double number(const Json& value) { return value.is_number() ? value.get<double>() : unknown; }
Values numbers(const Json& array) {
  Values values;
  for (const auto& value : array) values.push_back(number(value));
  return values;
}

/// The number after "name:" in a key.
std::optional<double> part(const std::string& key, const std::string& name) {
  const auto at = key.find("/" + name + ":");
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(key.c_str() + at + name.size() + 2, nullptr);
}

std::string with_part(const std::string& key, const std::string& name, int value) {
  const auto at = key.find("/" + name + ":") + name.size() + 2;
  return key.substr(0, at) + std::to_string(value) + key.substr(std::min(key.find('/', at), key.size()));
}

std::string key_of(const std::string& name) {
  return name.substr(0, std::min(name.find("/iterations:"), name.find("/manual_time")));
}

bool starts(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }
bool has(const std::string& text, const std::string& some) { return text.find(some) != std::string::npos; }

void append(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "null";
    return;
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 9).ptr;
  out.append(text, end);
}

/// A row being made.
struct Row {
  std::string key;
  Json head;
  std::map<std::string, Values> by_rank = {}, throttle = {}, errors = {};
  std::map<std::string, Texts> texts = {};

  std::string text() const {
    std::string out = head.dump();
    out.pop_back();
    const char* comma = nullptr;
    for (const auto& [member, columns] :
         {std::pair{"by_rank", &by_rank}, {"throttle", &throttle}, {"errors", &errors}}) {
      if (columns->empty()) continue;
      out += ",\"" + std::string(member) + "\":{";
      comma = "";
      for (const auto& [name, values] : *columns) {
        out += comma + Json(name).dump() + ":[";
        for (std::size_t r = 0; r < values.size(); ++r) {
          if (r > 0) out += ',';
          append(out, values[r]);
        }
        out += ']';
        comma = ",";
      }
      out += '}';
    }
    comma = ",\"text_by_rank\":{";
    for (const auto& [name, values] : texts) {
      out += comma + Json(name).dump() + ":[";
      for (std::size_t r = 0; r < values.size(); ++r) {
        out += (r > 0 ? "," : "") + (values[r] ? Json(*values[r]).dump() : std::string("null"));
      }
      out += ']';
      comma = ",";
    }
    if (!texts.empty()) out += '}';
    return out + '}';
  }
};

struct Gpu {
  int host, local, slot;  // slot: which of the host's GPUs
  std::string uuid, pci, serial;
};

/// Which rank of the template a local rank is like in a row.
using Like = std::function<int(int local)>;

}  // namespace

struct Fleet::Made {
  explicit Made(const Plan& of) : plan(of) {
    for (const char* family : families_written) {
      std::ifstream file(plan.source / (std::string(family) + ".json"));
      if (!file) throw std::runtime_error(plan.source.string() + " has no " + family + ".json");
      templates[family] = Json::parse(file);
      fill_in(templates[family]);
    }
    if (templates["gemm"]["context"]["shakedown"]["ranks"].size() != 4) {
      throw std::runtime_error(plan.source.string() + ": a run with four ranks is needed");
    }
    if (plan.hosts < 1 || plan.gpus < 1 || plan.hosts_per_rack < 1) throw std::runtime_error("a fleet has GPUs");
    place_gpus();
    for (const auto& fault : plan.faults) check(fault);
    if (plan.noise.resample > 0) residuals = stored_residuals(plan.source.parent_path().parent_path());
    draw_chips();
    usual_mhz = median(numbers(of_template(common_gemm)["by_rank"]["sm_mhz"]));
    max_mhz = number(templates["gemm"]["context"]["shakedown"]["ranks"][0]["sm_mhz_max"]);
  }

  // ---- who is there

  void place_gpus() {
    local_most = 0;
    for (int host = 0; host < plan.hosts; ++host) {
      int lost = 0;
      for (const auto& fault : plan.faults) {
        lost += (fault.kind == "missing" || fault.kind == "absent") && fault.host == host ? 1 : 0;
      }
      first_of_host.push_back(static_cast<int>(gpus.size()));
      for (int local = 0; local + lost < plan.gpus; ++local) {
        const int slot = lost > 0 && local >= plan.gpus / 2 ? local + lost : local;  // one in the middle is gone
        char text[64];
        std::snprintf(text, sizeof text, "GPU-%08x-%04x-4000-8000-%012x", static_cast<unsigned>(plan.seed), host, slot);
        const std::string uuid = text;
        std::snprintf(text, sizeof text, "0000:%02x:00.0", 0x18 + 0x10 * slot);
        gpus.push_back({host, local, slot, uuid, text, "16537240" + std::to_string(10000 + host * plan.gpus + slot)});
        local_most = std::max(local_most, local + 1);
      }
    }
    first_of_host.push_back(static_cast<int>(gpus.size()));
    if (gpus.empty()) throw std::runtime_error("a fleet has GPUs");
  }

  void check(const Fault& fault) const {
    if (fault.rank >= count()) throw std::runtime_error("there is no rank " + std::to_string(fault.rank));
    if (fault.host >= plan.hosts) throw std::runtime_error("there is no host " + std::to_string(fault.host));
    if (fault.kind == "link" &&
        (std::min(fault.src, fault.dst) < 0 || std::max(fault.src, fault.dst) >= plan.gpus || fault.src == fault.dst)) {
      throw std::runtime_error("a link is between two local ranks");
    }
  }

  int count() const { return static_cast<int>(gpus.size()); }
  const Gpu& gpu(int rank) const { return gpus[static_cast<std::size_t>(rank)]; }
  int rank_at(int host, int local) const {
    const auto h = static_cast<std::size_t>(host);
    return first_of_host[h] + local < first_of_host[h + 1] ? first_of_host[h] + local : -1;
  }
  int on_host(int host) const {
    return first_of_host[static_cast<std::size_t>(host) + 1] - first_of_host[static_cast<std::size_t>(host)];
  }
  std::string host_name(int host) const {
    char text[24];
    std::snprintf(text, sizeof text, "node%05d", host);
    return text;
  }
  std::string rank_name(int rank) const {
    return "rank " + std::to_string(rank) + " (" + host_name(gpu(rank).host) + " " + gpu(rank).uuid + ")";
  }
  bool strikes(const Fault& fault, int rank) const {
    if (fault.kind == "fleet") return true;
    return fault.kind == "host" ? gpu(rank).host == fault.host : fault.rank == rank || fault.rank == -1;
  }

  // ---- noise

  void draw_chips() {
    const Dice lasting = Dice(plan.seed).at("lasting");
    for (std::size_t k = 0; k < chips.size(); ++k) {
      for (int r = 0; r < count(); ++r) {
        // Of the slot: a GPU that is missing changes no other one.
        const auto id = static_cast<std::uint64_t>(gpu(r).host) * 1000 + static_cast<std::uint64_t>(gpu(r).slot);
        double log = plan.noise.spread[k].chip * lasting.at(kind_names[k]).at(id).student(plan.noise.tails.chip);
        log += plan.noise.drift[k] * (0.5 - (r + 0.5) / count());
        for (const auto& group : plan.noise.groups) {
          if (static_cast<std::size_t>(group.kind) == k && belongs(group, gpu(r), lasting, id)) {
            log += std::log(group.factor);
          }
        }
        chips[k].push_back(log);
      }
    }
  }

  bool belongs(const Group& group, const Gpu& of, const Dice& lasting, std::uint64_t id) const {
    const bool second = 2 * of.slot >= plan.gpus;
    if (group.of == "second_socket" && !second) return false;
    const auto host = static_cast<std::uint64_t>(of.host);
    const auto place = group.of == "rack"  ? host / static_cast<std::uint64_t>(plan.hosts_per_rack)
                       : group.of == "lot" ? id
                                           : host;
    return lasting.at(group.of).at(kind_names[static_cast<std::size_t>(group.kind)]).at(place).uniform() < group.part;
  }

  Dice dice(Kind kind, const std::string& key) const {
    return Dice(plan.seed).at("launch").at(plan.launch).at(kind_names[static_cast<std::size_t>(kind)]).at(key);
  }

  /// How good this rank is in this row, 1 being usual; rank -1: the row, of all ranks together.
  double good(Kind kind, const std::string& key, int rank) const {
    const auto k = static_cast<std::size_t>(kind);
    const auto& spread = plan.noise.spread[k];
    const Dice here = dice(kind, key);
    if (rank < 0)
      return std::exp(spread.launch * here.at(0).student(plan.noise.tails.launch)) * hiccup(kind, here.at(3));
    const auto at = static_cast<std::uint64_t>(rank);
    double log = spread.launch * here.at(0).student(plan.noise.tails.launch);
    const Dice now = attempt == 0 ? here : here.at("again").at(attempt);  // what one value has for itself passes
    log += chips[k][static_cast<std::size_t>(rank)] + residue(kind, now.at(1).at(at));
    return std::exp(log) * hiccup(kind, now.at(2).at(at));
  }

  double residue(Kind kind, const Dice& here) const {
    const auto& stored = residuals[static_cast<std::size_t>(kind)];
    if (plan.noise.resample == 0 || stored.empty()) {
      return plan.noise.spread[static_cast<std::size_t>(kind)].row * here.student(plan.noise.tails.row);
    }
    return plan.noise.resample * stored[static_cast<std::size_t>(here.uniform() * static_cast<double>(stored.size()))];
  }

  double hiccup(Kind kind, const Dice& here) const {
    if (kind == Kind::clock || here.uniform() >= plan.noise.hiccup_odds) return 1;
    return 1 - plan.noise.hiccup_slower;
  }

  // ---- what faults do

  /// How many times longer a rank needs for a row.
  double longer(const Fault& fault, const std::string& key) const {
    if (starts(key, fault.in)) return 1 / (1 - fault.percent / 100);
    if (starts(key, "memtest"))
      return (longer(fault, "hbm/op:read/engine:sm") + longer(fault, "hbm/op:write/engine:sm")) / 2;
    if (starts(key, "lora_step")) {
      return 1 + products_of_step * (longer(fault, common_gemm) - 1) +
             memory_of_step * (longer(fault, "hbm/op:copy/engine:sm") - 1);
    }
    return 1;
  }
  double longer(int rank, const std::string& key) const {
    double times = 1;
    for (const auto& fault : plan.faults) {
      if (fault.percent > 0 && (fault.kind == "gpu" || fault.kind == "host" || fault.kind == "fleet") &&
          strikes(fault, rank)) {
        times *= longer(fault, key);
      }
    }
    return times;
  }
  double longest(const std::string& key) const {
    double times = 1;
    if (plan.faults.empty()) return times;
    for (int r = 0; r < count(); ++r) times = std::max(times, longer(r, key));
    return times;
  }

  /// The part of its rate that NVLink has from one rank to another of its host.
  double path(int from, int to) const {
    double rate = 1;
    for (const auto& fault : plan.faults) {
      const bool ports = fault.kind == "ports" && (strikes(fault, from) || strikes(fault, to));
      const bool link = fault.kind == "link" && gpu(from).host == fault.host && gpu(from).local == fault.src &&
                        gpu(to).local == fault.dst;
      if (ports || link) rate = std::min(rate, fault.fraction);
    }
    return rate;
  }
  /// The same of a ring over all ranks of each host.
  double ring() const {
    double rate = 1;
    for (int r = 0; r < count() && !plan.faults.empty(); ++r) {
      const int next = rank_at(gpu(r).host, (gpu(r).local + 1) % on_host(gpu(r).host));
      if (next != r) rate = std::min(rate, path(r, next));
    }
    return rate;
  }
  double fraction(const std::string& kind) const {
    double rate = 1;
    for (const auto& fault : plan.faults) rate *= fault.kind == kind ? fault.fraction : 1;
    return rate;
  }
  double late_us(int rank) const {
    double us = 0;
    for (const auto& fault : plan.faults) us += fault.kind == "late" && fault.rank == rank ? fault.us : 0;
    return us;
  }
  double power_part(int rank) const {
    double rate = 1;
    for (const auto& fault : plan.faults) {
      if (fault.kind == "power_limit" && strikes(fault, rank)) rate = std::min(rate, fault.watts / limit_w());
    }
    return rate;
  }
  double limit_w() const { return number(templates.at("gemm")["context"]["shakedown"]["ranks"][0]["power_limit_w"]); }

  /// The fault that holds a rank's clock below this, or none.
  const Fault* clock_fault(int rank, double mhz) const {
    const Fault* found = nullptr;
    for (const auto& fault : plan.faults) {
      if ((fault.kind != "clock" && fault.kind != "heat") || !strikes(fault, rank)) continue;
      if (limit_mhz(fault) < mhz) {
        mhz = limit_mhz(fault);
        found = &fault;
      }
    }
    return found;
  }
  double limit_mhz(const Fault& fault) const { return usual_mhz * (1 - fault.percent / 100); }

  struct Clock {
    double mhz;
    bool at_power_cap;
  };
  /// The SM clock of a rank in a row whose usual one is known.
  Clock clock(const std::string& key, int rank, double usual, bool capped) const {
    double mhz = std::min(usual, max_mhz);
    if (capped) mhz = std::min(mhz * good(Kind::clock, key, rank) * std::sqrt(power_part(rank)), max_mhz - 1);
    if (!capped)
      mhz *= 1 - 0.0005 * std::abs(dice(Kind::clock, key).at(9).at(static_cast<std::uint64_t>(rank)).normal());
    const auto* const fault = clock_fault(rank, mhz);
    return {fault != nullptr ? limit_mhz(*fault) : mhz, capped && fault == nullptr && mhz < max_mhz - 1};
  }

  // ---- rows

  const Json& of_template(const std::string& key) const {
    for (const auto& row : templates.at(key.substr(0, key.find('/')))["benchmarks"]) {
      if (key_of(row["name"]) == key) return row;
    }
    throw std::runtime_error(plan.source.string() + ": there is no row " + key);
  }

  static bool capped(const Json& like) {
    const auto parts = numbers(like.value("throttle", Json::object()).value("sw_power_cap", Json::array()));
    return std::count_if(parts.begin(), parts.end(), [](double part) { return part > 0; }) >= 2;
  }

  /// A row as the template's, for all ranks, each like one of the template's.
  Row copied(const std::string& key, const Json& like, const Like& as) const {
    Row row{key, like};
    const auto name = like["name"].get<std::string>();
    row.head["name"] = row.head["run_name"] = key + name.substr(key_of(name).size());
    for (const char* member : {"by_rank", "text_by_rank", "throttle", "errors", "errors_rows"}) row.head.erase(member);
    std::vector<std::size_t> sources;
    for (const auto& g : gpus) sources.push_back(static_cast<std::size_t>(as(g.local)));
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
    for (int r = 0; r < count() && row.by_rank.contains("arrival_us"); ++r) {
      auto& arrival = row.by_rank["arrival_us"][static_cast<std::size_t>(r)];
      const Dice here = Dice(plan.seed).at("arrival").at(plan.launch).at(key).at(static_cast<std::uint64_t>(r));
      arrival = arrival * std::exp(0.3 * here.normal()) + (gpu(r).host > 0 ? 1.5 * std::abs(here.at(1).normal()) : 0);
      arrival += late_us(r);
    }
    return row;
  }

  /// Clock, heat, power and what the driver says of them; `clocks` where the row's work hangs on them.
  void add_telemetry(Row& row, const Json& like, const std::vector<Clock>* clocks) const {
    const bool cap = capped(like);
    for (int r = 0; r < count(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      auto& mhz = row.by_rank["sm_mhz"][at];
      const double usual = mhz;
      const Clock own = clocks != nullptr ? (*clocks)[at] : clock(row.key, r, usual, cap);
      if (!std::isnan(usual)) mhz = own.mhz;
      auto& throttled = row.by_rank["throttled"][at];
      auto& heat = row.by_rank["temperature_c"][at];
      auto& power = row.by_rank["power_w"][at];
      heat += std::round(2 * Dice(plan.seed).at("heat").at(static_cast<std::uint64_t>(r)).normal());
      if (cap) power *= power_part(r);
      if (own.at_power_cap || std::isnan(throttled)) continue;
      for (auto& [reason, parts] : row.throttle) parts[at] = 0;
      throttled = 0;
      const auto* const fault = clock_fault(r, std::isnan(usual) ? max_mhz : usual * 0.999);
      if (fault == nullptr) continue;
      if (cap) power *= 0.85;
      if (fault->reason.empty()) continue;
      const bool hot = fault->kind == "heat";
      if (hot) heat = std::max(heat + 25, 86.0);
      if (hot) column(row.throttle, "hw_slowdown")[at] = 1;
      column(row.throttle, fault->reason)[at] = 1;
      throttled = 1;
    }
  }

  /// Of a member of a row; new ones have nothing to say of any rank.
  Values& column(std::map<std::string, Values>& columns, const std::string& name) const {
    return columns.emplace(name, Values(gpus.size(), 0)).first->second;
  }

  /// The run's own figures: those of the rank that took longest. Every headline keeps the template's distance from the
  /// slowest rank's own, which is the median of maxima against the maximum of medians.
  void finish(Row& row, const Json& like, const std::string& headline, bool time, bool collective) const {
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
        label += (label.empty() ? "last to arrive: " : ", last to arrive: ") + rank_name(static_cast<int>(shortest));
      if (!collective) label = "slowest: " + rank_name(static_cast<int>(longest_one));
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

  static void set_run(Row& row, const Json& like, const std::string& headline, double value, bool time) {
    const double faster = time ? number(like[headline]) / value : value / number(like[headline]);
    row.head[headline] = value;
    for (const char* rate : {"bytes_per_second", "items_per_second"}) {
      if (like.contains(rate)) row.head[rate] = number(like[rate]) * faster;
    }
    for (const char* duration : {"real_time", "cpu_time"}) row.head[duration] = number(like[duration]) / faster;
  }

  void forget_telemetry(Row& row) const {
    if (plan.noise.telemetry) return;
    for (const char* name : {"power_w", "sm_mhz", "temperature_c", "throttled", "tflops_per_ghz", "tflops_per_w"}) {
      if (row.head.contains(name)) row.head[name] = nullptr;
      if (row.by_rank.contains(name)) row.by_rank[name].assign(gpus.size(), unknown);
    }
    row.throttle.clear();
  }

  static int as_local(int local) { return local % 4; }

  Row gemm(const std::string& key, const Json& like) const {
    Row row = copied(key, like, as_local);
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
        dice(Kind::gemm, key).at("algorithm").uniform() < plan.noise.other_algorithm) {
      other = other_per_clock;
    }
    std::vector<Clock> clocks;
    for (int r = 0; r < count(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      clocks.push_back(clock(key, r, median(mhz) / other, cap));
      const double rate = below(median(per_ghz) * good(Kind::gemm, key, r),
                                largest(per_ghz) * headroom[static_cast<std::size_t>(Kind::gemm)]) *
                          other / longer(r, key);
      row.by_rank["tflops_per_ghz"][at] = rate;
      row.by_rank["tflops"][at] = median(agreement) * rate * clocks.back().mhz / 1000;
      row.by_rank["seconds"][at] = median(work) / row.by_rank["tflops"][at];
    }
    for (auto& value : row.by_rank["sm_mhz"]) value = median(mhz);
    add_telemetry(row, like, &clocks);
    for (std::size_t r = 0; r < gpus.size() && row.by_rank.contains("tflops_per_w"); ++r) {
      row.by_rank["tflops_per_w"][r] = row.by_rank["tflops"][r] / row.by_rank["power_w"][r];
    }
    finish(row, like, "tflops", false, false);
    return row;
  }

  /// Local work: one figure per rank, by its own time. `rate` is how fast a rank is in it, 1 being usual; nothing where
  /// it only stands by.
  Row local(const std::string& key, const Json& like, const Like& as,
            const std::function<std::optional<double>(int)>& rate, double most = HUGE_VAL) const {
    const auto kind = kind_of(key);
    const bool time = kind == Kind::latency;
    const std::string headline = time                                        ? "latency_us"
                                 : like["by_rank"].contains("copy_gb_per_s") ? "copy_gb_per_s"
                                                                             : "hbm_gb_per_s";
    Row row = copied(key, like, as);
    const auto stored = numbers(like["by_rank"][headline]);
    const double usual = median(stored), spent = median(numbers(like["by_rank"]["seconds"]));
    const double fastest = time ? usual / largest(stored, -1) : largest(stored) / usual;
    for (int r = 0; r < count(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      const auto own = rate(r);
      const double quick =
          !own ? unknown
               : std::min(below(good(kind, key, r), fastest * headroom[static_cast<std::size_t>(kind)]) * *own,
                          most / usual);
      row.by_rank[headline][at] = time ? usual / quick : usual * quick;
      row.by_rank["seconds"][at] = spent / quick;
    }
    add_telemetry(row, like, nullptr);
    finish(row, like, headline, time, false);
    if (row.head.contains("copy_gb_per_s") && headline == "hbm_gb_per_s")
      row.head["copy_gb_per_s"] = number(row.head["hbm_gb_per_s"]) / 2;
    return row;
  }

  // ---- families

  using Rows = std::function<void(const Row&)>;

  /// A figure that is looked at again where a rank is so far off.
  struct Doubted {
    std::string metric;
    double off;
  };

  /// As the programs do it (docs/measuring.md): where a value is far off and no other row is of its type, direction or
  /// kind, the row is measured twice more. `alone`: of a pair, which no other row has.
  void measured(const std::function<Row()>& make, const std::vector<Doubted>& doubted, const Rows& take,
                bool alone = false) const {
    attempt = 0;
    std::vector<Row> rows{make()};
    const auto sort_of = [](const std::string& key) {
      const auto parts = std::count(key.begin(), key.end(), '/');
      return parts == 0 ? key : key.substr(0, key.find('/', key.find('/') + 1));
    };
    const std::string key = rows.front().key, family = key.substr(0, key.find('/'));
    int alike = 0;
    for (const auto& other : templates.at(family)["benchmarks"]) {
      const auto name = key_of(other["name"]);
      alike += sort_of(name) == sort_of(key) && !has(name, "load:") ? 1 : 0;
    }
    const auto is_off = [&](const Doubted& of) {
      const auto& values = rows.front().by_rank[of.metric];
      const double usual = median(values), highest = largest(values), lowest = largest(values, -1);
      return of.metric == "latency_us" ? highest / usual - 1 > of.off
                                       : 1 - lowest / (count() == 2 ? highest : usual) > of.off;
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
      attempt = 3;
      again = is_odd(make());
    }
    again = again && !has(key, "load:");
    for (attempt = 1; again && attempt < 3; ++attempt) rows.push_back(make());
    repetitions(rows, take);
  }

  void repetitions(std::vector<Row>& rows, const Rows& take) const {
    attempt = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].head["repetitions"] = rows.size();
      rows[i].head["repetition_index"] = i;
      take(rows[i]);
    }
  }

  void local_rows(const std::string& key, const Json& like, const Rows& take) const {
    const auto rank = part(key, "rank");
    if (starts(key, "gemm"))
      return measured([&] { return gemm(key, like); }, {{"tflops_per_ghz", 0.0235}, {"tflops", 0.11}}, take);
    if (!starts(key, "pcie")) {
      const auto make = [&] { return local(key, like, as_local, [&](int r) { return 1 / longer(r, key); }); };
      return measured(make, {{"hbm_gb_per_s", starts(key, "hbm") ? 0.03 : 0.06}}, take);
    }
    // Half the lanes limit each direction to half of what one GPU alone has.
    const double alone =
        largest(numbers(of_template("pcie/op:h2d/active:one/rank:0/bytes:268435456")["by_rank"]["copy_gb_per_s"]));
    const auto limited = [&](const Row& row, int r, double value) {
      for (const auto& fault : plan.faults) {
        if (fault.kind == "pcie" && strikes(fault, r))
          value = std::min(value, alone / 2 * (has(row.key, "op:both") ? 2 : 1));
      }
      return value;
    };
    if (rank && *rank != 0) return;  // all are made from the first
    const auto of = [&](int only) {
      const auto one = rank ? with_part(key, "rank", only) : key;
      const auto& source = rank ? of_template(with_part(key, "rank", only % 4)) : like;
      const auto as = [&](int l) { return !rank || l == only || l % 4 != only % 4 ? l % 4 : (l + 1) % 4; };
      const double usual = median(numbers(source["by_rank"]["copy_gb_per_s"]));
      const Row row{one, {}};
      const auto rate = [&](int r) -> std::optional<double> {
        if (rank && gpu(r).local != only) return std::nullopt;
        return std::min(1 / longer(r, one), limited(row, r, usual) / usual);
      };
      return local(one, source, as, rate, alone * (has(key, "op:both") ? 2 : 1));
    };
    // As the programs do it: what is lower than what this copy reaches elsewhere is measured twice more.
    std::vector<std::vector<Row>> rows;
    Values all;
    for (int only = 0; only < (rank ? local_most : 1); ++only) {
      rows.push_back({of(only)});
      for (const double value : rows.back().front().by_rank["copy_gb_per_s"]) {
        if (std::isfinite(value)) all.push_back(value);
      }
    }
    const double low = (count() == 2 ? largest(all) : median(all)) * (1 - (rank ? 0.05 : 0.1));
    for (int only = 0; only < static_cast<int>(rows.size()); ++only) {
      auto& those = rows[static_cast<std::size_t>(only)];
      const auto& values = those.front().by_rank["copy_gb_per_s"];
      const bool again = std::any_of(values.begin(), values.end(), [&](double value) { return value < low; });
      for (attempt = 1; again && attempt < 3; ++attempt) those.push_back(of(only));
      repetitions(those, take);
    }
  }

  /// Pairs and shifts of the hosts' local ranks. The value stands at the destination.
  void peer_rows(const std::string& key, const Rows& take) const {
    const auto src = part(key, "src"), dst = part(key, "dst"), shift = part(key, "shift");
    if (local_most < 2 || (src && (*src != 0 || *dst != 1)) || (shift && *shift != 1)) return;  // made from the first
    const bool both = has(key, "dir:both");
    const auto slow = [&](int from, int to, const std::string& one) {
      return path(from, to) / std::max(longer(from, one), longer(to, one));
    };
    const auto add = [&](const std::function<Row()>& make) {
      has(key, "op:latency") ? measured(make, {{"latency_us", 0.1}}, take, true) : take(make());
    };
    if (shift) {
      for (int by = 1; by < local_most; ++by) {
        const auto one = with_part(key, "shift", by);
        const auto rate = [&](int r) -> std::optional<double> {
          const int n = on_host(gpu(r).host);
          if (by >= n) return std::nullopt;
          return slow(rank_at(gpu(r).host, (gpu(r).local - by + n) % n), r, one);
        };
        add([&] { return local(one, of_template(with_part(key, "shift", (by - 1) % 3 + 1)), as_local, rate); });
      }
      return;
    }
    for (int from = 0; from < local_most; ++from) {
      for (int to = both ? from + 1 : 0; to < local_most; ++to) {
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
          const int l = gpu(r).local, peer = rank_at(gpu(r).host, l == to ? from : to);
          if (peer < 0 || (l != to && !(both && l == from))) return std::nullopt;
          if (has(key, "op:latency")) return 1 / std::max(longer(r, one), longer(peer, one));
          return slow(peer, r, one);
        };
        add([&] { return local(one, of_template(with_part(with_part(key, "src", s), "dst", d)), as, rate); });
      }
    }
  }

  /// Bytes that n ranks move; all parts of a rank are equal.
  static double moved(const std::string& op, double bytes, int n) {
    if (op == "allreduce" || op == "broadcast" || op == "reduce" || op == "sendrecv") return bytes;
    const double part = std::floor(bytes / n / 4) * 4, unit = part >= 16 ? 16 : 4;
    return (bytes / n == part ? part : std::max(std::floor(part / unit) * unit, 4.0)) * n;
  }
  static double bus_factor(const std::string& op, int n) {
    if (op == "allreduce") return 2.0 * (n - 1) / n;
    return op == "broadcast" || op == "reduce" || op == "sendrecv" ? 1 : (n - 1.0) / n;
  }

  Row collective(const std::string& key, const Json& like) const {
    const int n = count();
    Row row = copied(key, like, as_local);
    const auto word = key.find("/op:");
    const auto op = word == std::string::npos ? "allreduce" : key.substr(word + 4, key.find('/', word + 4) - word - 4);
    const double bytes = *part(key, "bytes");
    const auto kind = kind_of(key);
    const auto stored = numbers(like["by_rank"]["seconds"]);
    // A GPU alone moves nothing; the template has no such row, so two ranks are the least.
    if (n < 2) throw std::runtime_error("collectives of fewer than two ranks are not made up");
    const double busbw =
        below(median(numbers(like["by_rank"]["busbw_gb_per_s"])) * good(kind, key, -1),
              largest(numbers(like["by_rank"]["busbw_gb_per_s"])) * headroom[static_cast<std::size_t>(kind)]);
    const double gb = moved(op, bytes, n) / 1e9;
    double seconds = bytes < (1 << 20)
                         ? moved(op, bytes, 4) / 1e9 * bus_factor(op, 4) / busbw
                         : gb * bus_factor(op, n) / (plan.hosts > 1 ? std::min(busbw, between_hosts(op)) : busbw);
    const double wide = bytes / (bytes + (16 << 20));  // how much of its time hangs on the links
    seconds *= 1 + (1 / (op == "alltoall" ? worst_path() : ring()) - 1) * wide;
    seconds += further_rank * (local_most - 4) + doubling_of_hosts * std::ceil(std::log2(plan.hosts));
    seconds *= longest(key) / (op == "allreduce" ? fraction("allreduce") : 1);
    double late = 0;
    for (int r = 0; r < n; ++r) late = std::max(late, late_us(r));
    const double operations = number(like["iterations"]) / number(like["samples"]);
    for (int r = 0; r < n; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const auto as = static_cast<std::size_t>(std::min(r, 3));  // the first ranks of a chain or tree differ
      const double waits = (late - late_us(r)) * 1e-6 / operations;
      row.by_rank["seconds"][at] =
          seconds * stored[as] / median(stored) * std::exp(residue(kind, dice(kind, key).at(1).at(at))) + waits;
      row.by_rank["busbw_gb_per_s"][at] = gb * bus_factor(op, n) / row.by_rank["seconds"][at];
    }
    add_telemetry(row, like, nullptr);
    finish(row, like, "busbw_gb_per_s", false, true);
    const double run = gb * bus_factor(op, n) / number(row.head["busbw_gb_per_s"]);
    row.head["algbw_gb_per_s"] = gb / run;
    row.head["latency_us"] = run * 1e6;
    for (const char* name : {"real_time", "cpu_time", "max_us", "p50_us", "p99_us", "p999_us"}) {
      if (like.contains(name)) row.head[name] = number(like[name]) * run * 1e6 / number(like["latency_us"]);
    }
    if (like.contains("bytes_per_second")) row.head["bytes_per_second"] = gb * 1e15 / number(row.head["real_time"]);
    return row;
  }
  double between_hosts(const std::string& op) const {
    const double one = nics * nic_gb_per_s / local_most, n = count(), network = fraction("network");
    if (op == "alltoall") return one * (n - 1) / (n - local_most) * alltoall_part * network;
    if (op == "sendrecv") return one * sendrecv_part * network;
    return nics * nic_gb_per_s * ring_part * network;
  }
  /// All to all: a slow pair has only its share to carry, slow ports all of theirs.
  double worst_path() const {
    double rate = 1;
    for (const auto& fault : plan.faults) {
      if (fault.kind == "ports") rate = std::min(rate, fault.fraction);
      if (fault.kind == "link") rate = std::min(rate, std::min(1.0, fault.fraction * (local_most - 1)));
    }
    return rate;
  }

  Row lora_step(const std::string& key, const Json& like) const {
    Row row = copied(key, like, as_local);
    auto stored = [&](const char* metric) { return numbers(like["by_rank"][metric]); };
    const double compute = median(stored("compute_ms")), step = number(like["step_ms"]);
    const double least_wait = largest(stored("exposed_comm_ms"), -1);
    const double rest = step - largest(stored("compute_ms")) - least_wait;
    const bool cap = capped(like);
    const double usual = median(stored("sm_mhz"));
    const auto& sums = of_template("allreduce/dtype:f32/bytes:1073741824");
    const double exposed = least_wait * number(sums["busbw_gb_per_s"]) /
                           number(collective("allreduce/dtype:f32/bytes:1073741824", sums).head["busbw_gb_per_s"]);
    std::vector<Clock> clocks;
    double slowest = 0, late = 0;
    for (int r = 0; r < count(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      clocks.push_back(clock(key, r, usual, cap));
      const double times = usual / clocks.back().mhz * longer(r, key) / good(Kind::compute, key, r);
      row.by_rank["compute_ms"][at] = compute * times;
      row.by_rank["forward_ms"][at] = median(stored("forward_ms")) * times;
      row.by_rank["backward_ms"][at] = median(stored("backward_ms")) * times;
      slowest = std::max(slowest, compute * times + late_us(r) * 1e-3);
      late = std::max(late, late_us(r));
    }
    for (int r = 0; r < count(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      const Dice here = dice(Kind::compute, key).at("wait").at(at);
      const double own = slowest + exposed + rest - late_us(r) * 1e-3;
      row.by_rank["exposed_comm_ms"][at] = own - rest - row.by_rank["compute_ms"][at];
      row.by_rank["seconds"][at] = own * 1e-3 * (1 - 1e-5 * here.uniform());
      row.by_rank["tokens_per_s"][at] = number(like["tokens_per_s"]) * step / (row.by_rank["seconds"][at] * 1e3);
    }
    for (auto& value : row.by_rank["sm_mhz"]) value = usual;
    add_telemetry(row, like, &clocks);
    finish(row, like, "tokens_per_s", false, true);
    const double ms = number(like["tokens_per_s"]) * step / number(row.head["tokens_per_s"]);
    row.head["step_ms"] = ms;
    row.head["tokens_per_s_total"] = number(row.head["tokens_per_s"]) * count();
    for (const char* name : {"p50_us", "max_us"}) row.head[name] = number(like[name]) * ms / step;
    row.head["model_tflops"] = number(like["model_tflops"]) * step / ms;
    return row;
  }

  Row preflight(const std::string& key, const Json& like) const {
    Row row = copied(key, like, as_local);
    // What the first rank of a host says for it: the template has it at its rank 0 only.
    const auto of_hosts = [&](auto& values, auto null, const Json& stored) {
      if (stored.size() != 4 || stored[0].is_null() || !stored[1].is_null()) return;
      for (int r = 0; r < count(); ++r) {
        auto& value = values[static_cast<std::size_t>(r)];
        value = gpu(r).local == 0 ? values[0] : null;
      }
    };
    for (auto& [name, values] : row.by_rank) of_hosts(values, unknown, like["by_rank"][name]);
    for (auto& [name, values] : row.texts) of_hosts(values, std::optional<std::string>(), like["text_by_rank"][name]);
    // Facts of NICs, which the template has none of and says nothing about.
    if (plan.hosts > 1 && key == "preflight/of:host") {
      for (const auto& [name, value] :
           {std::pair{"ib_rate_gbit", 400.0}, {"ib_link_downed", 0.0}, {"gpudirect_rdma", 1.0}}) {
        auto& values = row.by_rank[name];
        values.assign(static_cast<std::size_t>(count()), unknown);
        for (int r = 0; r < count(); ++r) {
          if (gpu(r).local == 0) values[static_cast<std::size_t>(r)] = value;
        }
      }
    }
    for (int r = 0; r < count(); ++r) facts_of(row, r);
    return row;
  }

  void facts_of(Row& row, int r) const {
    const auto at = static_cast<std::size_t>(r);
    const Gpu& own = gpu(r);
    const auto set = [&](const char* name, double value) {
      const auto found = row.by_rank.find(name);
      if (found != row.by_rank.end() && !std::isnan(found->second[at])) found->second[at] = value;
    };
    const auto say = [&](const char* name, const std::string& text) {
      const auto found = row.texts.find(name);
      if (found != row.texts.end() && found->second[at]) found->second[at] = text;
    };
    const Dice here = Dice(plan.seed).at("facts").at(static_cast<std::uint64_t>(own.host * plan.gpus + own.slot));
    say("uuid", own.uuid);
    say("pci", own.pci);
    say("serial", own.serial);
    const bool repaired = here.uniform() < 0.02;
    set("rows_remapped", repaired ? 1 : 0);
    set("ecc_uncorrected_ever", repaired ? 40 : 0);
    set("ecc_corrected_ever", here.at(1).uniform() < 0.2 ? 1 : 0);
    set("ranks_per_core", on_host(own.host) / 64.0);
    set("gpus_pci", on_bus(own.host));
    set("gpus_nvml", on_bus(own.host));
    if (own.host > 0) set("clock_offset_ms", 0.05 * std::abs(here.at(2).normal()));
    if (plan.hosts > 1) set("ib_ports", nics);
    set("power_limit_w", limit_w() * power_part(r));
    for (const auto& fault : plan.faults) {
      if (!fault.seen || !strikes(fault, r)) continue;
      if (fault.kind == "ports") set("nvlinks_up", std::round(18 * fault.fraction));
      if (fault.kind == "pcie") set("pcie_width", 8);
    }
  }
  int on_bus(int host) const {
    int gone = 0;
    for (const auto& fault : plan.faults) gone += fault.kind == "missing" && fault.host == host ? 1 : 0;
    return plan.gpus - gone;
  }

  // ---- documents

  /// Errors that are counted or found in a row.
  void spoil(Row& row) const {
    std::string wrong;
    std::vector<int> ranks;
    for (const auto& fault : plan.faults) {
      if (fault.kind == "errors" && row.key == common_gemm && row.by_rank.contains("throttled")) {
        column(row.errors, fault.what)[static_cast<std::size_t>(fault.rank)] = 1;
      }
      if ((fault.kind != "data" && fault.kind != "sdc") || !starts(row.key, fault.in)) continue;
      ranks.push_back(fault.rank);
      if (ranks.size() > 1) wrong += (ranks.size() == 2 ? "; also wrong: " : ", ") + rank_name(fault.rank);
      if (ranks.size() > 1) continue;
      wrong = fault.kind == "data"
                  ? "wrong data: " + rank_name(fault.rank) +
                        ": 3 of 4096 comparisons failed: word 1031 is 0x3f80, not 0x3f81"
                  : rank_name(fault.rank) + " computed other bits than " + std::to_string(count() - 1) +
                        " of its peers from the same input with the same algorithm (silent data corruption)";
    }
    if (wrong.empty()) return;
    Json head;
    for (const char* name : {"name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions",
                             "repetition_index", "threads"}) {
      head[name] = row.head[name];
    }
    head["error_occurred"] = true;
    head["error_message"] = wrong;
    head["iterations"] = row.head["iterations"];
    head["real_time"] = head["cpu_time"] = 0.0;
    head["time_unit"] = "us";
    head["wrong_ranks"] = ranks;
    row = Row{row.key, head};
  }

  void rows_of(const std::string& family, const Rows& take) const {
    for (const auto& like : templates.at(family)["benchmarks"]) {
      const auto key = key_of(like["name"]);
      if (like.contains("error_occurred")) {
        Row row{key, like};
        const auto why = like["error_message"].get<std::string>();
        const auto name = why.find("rank 0 (");
        if (name != std::string::npos) {
          row.head["error_message"] = why.substr(0, name) + rank_name(0) + why.substr(why.find(')', name) + 1);
        }
        take(row);
      } else if (family == "preflight") {
        take(preflight(key, like));
      } else if (family == "p2p") {
        peer_rows(key, take);
      } else if (family == "allreduce" || family == "collectives") {
        take(collective(key, like));
      } else if (family == "lora_step") {
        take(lora_step(key, like));
      } else {
        local_rows(key, like, take);
      }
    }
  }

  Json context(const std::string& family) const {
    Json context = templates.at(family)["context"];
    context["host_name"] = host_name(0);
    auto& own = context["shakedown"];
    char id[20];
    std::snprintf(id, sizeof id, "%016llx",
                  static_cast<unsigned long long>(Dice(plan.seed).at(plan.launch).uniform() * 0x1p62));
    own["run_id"] = id;
    own["world"] = {{"size", count()}, {"hosts", plan.hosts}};
    if (!plan.noise.telemetry) own["telemetry"] = "off";
    if (plan.hosts > 1 && !own["nccl"]["transport"].is_null()) own["nccl"]["transport_between_hosts"] = "NET/IB";
    for (const char* member : {"links", "links_left_out"}) own["nccl"].erase(member);  // of four ranks
    const Json facts = own["ranks"][0], inventory = own["inventory"][0];
    own["ranks"] = Json::array();
    own["inventory"] = Json::array();
    for (int r = 0; r < count(); ++r) {
      Json rank = facts;
      rank["rank"] = r;
      rank["host"] = host_name(gpu(r).host);
      rank["local_rank"] = gpu(r).local;
      rank["uuid"] = gpu(r).uuid;
      rank["pci"] = gpu(r).pci;
      rank["power_limit_w"] = limit_w() * power_part(r);
      own["ranks"].push_back(std::move(rank));
    }
    for (int host = 0; host < plan.hosts; ++host) {
      Json one = inventory;
      one["host"] = host_name(host);
      one["pci_gpus"] = one["visible_gpus"] = on_bus(host);
      own["inventory"].push_back(std::move(one));
    }
    return context;
  }

  Plan plan;
  std::map<std::string, Json> templates;
  std::vector<Gpu> gpus;
  std::vector<int> first_of_host;
  int local_most = 0;  // ranks of the fullest host
  Residuals residuals;
  ByKind<Values> chips;  // logarithms
  double usual_mhz = 0, max_mhz = 0;
  mutable std::uint64_t attempt = 0;  // at the row that is being made
};

Fleet::Fleet(const Plan& plan) : made_(std::make_unique<Made>(plan)) {}
Fleet::~Fleet() = default;

int Fleet::ranks() const { return made_->count(); }
std::string Fleet::host(int index) const { return made_->host_name(index); }
std::vector<std::string> Fleet::families() const { return {std::begin(families_written), std::end(families_written)}; }

void Fleet::write(const std::string& family, std::ostream& out) const {
  out << "{\n\"context\": " << made_->context(family).dump() << ",\n\"benchmarks\": [";
  int index = 0;
  made_->rows_of(family, [&](const Row& made) {
    Row row = made;
    row.head["family_index"] = index;
    made_->spoil(row);
    if (family != "preflight") made_->forget_telemetry(row);
    out << (index++ > 0 ? ",\n" : "\n") << row.text();
  });
  out << "\n]\n}\n";
}

void Fleet::write(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  for (const auto& family : families()) {
    const auto file = folder / (family + ".json");
    std::ofstream out(file);
    write(family, out);
    if (!out.flush()) throw std::runtime_error(file.string() + " cannot be written");
  }
}

Guilty Fleet::guilty(const Fault& fault) const {
  Guilty guilty;
  const std::set<std::string> whole{"fleet", "allreduce", "network"};
  const std::set<std::string> found{"data", "sdc", "errors", "power_limit", "missing", "absent"};
  guilty.configuration = whole.contains(fault.kind);
  guilty.by_finding = found.contains(fault.kind);
  for (int r = 0; r < ranks() && !guilty.configuration; ++r) {
    const auto& gpu = made_->gpu(r);
    const bool end =
        fault.kind == "link" && gpu.host == fault.host && (gpu.local == fault.src || gpu.local == fault.dst);
    const bool on_host = fault.kind != "link" && fault.host >= 0 && gpu.host == fault.host;
    if (end || on_host || (fault.kind != "link" && fault.host < 0 && made_->strikes(fault, r))) guilty.ranks.insert(r);
  }
  if (fault.kind != "link") guilty.host = fault.host;
  return guilty;
}

}  // namespace shakedown::fleet
