// Rows that ranks make together.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/fleet/families.hpp"

namespace shakedown::fleet {

namespace {

/// Between hosts: published busbw of healthy clusters is 0.76 to 1.02 of what NICs allow; all to all 0.84 to 0.86.
constexpr double ring_part = 0.92, alltoall_part = 0.85, sendrecv_part = 0.96;
/// Seconds that a small collective takes longer per further rank of a host (stored: 5.4 us of two, 7.6 of four), and
/// per doubling of the hosts.
constexpr double further_rank = 1.1e-6, doubling_of_hosts = 6e-6;

/// Bytes that n ranks move; all parts of a rank are equal.
double moved(const std::string& op, double bytes, int n) {
  if (op == "allreduce" || op == "broadcast" || op == "reduce" || op == "sendrecv") return bytes;
  const double part = std::floor(bytes / n / 4) * 4, unit = part >= 16 ? 16 : 4;
  return (bytes / n == part ? part : std::max(std::floor(part / unit) * unit, 4.0)) * n;
}

double bus_factor(const std::string& op, int n) {
  if (op == "allreduce") return 2.0 * (n - 1) / n;
  return op == "broadcast" || op == "reduce" || op == "sendrecv" ? 1 : (n - 1.0) / n;
}

double between_hosts(const World& w, const std::string& op) {
  const double one = nics * nic_gb_per_s / w.site.local_most(), n = w.site.count(),
               network = w.damage.fraction("network");
  if (op == "alltoall") return one * (n - 1) / (n - w.site.local_most()) * alltoall_part * network;
  if (op == "sendrecv") return one * sendrecv_part * network;
  return nics * nic_gb_per_s * ring_part * network;
}

}  // namespace

Row collective(const World& w, const std::string& key, const Json& like) {
  const int n = w.site.count();
  Row row = copied(w, key, like, as_local);
  const auto word = key.find("/op:");
  const auto op = word == std::string::npos ? "allreduce" : key.substr(word + 4, key.find('/', word + 4) - word - 4);
  const double bytes = *part(key, "bytes");
  const auto kind = kind_of(key);
  const auto stored = numbers(like["by_rank"]["seconds"]);
  // A GPU alone moves nothing; the template has no such row, so two ranks are the least.
  if (n < 2) throw std::runtime_error("collectives of fewer than two ranks are not made up");
  const double busbw =
      below(median(numbers(like["by_rank"]["busbw_gb_per_s"])) * w.good(kind, key, -1),
            largest(numbers(like["by_rank"]["busbw_gb_per_s"])) * headroom[static_cast<std::size_t>(kind)]);
  const double gb = moved(op, bytes, n) / 1e9;
  double seconds = bytes < (1 << 20)
                       ? moved(op, bytes, 4) / 1e9 * bus_factor(op, 4) / busbw
                       : gb * bus_factor(op, n) / (w.plan.hosts > 1 ? std::min(busbw, between_hosts(w, op)) : busbw);
  const double wide = bytes / (bytes + (16 << 20));  // how much of its time hangs on the links
  seconds *= 1 + (1 / (op == "alltoall" ? w.damage.worst_path() : w.damage.ring()) - 1) * wide;
  seconds += further_rank * (w.site.local_most() - 4) + doubling_of_hosts * std::ceil(std::log2(w.plan.hosts));
  seconds *= w.damage.longest(key) / (op == "allreduce" ? w.damage.fraction("allreduce") : 1);
  double late = 0;
  for (int r = 0; r < n; ++r) late = std::max(late, w.damage.late_us(r));
  const double operations = number(like["iterations"]) / number(like["samples"]);
  for (int r = 0; r < n; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const auto as = static_cast<std::size_t>(std::min(r, 3));  // the first ranks of a chain or tree differ
    const double waits = (late - w.damage.late_us(r)) * 1e-6 / operations;
    row.by_rank["seconds"][at] = seconds * stored[as] / median(stored) *
                                     std::exp(w.chances.residue(kind, w.chances.dice(kind, key).at(1).at(at))) +
                                 waits;
    row.by_rank["busbw_gb_per_s"][at] = gb * bus_factor(op, n) / row.by_rank["seconds"][at];
  }
  add_telemetry(w, row, like, nullptr);
  finish(w, row, like, "busbw_gb_per_s", false, true);
  const double run = gb * bus_factor(op, n) / number(row.head["busbw_gb_per_s"]);
  row.head["algbw_gb_per_s"] = gb / run;
  row.head["latency_us"] = run * 1e6;
  for (const char* name : {"real_time", "cpu_time", "max_us", "p50_us", "p99_us", "p999_us"}) {
    if (like.contains(name)) row.head[name] = number(like[name]) * run * 1e6 / number(like["latency_us"]);
  }
  if (like.contains("bytes_per_second")) row.head["bytes_per_second"] = gb * 1e15 / number(row.head["real_time"]);
  return row;
}

Row lora_step(const World& w, const std::string& key, const Json& like) {
  Row row = copied(w, key, like, as_local);
  auto stored = [&](const char* metric) { return numbers(like["by_rank"][metric]); };
  const double compute = median(stored("compute_ms")), step = number(like["step_ms"]);
  const double least_wait = largest(stored("exposed_comm_ms"), -1);
  const double rest = step - largest(stored("compute_ms")) - least_wait;
  const bool cap = capped(like);
  const double usual = median(stored("sm_mhz"));
  const auto& sums = w.of_template("allreduce/dtype:f32/bytes:1073741824");
  const double exposed = least_wait * number(sums["busbw_gb_per_s"]) /
                         number(collective(w, "allreduce/dtype:f32/bytes:1073741824", sums).head["busbw_gb_per_s"]);
  std::vector<Clock> clocks;
  double slowest = 0, late = 0;
  for (int r = 0; r < w.site.count(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    clocks.push_back(w.clock(key, r, usual, cap));
    const double times = usual / clocks.back().mhz * w.damage.longer(r, key) / w.good(Kind::compute, key, r);
    row.by_rank["compute_ms"][at] = compute * times;
    row.by_rank["forward_ms"][at] = median(stored("forward_ms")) * times;
    row.by_rank["backward_ms"][at] = median(stored("backward_ms")) * times;
    slowest = std::max(slowest, compute * times + w.damage.late_us(r) * 1e-3);
    late = std::max(late, w.damage.late_us(r));
  }
  for (int r = 0; r < w.site.count(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    const Dice here = w.chances.dice(Kind::compute, key).at("wait").at(at);
    const double own = slowest + exposed + rest - w.damage.late_us(r) * 1e-3;
    row.by_rank["exposed_comm_ms"][at] = own - rest - row.by_rank["compute_ms"][at];
    row.by_rank["seconds"][at] = own * 1e-3 * (1 - 1e-5 * here.uniform());
    row.by_rank["tokens_per_s"][at] = number(like["tokens_per_s"]) * step / (row.by_rank["seconds"][at] * 1e3);
  }
  for (auto& value : row.by_rank["sm_mhz"]) value = usual;
  add_telemetry(w, row, like, &clocks);
  finish(w, row, like, "tokens_per_s", false, true);
  const double ms = number(like["tokens_per_s"]) * step / number(row.head["tokens_per_s"]);
  row.head["step_ms"] = ms;
  row.head["tokens_per_s_total"] = number(row.head["tokens_per_s"]) * w.site.count();
  for (const char* name : {"p50_us", "max_us"}) row.head[name] = number(like[name]) * ms / step;
  row.head["model_tflops"] = number(like["model_tflops"]) * step / ms;
  return row;
}

}  // namespace shakedown::fleet
