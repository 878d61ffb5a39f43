#include "thresholds/rehearsal/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/files.hpp"
#include "base/key.hpp"
#include "base/statistics.hpp"
#include "thresholds/rehearsal/figures.hpp"
#include "thresholds/rehearsal/pairs.hpp"
#include "thresholds/rehearsal/random.hpp"
#include "thresholds/rehearsal/repeats.hpp"

namespace shakedown::rehearsal {

namespace {

/// The first number of a measurement after the run.
constexpr int first_of_retests = 1000;
/// The product in which wrong data and counted errors occur.
constexpr std::string_view product_with_errors = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

}  // namespace

Fleet::Fleet(Order order)
    : order_(std::move(order)),
      noise_seed_(order_.launch == 0 ? order_.seed : mixed(order_.seed, order_.launch)),
      machine_(make_machine(order_.shape, order_.noise, order_.faults, order_.seed)),
      plan_(order_.tier == Tier::gate ? gate_plan(order_.shape) : quick_plan(order_.shape)) {}

/// Adds wrong data and errors that the driver counts, in one product.
void Fleet::add_errors(const Planned& planned, Row& row) const {
  if (planned.key != product_with_errors) return;
  for (int rank = 0; rank < machine_.shape.ranks(); ++rank) {
    const Gpu& gpu = machine_.gpu(rank);
    if (gpu.xid) {
      auto& counts = row.errors["xid_79"];
      counts.resize(static_cast<std::size_t>(machine_.shape.ranks()), 0);
      counts[static_cast<std::size_t>(rank)] = 1;
    }
    if (!gpu.wrong_data) continue;
    const std::string name = fmt::format("rank {} ({} {})", rank, machine_.host(rank).name, gpu.uuid);
    row.error = row.error ? fmt::format("{}; also wrong: {}", *row.error, name)
                          : fmt::format("wrong data: {}: 3 of 4096 comparisons failed", name);
    row.wrong_ranks.push_back(rank);
  }
  if (!row.error) return;
  row.by_rank.clear();
  row.metrics.clear();
}

Row Fleet::row_of(const Planned& row, double when, int number) const {
  if (row.form == Form::waived) return waived_row(machine_, row);
  if (row.form == Form::facts) return facts_row(machine_, row.key);
  Times drawn;
  const auto ranks = static_cast<std::size_t>(machine_.shape.ranks());
  for (auto* column : {&drawn.seconds, &drawn.mhz, &drawn.own, &drawn.partner}) column->resize(ranks);
  switch (row.form) {
    case Form::collective: draw_collective(row, number, drawn); break;
    case Form::step: draw_step(row, when, number, drawn); break;
    case Form::pairs: draw_pairs(row, number, drawn); break;
    default: draw_local(row, when, number, drawn);
  }
  Random shown(mixed(mixed(noise_seed_, hash(row.key)), hash("shown") + static_cast<unsigned>(number)));
  Row result = figures(machine_, row, drawn, shown);
  add_errors(row, result);
  if (row.form == Form::pairs && order_.pair_samples > 0) {
    result.metrics["samples"] = order_.pair_samples;
    result.metrics["cv"] = row.cv;
    result.iterations = order_.pair_samples;
  }
  return result;
}

/// Returns the rows of a gate of one GPU, which measures each row three times, except facts.
std::vector<Row> Fleet::measured_thrice(const std::vector<Planned>& planned, std::vector<Row> rows, double when) const {
  constexpr int times = 3;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].form == Form::facts || planned[i].form == Form::waived) continue;
    rows[i].repetitions = times;
    for (int number = 1; number < times; ++number) {
      rows.push_back(row_of(planned[i], when, number));
      rows.back().repetition = number;
      rows.back().repetitions = times;
    }
  }
  return rows;
}

std::vector<Doubt> Fleet::missed_limits(const PlannedFamily& family, const std::vector<Row>& rows) const {
  if (order_.limits == nullptr || !is_collective(family.name)) return {};
  const Measured measured{results("preflight"), {family.name + ".json", context(family), rows}};
  return collectives_in_doubt(measured, *order_.limits, nullptr);
}

std::vector<Row> Fleet::rows_of(const PlannedFamily& family, double when) const {
  std::vector<Planned> planned = family.rows;
  std::vector<Row> rows;
  for (const Planned& row : planned) rows.push_back(row_of(row, when, 0));
  if (order_.tier == Tier::gate && machine_.shape.ranks() == 1) return measured_thrice(planned, std::move(rows), when);
  const auto add = [&](const std::vector<Planned>& more) {
    for (const Planned& row : more) {
      planned.push_back(row);
      rows.push_back(row_of(row, when, 0));
    }
  };
  // The program for pairs of hosts always repeats doubtful pairs. The programs for copies and processors do so only on
  // request.
  if (family.name == "pairs" && machine_.shape.hosts > 1) add(confirming_rows(machine_.shape, planned, rows));
  if (!order_.repeats) return rows;
  add(closer_look(machine_.shape, planned, rows));
  for (const std::size_t i : repeated_rows(planned, rows, missed_limits(family, rows))) {
    for (int number = 1; number <= 2; ++number) {
      rows.push_back(row_of(planned[i], when, number));
      rows.back().repetition = number;
    }
    for (Row& row : rows) {
      if (row.key == planned[i].key) row.repetitions = 3;
    }
  }
  return rows;
}

std::vector<Results> Fleet::results() const {
  std::vector<Results> all;
  for (const PlannedFamily& family : plan_) all.push_back(results(family.name));
  return all;
}

Results Fleet::results(std::string_view family) const {
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const double when = static_cast<double>(i) / static_cast<double>(plan_.size() - 1);
    if (plan_[i].name == family) return {plan_[i].name + ".json", context(plan_[i]), rows_of(plan_[i], when)};
  }
  throw InputError(fmt::format("{}: is not a family of the plan; name a family of the results", family));
}

Row Fleet::measure(std::string_view key, int number) const {
  for (const PlannedFamily& family : plan_) {
    for (const Planned& row : family.rows) {
      if (row.key == key) return row_of(row, 1, first_of_retests + number);
    }
  }
  if (key_part(key, "src").empty())
    throw InputError(fmt::format("{}: is not a row of the plan; name a row of the results", key));
  const auto source = key_number(key, "src"), destination = key_number(key, "dst");
  return row_of(copy_alone(key_part(key, "op") == "read", key_part(key, "engine") == "sm",
                           static_cast<int>(source.value_or(0)), static_cast<int>(destination.value_or(1))),
                1, first_of_retests + number);
}

std::vector<double> Fleet::measure(std::string_view key, std::string_view metric, int rank, int times) const {
  std::vector<double> values;
  for (int number = 0; number < times; ++number) {
    const Row row = measure(key, number);
    const auto column = row.by_rank.find(std::string(metric));
    if (column == row.by_rank.end()) break;
    if (const auto value = column->second.at(static_cast<std::size_t>(rank))) values.push_back(*value);
  }
  return values;
}

}  // namespace shakedown::rehearsal
