#include "tests/thresholds/simulate.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>

namespace shakedown::simulation {
namespace {

using Kind = Fault::Kind;
using Values = std::vector<std::optional<double>>;

// xoshiro256** (Blackman and Vigna 2018), seeded by splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }

  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Marsaglia's polar method.
  double normal() {
    if (spare_) {
      const double value = *spare_;
      spare_.reset();
      return value;
    }
    double u = 0, v = 0, s = 0;
    do {
      u = 2 * uniform() - 1;
      v = 2 * uniform() - 1;
      s = u * u + v * v;
    } while (s >= 1 || s == 0);
    const double factor = std::sqrt(-2 * std::log(s) / s);
    spare_ = v * factor;
    return u * factor;
  }

  // Student's t with 5 degrees of freedom, scaled to a standard deviation of 1, cut off at +-6.
  double heavy() {
    for (;;) {
      double chi = 0;
      for (int i = 0; i < 5; ++i) {
        const double z = normal();
        chi += z * z;
      }
      const double t = normal() / std::sqrt(chi / 5) / std::sqrt(5.0 / 3.0);
      if (std::abs(t) <= 6) return t;
    }
  }

  double exponential(double mean) { return -mean * std::log(1 - uniform()); }
  int below(int n) { return std::min(n - 1, static_cast<int>(uniform() * n)); }

 private:
  std::uint64_t next() {
    const auto rotl = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
    const std::uint64_t result = rotl(state_[1] * 5, 7) * 9, t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotl(state_[3], 45);
    return result;
  }

  std::array<std::uint64_t, 4> state_{};
  std::optional<double> spare_;
};

constexpr double typical_mhz = 1465, boost_mhz = 1980;

std::string two_digits(int n) { return (n < 10 ? "0" : "") + std::to_string(n); }

Context context_of(const Plan& plan) {
  Context c;
  c.suite = {"0.1.0", "abc1234", "Release", false};
  c.run_id = "generated-" + std::to_string(plan.seed);
  c.started = "2026-11-21T05:00:00Z";
  c.complete = true;
  c.backend = "cuda";
  c.tier = "quick";
  c.world_size = plan.gpus;
  c.hosts = (plan.gpus + plan.gpus_per_host - 1) / plan.gpus_per_host;
  for (int rank = 0; rank < plan.gpus; ++rank) {
    const int local = rank % plan.gpus_per_host;
    c.ranks.push_back({rank, "node" + std::to_string(rank / plan.gpus_per_host), local, plan.device,
                       "GPU-" + std::to_string(100000 + rank), std::to_string(1650000000 + rank),
                       "0000:" + two_digits(10 + local) + ":00.0", 150109880320, local / 4, "0-63"});
  }
  for (int host = 0; host < c.hosts; ++host) {
    const int here = std::min(plan.gpus_per_host, plan.gpus - host * plan.gpus_per_host);
    c.inventory.push_back({"node" + std::to_string(host), here, here, std::nullopt, std::nullopt});
  }
  c.versions = {{"driver", "580.159"}, {"nccl", "2.28.3"}};
  c.nccl.nvls = "off";
  return c;
}

// One benchmark: its key and how one repetition of it is made.
struct Spec {
  std::string key;
  std::function<void(Row&)> fill;
};

class Maker {
 public:
  explicit Maker(const Plan& plan) : plan_(plan), random_(plan.seed), context_(context_of(plan)) {
    for (int rank = 0; rank < plan.gpus; ++rank) {
      Chip chip;
      chip.clock = 1 + noise(0.025) * random_.heavy();
      chip.per_ghz = 1 + noise(0.0035) * random_.normal();
      chip.hbm = 1 + noise(0.001) * random_.normal();
      chip.pcie = 1 + noise(0.01) * random_.normal();
      chips_.push_back(chip);
    }
    links_.assign(static_cast<std::size_t>(plan.gpus * plan.gpus_per_host), 1);
    for (double& link : links_) link = 1 + noise(0.0005) * random_.normal();
    for (const Fault& fault : plan.faults) plant(fault);
    make_specs();
  }

  const std::vector<Spec>& specs() const { return specs_; }
  const Context& context() const { return context_; }

  Row row(const Spec& spec, int repetition) {
    Row row;
    row.key = spec.key;
    row.repetition = repetition;
    row.metrics["cv"] = 0.001;
    row.metrics["samples"] = 10;
    spec.fill(row);
    return row;
  }

 private:
  struct Chip {
    double clock = 1, per_ghz = 1, hbm = 1, pcie = 1, copies = 1;
    bool hot = false, late = false;
  };

  double noise(double sigma) const { return plan_.noise * sigma; }
  double run(double sigma) { return (1 - plan_.drift) * (1 + noise(sigma) * random_.normal()); }
  Chip& chip(int rank) { return chips_[static_cast<std::size_t>(rank)]; }
  int first_of_host(int rank) const { return rank - rank % plan_.gpus_per_host; }
  int ranks_of_host(int rank) const { return std::min(plan_.gpus_per_host, plan_.gpus - first_of_host(rank)); }
  double& link(int from, int to) {
    return links_[static_cast<std::size_t>(from * plan_.gpus_per_host + to % plan_.gpus_per_host)];
  }

  void plant(const Fault& fault) {
    const double left = 1 - fault.share;
    Chip& one = chip(fault.rank);
    switch (fault.kind) {
      case Kind::slow_gpu:
        one.per_ghz *= left;
        one.hbm *= left;
        one.copies *= left;
        return;
      case Kind::slow_compute: one.per_ghz *= left; return;
      case Kind::slow_memory: one.hbm *= left; return;
      case Kind::slow_link: link(fault.rank, fault.to) *= left; return;
      case Kind::slow_ports: one.copies *= left; return;
      case Kind::slow_node:
        for (int i = 0; i < ranks_of_host(fault.rank); ++i) {
          Chip& each = chip(first_of_host(fault.rank) + i);
          each.per_ghz *= left;
          each.hbm *= left;
          each.copies *= left;
        }
        return;
      case Kind::heat:
        one.clock *= left;
        one.hot = true;
        return;
      case Kind::late_rank: one.late = true; return;
      case Kind::slow_allreduce: allreduce_ *= left; return;
    }
  }

  // --- rows ---

  Values make(const std::function<double(int rank)>& value) {
    Values values;
    values.reserve(static_cast<std::size_t>(plan_.gpus));
    for (int rank = 0; rank < plan_.gpus; ++rank) values.emplace_back(value(rank));
    return values;
  }

  static double worst(const Values& values) {
    double low = HUGE_VAL;
    for (const auto& value : values) low = std::min(low, value.value_or(HUGE_VAL));
    return low;
  }

  // Of local work: `work` in units of the metric times seconds.
  void local(Row& row, const std::string& metric, double work, Values values) {
    const double slowest = worst(values);
    row.metrics[metric] = slowest;
    row.real_time = work / slowest;
    if (plan_.whole) {
      auto& seconds = row.by_rank["seconds"] = values;
      for (auto& value : seconds) value = value ? std::optional(work / *value) : std::nullopt;
    }
    row.by_rank[metric] = std::move(values);
    arrive(row);
  }

  void arrive(Row& row) {
    row.by_rank["arrival_us"] = make([&](int rank) { return random_.exponential(0.3) + (chip(rank).late ? 2000 : 0); });
  }

  void gemm(Row& row, double tflops_at_typical) {
    Values mhz = make([&](int rank) {
      return std::min(boost_mhz, typical_mhz * chip(rank).clock * (1 + noise(0.02) * random_.normal()));
    });
    Values tflops = make([&](int rank) {
      const double clock = *mhz[static_cast<std::size_t>(rank)] / typical_mhz;
      return tflops_at_typical * clock * chip(rank).per_ghz * run(0.006);
    });
    if (!plan_.clocks) return local(row, "tflops", 1.1, std::move(tflops));
    row.by_rank["tflops_per_ghz"] = make([&](int rank) {
      const auto i = static_cast<std::size_t>(rank);
      return *tflops[i] / (*mhz[i] / 1000);
    });
    row.by_rank["sm_mhz"] = std::move(mhz);
    if (plan_.whole) {
      row.by_rank["power_w"] = make([&](int) { return 692 + 2 * random_.normal(); });
      row.by_rank["temperature_c"] = make([&](int rank) { return (chip(rank).hot ? 88 : 55) + 2 * random_.normal(); });
      row.by_rank["throttled"] = make([&](int rank) { return chip(rank).hot ? 0.6 : 0.4; });
    }
    const auto held = [&](const char* reason, bool hot, double part) {
      if (hot || plan_.whole) row.throttle[reason] = make([&](int rank) { return chip(rank).hot == hot ? part : 0; });
    };
    held("hw_thermal", true, 0.6);
    held("sw_power_cap", false, 0.4);
    local(row, "tflops", 1.1, std::move(tflops));
  }

  void hbm(Row& row, double gb_per_s, double sigma = 0.001) {
    local(row, "hbm_gb_per_s", 8, make([&](int rank) { return gb_per_s * chip(rank).hbm * run(sigma); }));
  }

  void shift(Row& row, double gb_per_s, int by) {
    local(row, "copy_gb_per_s", 1, make([&](int rank) {
            const int first = first_of_host(rank), n = ranks_of_host(rank);
            const int from = first + ((rank - first - by) % n + n) % n;
            return gb_per_s * std::min(chip(rank).copies, chip(from).copies) * link(from, rank) * run(0.0005);
          }));
  }

  // The sum of both directions, at both ends: it ends with the slower of the two.
  void both_ways(Row& row, int src, int dst) {
    Values values(static_cast<std::size_t>(plan_.gpus));
    for (int first = 0; first + dst < plan_.gpus; first += plan_.gpus_per_host) {
      const int a = first + src, b = first + dst;
      const double rate = 2 * 392 * std::min({chip(a).copies, chip(b).copies, link(a, b), link(b, a)});
      for (const int end : {a, b}) values[static_cast<std::size_t>(end)] = rate * run(0.0005);
    }
    local(row, "copy_gb_per_s", 2, std::move(values));
  }

  // All wait for the slowest: the rate is the same on all ranks, what each needs for itself is not.
  void step(Row& row) {
    row.by_rank["compute_ms"] =
        make([&](int rank) { return 440 / (chip(rank).clock * chip(rank).per_ghz * run(0.006)); });
    double slowest = 0;
    for (const auto& ms : row.by_rank["compute_ms"]) slowest = std::max(slowest, *ms);
    const double rate = 8192e3 / (slowest + 10);
    local(row, "tokens_per_s", 8192, make([&](int) { return rate * (1 + 1e-5 * random_.normal()); }));
  }

  double weakest_copy(int host_first) {
    double weakest = 1;
    for (int i = 0; i < ranks_of_host(host_first); ++i) {
      weakest = std::min(weakest, chip(host_first + i).copies);
      for (int j = 0; j < ranks_of_host(host_first); ++j) {
        if (i != j) weakest = std::min(weakest, link(host_first + i, host_first + j));
      }
    }
    return weakest;
  }

  void allreduce(Row& row, double busbw, double us, bool own_host) {
    Values values(static_cast<std::size_t>(plan_.gpus));
    double weakest = 1;
    for (int first = 0; first < plan_.gpus; first += plan_.gpus_per_host) {
      const double rate = busbw * weakest_copy(first) * allreduce_ * run(0.005);
      weakest = std::min(weakest, weakest_copy(first));
      for (int i = 0; i < ranks_of_host(first); ++i) values[static_cast<std::size_t>(first + i)] = rate;
    }
    if (!own_host) {
      const double rate = busbw * weakest * allreduce_ * run(0.005);
      for (auto& value : values) value = rate;
    }
    row.metrics["busbw_gb_per_s"] = worst(values);
    row.metrics["latency_us"] = us / allreduce_;
    row.real_time = us / allreduce_ * 1e-6;
    row.by_rank["busbw_gb_per_s"] = std::move(values);
    // Who comes late waits least.
    const bool late = std::any_of(chips_.begin(), chips_.end(), [](const Chip& c) { return c.late; });
    row.by_rank["seconds"] = make([&](int rank) {
      const double waits = late && !chip(rank).late ? 2e-3 : 0;
      return us * 1e-6 * (1 + 0.001 * random_.normal()) + waits;
    });
    arrive(row);
  }

  void make_specs() {
    const auto add = [&](std::string key, std::function<void(Row&)> fill) {
      specs_.push_back({std::move(key), std::move(fill)});
    };
    const std::array<std::pair<const char*, double>, 7> types{
        {{"bf16", 812}, {"f16", 779}, {"tf32", 424}, {"f32", 51}, {"f64", 61.5}, {"fp8_e4m3", 1537}, {"int8", 1568}}};
    for (const auto& [type, tflops] : types) {
      // A profile's floor expects f32 at the highest clock, which it reaches; the generated one follows the power.
      if (plan_.pairs_and_step && std::string_view(type) == "f32") continue;
      for (const char* size : {"4096", "8192"}) {
        add("gemm/dtype:" + std::string(type) + "/m:" + size + "/n:" + size + "/k:" + size,
            [this, t = tflops](Row& row) { gemm(row, t); });
      }
    }
    const std::array<std::pair<const char*, double>, 9> streams{{{"copy/engine:sm/bytes:268435456", 4080},
                                                                 {"copy/engine:sm/bytes:1073741824", 4162},
                                                                 {"copy/engine:sm/bytes:4294967296", 4182},
                                                                 {"copy/engine:ce/bytes:268435456", 4197},
                                                                 {"copy/engine:ce/bytes:1073741824", 4234},
                                                                 {"copy/engine:ce/bytes:4294967296", 4269},
                                                                 {"read/engine:sm/bytes:4294967296", 4585},
                                                                 {"write/engine:sm/bytes:4294967296", 4698},
                                                                 {"triad/engine:sm/bytes:4294967296", 4365}}};
    for (const auto& [stream, gb_per_s] : streams) {
      add("hbm/op:" + std::string(stream), [this, g = gb_per_s](Row& row) { hbm(row, g); });
    }
    const std::array<std::pair<const char*, double>, 3> engines{
        {{"write/engine:ce", 392}, {"write/engine:sm", 368}, {"read/engine:sm", 338}}};
    for (const auto& [engine, gb_per_s] : engines) {
      for (int by = 1; by < plan_.gpus_per_host; ++by) {
        add("p2p/op:" + std::string(engine) + "/shift:" + std::to_string(by) + "/bytes:1073741824",
            [this, g = gb_per_s, by](Row& row) { shift(row, g, by); });
      }
    }
    for (const auto& [op, gb_per_s] : {std::pair{"h2d", 51.0}, {"d2h", 37.9}, {"both", 47.3}}) {
      add("pcie/op:" + std::string(op) + "/bytes:268435456", [this, g = gb_per_s](Row& row) {
        local(row, "copy_gb_per_s", 0.27, make([&](int rank) { return g * chip(rank).pcie * run(0.01); }));
      });
    }
    add("memtest/pattern:random/bytes:free", [this](Row& row) { hbm(row, 4300, 0.003); });
    for (const auto& [bytes, busbw, us] : {std::tuple{"8", 0.001465, 8.2},
                                           {"1048576", 92.3, 17.0},
                                           {"134217728", 329.2, 611.6},
                                           {"1073741824", 356.2, 4522.0},
                                           {"4294967296", 363.0, 17749.0},
                                           {"8589934592", 365.3, 35272.0}}) {
      add("allreduce/dtype:f32/bytes:" + std::string(bytes),
          [this, b = busbw, u = us](Row& row) { allreduce(row, b, u, false); });
    }
    for (const char* bytes : {"134217728", "1073741824"}) {
      add("allreduce/dtype:f32/bytes:" + std::string(bytes) + "/scope:node",
          [this, large = bytes[1] == '0'](Row& row) { allreduce(row, large ? 356.2 : 329.2, 4522, true); });
    }
    for (const char* op : {"all_gather", "reduce_scatter", "alltoall", "broadcast"}) {
      add("collectives/op:" + std::string(op) + "/dtype:f32/bytes:1073741824",
          [this](Row& row) { allreduce(row, 330, 4900, false); });
    }
    if (!plan_.pairs_and_step) return;
    for (int src = 0; src < plan_.gpus_per_host; ++src) {
      for (int dst = src + 1; dst < plan_.gpus_per_host; ++dst) {
        add("p2p/op:write/engine:ce/dir:both/src:" + std::to_string(src) + "/dst:" + std::to_string(dst) +
                "/bytes:1073741824",
            [this, src, dst](Row& row) { both_ways(row, src, dst); });
      }
    }
    add("lora_step/model:qwen2_7b/batch:2/seq:4096", [this](Row& row) { step(row); });
  }

  const Plan& plan_;
  Random random_;
  Context context_;
  std::vector<Chip> chips_;
  std::vector<double> links_;  // from * GPUs of a host + local index of the destination
  double allreduce_ = 1;
  std::vector<Spec> specs_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Files

void put(std::string& out, const std::string& word) { out += '"' + word + '"'; }

void put(std::string& out, double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), end);
}

template <class T>
void put_list(std::string& out, const std::string& name, const std::vector<std::optional<T>>& values, bool first) {
  out += first ? "" : ", ";
  put(out, name);
  out += ": [";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    if (values[i]) {
      put(out, *values[i]);
    } else {
      out += "null";
    }
  }
  out += "]";
}

std::string text_of(const Row& row, int repetitions) {
  std::string out = "{\"name\": \"" + row.key + "/manual_time\", \"run_name\": \"" + row.key +
                    "/manual_time\", \"run_type\": \"iteration\", \"repetitions\": " + std::to_string(repetitions) +
                    ", \"repetition_index\": " + std::to_string(row.repetition) +
                    ", \"threads\": 1, \"iterations\": 40, \"time_unit\": \"us\", \"cpu_time\": 1, \"real_time\": ";
  put(out, row.real_time * 1e6);
  for (const auto& [name, value] : row.metrics) {
    out += ", ";
    put(out, name);
    out += ": ";
    put(out, value);
  }
  out += ", \"by_rank\": {";
  bool first = true;
  for (const auto& [name, values] : row.by_rank) {
    put_list(out, name, values, first);
    first = false;
  }
  out += "}, \"throttle\": {";
  first = true;
  for (const auto& [name, values] : row.throttle) {
    put_list(out, name, values, first);
    first = false;
  }
  return out + "}}";
}

bool near(const Diagnosis& d, const Plan& plan, const Fault& fault) {
  const auto is = [&](Cause cause) { return d.causes.front() == cause; };
  const auto host = [&](int rank) { return "node" + std::to_string(rank / plan.gpus_per_host); };
  const auto at = [&](std::size_t place, int rank) {
    return d.places.size() > place && d.places[place].rank == rank && d.places[place].host == host(rank);
  };
  switch (fault.kind) {
    case Kind::slow_gpu:
    case Kind::slow_compute:
    case Kind::slow_memory: return is(Cause::slow_gpu) && at(0, fault.rank);
    case Kind::slow_link: return is(Cause::slow_link) && d.places.size() == 2 && at(0, fault.rank) && at(1, fault.to);
    case Kind::slow_ports: return is(Cause::slow_link) && d.places.size() == 1 && at(0, fault.rank);
    case Kind::slow_node: return is(Cause::slow_node) && d.places.size() == 1 && d.places[0].host == host(fault.rank);
    case Kind::heat: return is(Cause::power_or_heat) && at(0, fault.rank);
    case Kind::late_rank: return is(Cause::late_rank) && at(0, fault.rank);
    case Kind::slow_allreduce: return is(Cause::configuration);
  }
  return false;
}

}  // namespace

std::vector<Results> cluster(const Plan& plan) {
  Maker maker(plan);
  std::vector<Results> all;
  for (const Spec& spec : maker.specs()) {
    const std::string family = family_of(spec.key);
    if (all.empty() || family_of(all.back().rows.back().key) != family) {
      all.push_back({family + ".json", maker.context(), {}});
    }
    for (int i = 0; i < plan.repetitions; ++i) all.back().rows.push_back(maker.row(spec, i));
  }
  return all;
}

void write_cluster(const Plan& plan, const std::filesystem::path& folder, bool one_file) {
  Maker maker(plan);
  const std::string empty = R"({"context": {"library_build_type": "release"}, "benchmarks": []})";
  const std::string whole = write_results(empty, maker.context(), {});
  const std::string head = whole.substr(0, whole.rfind('[') + 1) + "\n";
  std::string family;
  std::ofstream out;
  const auto close = [&] {
    if (out.is_open()) out << "\n]\n}\n";
    out.close();
  };
  for (const Spec& spec : maker.specs()) {
    const std::string name = one_file ? "all" : family_of(spec.key);
    const bool next = name != family;
    if (next) {
      close();
      family = name;
      out.open(folder / (family + ".json"));
      out << head;
    }
    for (int i = 0; i < plan.repetitions; ++i) {
      out << (next && i == 0 ? "" : ",\n") << text_of(maker.row(spec, i), plan.repetitions);
    }
  }
  close();
}

Outcome outcome(const Plan& plan, const Verdict& verdict) {
  Outcome outcome;
  std::vector<bool> named(plan.faults.size());
  for (const Diagnosis& d : verdict.culprits) {
    const bool late = d.causes.front() == Cause::late_rank;  // fails only where a collective does
    if (!d.fails && !late) continue;
    outcome.detected = true;
    bool right = false;
    for (std::size_t i = 0; i < plan.faults.size(); ++i) {
      if (!near(d, plan, plan.faults[i])) continue;
      named[i] = right = true;
    }
    if (!right) ++outcome.wrong;
  }
  outcome.named = std::all_of(named.begin(), named.end(), [](bool b) { return b; });
  return outcome;
}

Fault planted(Kind kind, double share, const Plan& plan, int attempt) {
  Random random(plan.seed * 1000003 + 7919 * plan.faults.size() + static_cast<std::uint64_t>(attempt));
  Fault fault{kind, share, random.below(plan.gpus), 0};
  const int first = fault.rank - fault.rank % plan.gpus_per_host;
  const int n = std::min(plan.gpus_per_host, plan.gpus - first);
  fault.to = first + (fault.rank - first + 1 + random.below(n - 1)) % n;
  return fault;
}

}  // namespace shakedown::simulation
