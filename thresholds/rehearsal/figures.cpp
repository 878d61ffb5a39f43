#include "thresholds/rehearsal/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counted_work.hpp"
#include "base/key.hpp"
#include "base/statistics.hpp"

namespace shakedown::rehearsal {

namespace {

using Column = RankValues;

constexpr double tested_gb = 148.981678;
constexpr double pair_seconds = 1.5;
constexpr double lora_tokens = 2 * 4096, lora_flops = 32.13e9 * lora_tokens;

/// Computes the work of one operation of a row.
class Work {
 public:
  Work(const Machine& machine, const Planned& row) : machine_(machine), row_(row) {}

  double number(const char* name) const { return static_cast<double>(key_number(row_.key, name).value_or(0)); }

  int ranks() const { return row_.in_host ? machine_.shape.gpus : machine_.shape.ranks(); }

  double flops() const {
    if (row_.form == Form::step) return lora_flops;
    return 2 * number("m") * number("n") * number("k");
  }

  double loads() const { return static_cast<double>(chase::nodes(static_cast<std::size_t>(number("bytes")))); }

  double bytes() const {
    const auto op = key_part(row_.key, "op");
    switch (row_.form) {
      case Form::streams: return number("bytes") * (op == "copy" ? 2 : op == "triad" ? 3 : 1);
      case Form::memory_test: return 2e9 * tested_gb;
      case Form::peer_loads: return 8 * loads();
      case Form::pcie: return number("bytes") * (op == "both" ? 2 : 1);
      case Form::launches: return 16 * std::max(number("kernels"), 1.0);
      case Form::collective: return moved();
      default: return number("bytes");
    }
  }

 private:
  /// Returns the bytes that are moved. Three collectives move a multiple of 16 bytes for each rank.
  double moved() const {
    const auto op = key_part(row_.key, "op");
    const double all = number("bytes"), part = all / ranks();
    if (op != "all_gather" && op != "reduce_scatter" && op != "alltoall") return all;
    return std::fmod(part, 4) == 0 ? all : std::floor(part / 16) * 16 * ranks();
  }

  const Machine& machine_;
  const Planned& row_;
};

Column each(const Column& of, const auto& figure) {
  Column result(of.size());
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i]) result[i] = figure(*of[i], i);
  }
  return result;
}

std::size_t slowest(const Column& seconds) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] && (!seconds[at] || *seconds[i] > *seconds[at])) at = i;
  }
  return at;
}

/// Adds a column, with the value of the slowest rank as the value of the run.
void add(Row& row, const char* name, Column column, std::size_t worst) {
  if (column[worst]) row.metrics[name] = *column[worst];
  row.by_rank[name] = std::move(column);
}

void add_products(Row& row, const Work& work, const Times& times, std::size_t worst) {
  const double flops = work.flops();
  add(row, "tflops", each(times.seconds, [&](double s, std::size_t) { return flops / s * 1e-12; }), worst);
  add(row, "tflops_per_ghz",
      each(times.seconds, [&](double s, std::size_t i) { return flops / s * 1e-9 / *times.mhz[i]; }), worst);
  row.metrics["items_per_second"] = flops / row.real_time;
  const auto ranks = times.seconds.size();
  // All ranks have the same input, so all healthy ranks compute products with the same bits.
  row.by_rank["checksum"].assign(ranks, static_cast<double>(hash(row.key) >> 12));
  row.by_rank["tolerance_used"].assign(ranks, 0.9);
}

void add_step(Row& row, const Work& work, const Times& times, std::size_t worst) {
  const double step = *times.seconds[worst], flops = work.flops();
  const double ranks = static_cast<double>(times.seconds.size());
  row.metrics["step_ms"] = step * 1e3;
  row.metrics["tokens_per_s_total"] = lora_tokens * ranks / step;
  row.metrics["model_tflops"] = flops / step * 1e-12;
  row.metrics["items_per_second"] = flops / row.real_time;
  row.metrics["p50_us"] = step * 1e6;
  row.metrics["max_us"] = step * 1.01e6;
  add(row, "tokens_per_s", each(times.seconds, [](double s, std::size_t) { return lora_tokens / s; }), worst);
  row.by_rank["compute_ms"] = each(times.own, [](double s, std::size_t) { return s * 1e3; });
  row.by_rank["exposed_comm_ms"] = each(times.own, [&](double s, std::size_t) { return (step - s) * 1e3; });
  row.by_rank["tokens_per_s_per_ghz"] =
      each(times.own, [&](double s, std::size_t i) { return lora_tokens / s / (*times.mhz[i] * 1e-3); });
  row.by_rank["forward_ms"] = each(times.own, [](double s, std::size_t) { return s * 478; });
  row.by_rank["backward_ms"] = each(times.own, [](double s, std::size_t) { return s * 519; });
  row.by_rank["optimizer_ms"].assign(times.own.size(), 1.507);
  row.by_rank["checksum"].assign(times.own.size(), 6678731299867399.0);
  const std::pair<const char*, double> same[] = {
      {"first_loss", 12.653464}, {"loss_2", 10.75011},   {"loss_5", 5.67121},      {"loss_10", 0.472927},
      {"last_loss", 0.472927},   {"peak_gb", 60.331786}, {"planned_gb", 58.388009}};
  for (const auto& [name, value] : same) row.by_rank[name].assign(times.own.size(), value);
}

void add_collective(Row& row, const Work& work, const Planned& planned, const Times& times, std::size_t worst) {
  const double bytes = work.bytes(), factor = bus_factor(planned.key, work.ranks());
  if (work.ranks() > 1) {  // one rank sends nothing
    add(row, "busbw_gb_per_s", each(times.seconds, [&](double s, std::size_t) { return factor * bytes / s * 1e-9; }),
        worst);
  }
  row.metrics["algbw_gb_per_s"] = bytes / *times.seconds[worst] * 1e-9;
  row.metrics["latency_us"] = *times.seconds[worst] * 1e6;
  row.metrics["bytes_per_second"] = bytes / row.real_time;
  if (planned.key.find("timing:single") == std::string::npos) return;
  const double us = row.metrics["latency_us"];
  row.metrics["p50_us"] = us;
  row.metrics["p99_us"] = 1.45 * us;
  row.metrics["p999_us"] = 1.84 * us;
  row.metrics["max_us"] = 1.87 * us;
}

void add_pairs(Row& row, const Planned& planned, const Times& times) {
  const double factor =
      planned.sums ? bus_factor(planned.key, static_cast<int>(2 * times.seconds.size() / planned.partners.size())) : 1;
  Column rates = each(times.seconds, [&](double s, std::size_t) { return factor * planned.bytes / s * 1e-9; });
  std::vector<double> known;
  for (const auto& rate : rates) {
    if (rate) known.push_back(*rate);
  }
  row.real_time = pair_seconds;  // time of the round: set-up and at most a second of samples
  if (!known.empty()) row.metrics["busbw_gb_per_s"] = median(known);
  row.by_rank["busbw_gb_per_s"] = std::move(rates);
  row.by_rank["partner"] = times.partner;
}

void add_local(Row& row, const Planned& planned, const Work& work, const Times& times, std::size_t worst) {
  const double bytes = work.bytes();
  const auto rate = [&](double part) {
    return each(times.seconds, [&, part](double s, std::size_t) { return part * bytes / s * 1e-9; });
  };
  const auto time = [&](double unit) {
    return each(times.seconds, [unit](double s, std::size_t) { return s * unit; });
  };
  if (planned.form != Form::quanta) row.metrics["bytes_per_second"] = bytes / row.real_time;
  switch (planned.form) {
    case Form::streams:
      add(row, "hbm_gb_per_s", rate(1), worst);
      if (key_part(planned.key, "op") == "copy") row.metrics["copy_gb_per_s"] = row.metrics["hbm_gb_per_s"] / 2;
      break;
    case Form::memory_test:
      add(row, "hbm_gb_per_s", rate(1), worst);
      row.by_rank["capacity_gb"].assign(times.seconds.size(), tested_gb);
      break;
    case Form::copies:
    case Form::pcie: add(row, "copy_gb_per_s", rate(1), worst); break;
    case Form::peer_loads: add(row, "latency_us", time(1e6 / work.loads()), worst); break;
    case Form::quanta: {
      add(row, "quantum_us", time(1e6 / work.number("quanta")), worst);
      const double us = *times.seconds[worst] * 1e6;
      row.metrics["items_per_second"] = 2.0 * steps_per_quantum * work.number("quanta") / row.real_time;
      row.metrics["p50_us"] = us;
      row.metrics["max_us"] = 1.007 * us;
      row.by_rank["quantum_p99_us"] = time(1.1e6 / work.number("quanta"));
      row.by_rank["stolen"].assign(times.seconds.size(), 0);
      row.by_rank["waited"].assign(times.seconds.size(), 0);
      break;
    }
    default: {
      add(row, "launch_us", time(1e6), worst);
      const double us = row.metrics["launch_us"];
      row.metrics["p50_us"] = us;
      row.metrics["max_us"] = 3.8 * us;
      row.metrics["p99_us"] = 2.05 * us;
      row.by_rank["p99_us"] = time(1.95e6);
    }
  }
}

/// Adds the sensor values of the row.
void add_telemetry(Row& row, const Machine& machine, const Planned& planned, const Times& times, std::size_t worst,
                   Random& shown) {
  Column& watts = row.by_rank["power_w"];
  Column& degrees = row.by_rank["temperature_c"];
  Column& throttled = row.by_rank["throttled"];
  const auto ranks = times.seconds.size();
  for (auto* column : {&watts, &degrees, &throttled}) column->resize(ranks);
  row.by_rank["sm_mhz"] = times.mhz;
  if (planned.mhz == 0) return;
  const bool limited =
      planned.form == Form::products || planned.form == Form::step || planned.form == Form::memory_test;
  Column power_cap(ranks), heat(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (!times.mhz[rank]) continue;
    const Gpu& gpu = machine.gpu(static_cast<int>(rank));
    const bool held = gpu.most_mhz < max_mhz && *times.mhz[rank] >= gpu.most_mhz;
    const double power = (planned.bursts ? 600 : planned.watts) * (held ? *times.mhz[rank] / planned.mhz : 1);
    degrees[rank] = std::round(31 + power / 24 + gpu.degrees_c + shown.uniform());
    if (!planned.bursts) watts[rank] = std::min(gpu.power_limit_w, power * (1 + 0.01 * shown.normal()));
    power_cap[rank] = limited && !held && *times.mhz[rank] < max_mhz - 10 ? 1 : 0;
    heat[rank] = held && gpu.hot ? 1 : 0;
    throttled[rank] = std::max(*power_cap[rank], *heat[rank]);
  }
  for (const auto& [reason, column] : {std::pair{"sw_power_cap", &power_cap}, {"hw_thermal", &heat}}) {
    const auto is_some = [](const auto& part) { return part.value_or(0) > 0; };
    if (std::any_of(column->begin(), column->end(), is_some)) row.throttle[reason] = *column;
  }
  const std::pair<const char*, const Column*> columns[] = {
      {"sm_mhz", &times.mhz}, {"power_w", &watts}, {"temperature_c", &degrees}, {"throttled", &throttled}};
  for (const auto& [name, column] : columns) {
    if (const auto& value = (*column)[worst]) row.metrics[name] = *value;
  }
  if (planned.form != Form::products) return;
  const auto& tflops = row.by_rank["tflops"];
  add(row, "tflops_per_w", each(watts, [&](double w, std::size_t i) { return *tflops[i] / w; }), worst);
}

double samples_of(const Planned& planned, double seconds) {
  if (planned.form == Form::quanta) return 15;
  if (planned.form == Form::launches) return 400;
  if (planned.form == Form::step) return 10;
  if (planned.key.find("timing:single") != std::string::npos) return 1000;
  if (planned.key.find("sustained") != std::string::npos) return 101;
  return seconds >= 5e-3 ? 5 : seconds >= 1e-3 ? 20 : 63;
}

}  // namespace

double operations(double seconds) { return seconds > 1e-3 ? 1 : std::ceil(1e-3 / seconds); }

Row waived_row(const Machine& machine, const Planned& planned) {
  Row row;
  row.key = Key(planned.key);
  row.iterations = 10;
  row.waived = fmt::format("rank 0 ({} {}): {}", machine.hosts.front().name, machine.gpu(0).uuid, planned.reason);
  if (planned.key == "preflight/of:folder") row.waived = planned.reason;
  return row;
}

Row figures(const Machine& machine, const Planned& planned, const Times& times, Random& shown) {
  Row row;
  row.key = Key(planned.key);
  const std::size_t worst = slowest(times.seconds);
  const double seconds = times.seconds[worst].value_or(0);  // the rank did not answer
  // Google Benchmark reports the mean of the samples, which a few slow samples increase.
  row.real_time = seconds * (1 + 0.1 * planned.cv * shown.uniform());
  const Work work(machine, planned);
  row.by_rank["seconds"] = times.seconds;
  if (planned.form == Form::pairs) {
    add_pairs(row, planned, times);
    return row;
  }
  const double samples = samples_of(planned, seconds);
  row.iterations = samples * operations(seconds);
  row.metrics["samples"] = samples;
  row.metrics["cv"] = planned.cv * std::exp(0.2 * shown.normal());
  for (std::size_t rank = 0; rank < times.seconds.size(); ++rank) {
    row.by_rank["arrival_us"].emplace_back((rank == 0 ? 0 : 0.4 * shown.uniform()) +
                                           1e6 * machine.gpu(static_cast<int>(rank)).late);
  }
  switch (planned.form) {
    case Form::products: add_products(row, work, times, worst); break;
    case Form::step: add_step(row, work, times, worst); break;
    case Form::collective: add_collective(row, work, planned, times, worst); break;
    default: add_local(row, planned, work, times, worst);
  }
  add_telemetry(row, machine, planned, times, worst, shown);
  return row;
}

}  // namespace shakedown::rehearsal
