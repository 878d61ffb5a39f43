#include "thresholds/rehearsal/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/counted_work.hpp"
#include "base/key.hpp"
#include "thresholds/rehearsal/pairs.hpp"

namespace shakedown::rehearsal {

namespace {

constexpr double gib = 1 << 30;

/// Returns 0.99 of the limit of 132 SMs (NVIDIA data sheet: 989.4 TFLOPS of bf16 at 1830 MHz).
double most_flops_per_clock(const std::string& key) {
  const double bf16 = 132 * 4096 * 0.99;
  if (key.find("dtype:f32") != std::string::npos || key.find("f64") != std::string::npos) return bf16 / 16;
  return key.find("fp8") != std::string::npos ? 2 * bf16 : bf16;
}

/// Returns a product with the TFLOPS per GHz and the clock of ci/baselines/h200-sxm/2ranks/1.
Planned product(const std::string& key, double flops, double per_ghz, double mhz, double cv) {
  Planned row{"gemm/" + key, Form::products, Kind::gemm};
  row.mhz = mhz;
  row.seconds = flops / (per_ghz * 1e9 * mhz);
  row.min_clocks = flops / most_flops_per_clock(key);
  row.cv = cv;
  row.bursts = true;
  return row;
}

Planned waived(const std::string& key, const std::string& reason) {
  Planned row{key};
  row.reason = reason;
  return row;
}

std::vector<Planned> gemm() {
  const auto cube = [](double n) { return 2 * n * n * n; };
  std::vector<Planned> rows;
  const auto add = [&](const char* dtype, int n, double per_ghz, double mhz, double cv) {
    rows.push_back(product(fmt::format("dtype:{}/m:{}/n:{}/k:{}", dtype, n, n, n), cube(n), per_ghz, mhz, cv));
  };
  add("bf16", 4096, 475.5, 1635, 0.002);
  add("bf16", 8192, 505, 1590, 0.003);
  add("bf16", 16384, 518, 1537, 0.0025);
  add("f32", 8192, 25.83, 1978.5, 0.0011);
  add("f64", 8192, 32.83, 1866, 0.0006);
  add("fp8_e4m3", 8192, 984, 1543, 0.011);
  for (const char* dtype : {"nvfp4", "mxfp8"}) {
    rows.push_back(waived(fmt::format("gemm/dtype:{}/m:8192/n:8192/k:8192", dtype),
                          fmt::format("{} needs compute capability 10.0 or later, this GPU has 9.0", dtype)));
  }
  rows.push_back(product("dtype:bf16/m:8192/n:8192/k:8192/load:sustained", cube(8192), 528.7, 1283, 0.037));
  rows.back().bursts = false;
  rows.back().watts = 692;
  return rows;
}

std::vector<Planned> hbm() {
  std::vector<Planned> rows;
  const auto add = [&](const char* op, const char* engine, double mib, double rate, double cv, double watts) {
    const double bytes = mib * 1048576;
    Planned row{fmt::format("hbm/op:{}/engine:{}/bytes:{:.0f}", op, engine, bytes), Form::streams, Kind::hbm};
    const std::string_view name = op;
    row.seconds = bytes * (name == "copy" ? 2 : name == "triad" ? 3 : 1) / (rate * 1e9);
    row.mhz = 1970;
    row.cv = cv;
    row.watts = watts;
    rows.push_back(row);
  };
  add("copy", "sm", 256, 4211, 0.0008, 623);
  add("copy", "sm", 1024, 4245, 0.0007, 691);
  add("copy", "sm", 4096, 4281, 0.0003, 680);
  add("read", "sm", 4096, 4586, 0.0066, 445);
  add("write", "sm", 4096, 4688, 0.0045, 700);
  add("triad", "sm", 4096, 4386, 0.0003, 669);
  add("copy", "ce", 256, 4178, 0.03, 502);
  add("copy", "ce", 1024, 4233, 0.0006, 587);
  add("copy", "ce", 4096, 4296, 0.0002, 678);
  return rows;
}

Planned memory_test() {
  Planned row{"memtest/pattern:random/bytes:free", Form::memory_test, Kind::memtest, 0.069035, 1740, 0.006, 690};
  return row;
}

/// GB/s of copies of 1 GiB to each other GPU, all at once: for read and write, by copy engine and by SMs
/// (ci/baselines/h200-sxm/2ranks/1 and 4ranks/1).
constexpr double shift_rate[2][2] = {{373.4, 337.5}, {392.3, 369.3}};
/// GB/s that a link of 18 NVLinks can carry, by copy engine and by kernels. Each of 15 of 16 flits carries a packet,
/// and packets of 256 and 128 bytes have a header of 16 bytes: 397.1 and 375.0 GB/s. nvbandwidth read 376.2 by kernels
/// (two H200, 2026-11-22), so the header of a read is counted too high.
constexpr double link_rate[2] = {397.1, 376.2};

std::vector<Planned> p2p(int gpus) {
  std::vector<Planned> rows;
  for (const char* const op : {"read", "write"}) {
    if (gpus > 1) break;
    rows.push_back(waived(fmt::format("p2p/op:{}/engine:ce/src:0/dst:1/bytes:1073741824", op),
                          "each host has only one rank, so there is no peer to copy to"));
  }
  for (const bool write : {false, true}) {
    for (const bool sm : {false, true}) {
      for (int shift = 1; shift < gpus; ++shift) {
        Planned row{fmt::format("p2p/op:{}/engine:{}/shift:{}/bytes:1073741824", write ? "write" : "read",
                                sm ? "sm" : "ce", shift),
                    Form::copies, Kind::copy};
        row.seconds = gib / (shift_rate[write][sm] * 1e9);
        row.min_seconds = gib / (link_rate[sm] * 1e9);
        row.mhz = 1978;
        row.cv = 0.0004;
        row.watts = sm ? 312 : 217;
        row.shift = shift;
        rows.push_back(row);
      }
    }
  }
  for (int shift = 1; shift < gpus; ++shift) {
    Planned row{fmt::format("p2p/op:latency/engine:sm/shift:{}/bytes:2097152", shift), Form::peer_loads, Kind::latency};
    row.seconds = 0.8367e-6 * chase::nodes(2097152);
    row.mhz = 1979;
    row.cv = 0.0003;
    row.watts = 158;
    row.shift = shift;
    rows.push_back(row);
  }
  return rows;
}

std::vector<Planned> pcie(int gpus) {
  constexpr double bytes = 1 << 28;
  std::vector<Planned> rows;
  const auto add = [&](const char* op, double rate, std::optional<int> alone, double cv) {
    Planned row{
        fmt::format("pcie/op:{}{}/bytes:268435456", op, alone ? fmt::format("/active:one/rank:{}", *alone) : ""),
        Form::pcie, alone ? Kind::pcie : Kind::pcie_shared};
    row.seconds = bytes * (std::string_view(op) == "both" ? 2 : 1) / (rate * 1e9);
    row.mhz = 1979;
    row.cv = cv;
    row.watts = 132;
    row.alone = alone;
    rows.push_back(row);
  };
  // If all GPUs copy at once, the rates are those of the four H200 of ci/baselines/h200-sxm/4ranks/1. The four H200
  // share one CPU socket, as four of eight GPUs do.
  for (const bool to_host : {false, true}) {
    const char* op = to_host ? "d2h" : "h2d";
    add(op, gpus > 2 ? (to_host ? 37.6 : 43.1) : 55.3, std::nullopt, gpus > 2 ? 0.03 : 0.003);
    for (int local = 0; local < gpus; ++local) add(op, to_host ? 55.36 : 55.42, local, 0.001);
  }
  add("both", gpus > 2 ? 45.1 : 77.9, std::nullopt, 0.03);
  return rows;
}

struct Sized {
  double bytes, us;
};

Planned collective(std::string key, Sized size, Kind kind, double cv) {
  Planned row{std::move(key), Form::collective, kind};
  row.seconds = size.us * 1e-6;
  row.bytes = size.bytes;
  row.mhz = 1979.5;
  row.cv = cv;
  row.watts = 200;
  return row;
}

Kind kind_of(double bytes) { return bytes >= 16 << 20 ? Kind::collective : Kind::message; }

/// Adds the same rows inside hosts, if there are several hosts.
void add_inside_hosts(std::vector<Planned>& rows, const Shape& shape) {
  if (shape.hosts == 1) return;
  const auto all = rows;
  for (const Planned& row : all) {
    if (row.key.find("dtype:f32") == std::string::npos || row.key.find("/place:") != std::string::npos ||
        row.key.find("/launch:") != std::string::npos || row.key.find("/timing:") != std::string::npos) {
      continue;
    }
    rows.push_back(row);
    rows.back().key += "/scope:node";
    rows.back().in_host = true;
  }
}

/// Times of AllReduce on four H200 of one host (ci/baselines/h200-sxm/4ranks/1) with NVLS off.
constexpr Sized sums[] = {{8, 8.3},           {32, 8.48},          {128, 8.6},           {512, 8.9},
                          {2048, 9.2},        {8192, 9.9},         {32768, 10.6},        {131072, 10.97},
                          {524288, 13.8},     {1048576, 17.05},    {2097152, 26.09},     {8388608, 59.9},
                          {10485760, 73.8},   {16777216, 98.3},    {33554432, 173},      {104857600, 488.8},
                          {134217728, 614.4}, {536870912, 2324.4}, {1048576000, 4450.5}, {1073741824, 4534.8},
                          {8589934592, 35383}};
constexpr Sized graphs[] = {{8, 7.6},      {64, 7.8},      {1024, 9.08},  {4096, 9.3},
                            {65536, 10.5}, {262144, 11.6}, {524288, 13.2}};

std::vector<Planned> allreduce(const Shape& shape) {
  std::vector<Planned> rows;
  for (const auto& size : sums) {
    rows.push_back(
        collective(fmt::format("allreduce/dtype:f32/bytes:{:.0f}", size.bytes), size, kind_of(size.bytes), 0.01));
  }
  for (const char* dtype : {"f16", "bf16"}) {
    rows.push_back(
        collective(fmt::format("allreduce/dtype:{}/bytes:1048576", dtype), {1048576, 18.05}, Kind::message, 0.005));
  }
  rows.push_back(collective("allreduce/dtype:f32/bytes:134217728/place:in", {134217728, 618}, Kind::collective, 0.003));
  for (const auto& size : graphs) {
    rows.push_back(
        collective(fmt::format("allreduce/dtype:f32/bytes:{:.0f}/launch:graph", size.bytes), size, Kind::graph, 0.003));
  }
  add_inside_hosts(rows, shape);
  rows.push_back(collective("allreduce/dtype:f32/bytes:8/timing:single", {8, 15.2}, Kind::message, 0.09));
  return rows;
}

std::vector<Planned> collectives(const Shape& shape) {
  struct Of {
    const char* op;
    double mib, mib_128, gib;
  };
  constexpr Of all[] = {{"all_gather", 13.28, 346.6, 2467}, {"reduce_scatter", 11.48, 346.4, 2472},
                        {"alltoall", 14.16, 343.7, 2406},   {"broadcast", 12.66, 411.8, 2983},
                        {"reduce", 11.83, 409.8, 2970},     {"sendrecv", 17.08, 826.8, 2986}};
  std::vector<Planned> rows;
  for (const auto& [op, mib, mib_128, one_gib] : all) {
    std::vector<Planned> of_op;
    for (const Sized& size : {Sized{1 << 20, mib}, Sized{1 << 27, mib_128}, Sized{gib, one_gib}}) {
      of_op.push_back(collective(fmt::format("collectives/op:{}/dtype:f32/bytes:{:.0f}", op, size.bytes), size,
                                 kind_of(size.bytes), 0.003));
    }
    add_inside_hosts(of_op, shape);
    rows.insert(rows.end(), of_op.begin(), of_op.end());
  }
  return rows;
}

/// Returns the training steps, with values of ci/baselines/h200-sxm/2ranks/1.
std::vector<Planned> steps() {
  Planned row{"lora_step/model:qwen2_7b/batch:2/seq:4096", Form::step, Kind::step, 0.4548, 1345, 0.007, 690};
  return {row};
}

std::vector<Planned> jitter() {
  return {{"jitter/op:fwq/quanta:100", Form::quanta, Kind::processor, 0.008815, 0, 0.009}};
}

std::vector<Planned> launches() {
  return {{"launch/op:kernel", Form::launches, Kind::launch, 3.3e-6, 0, 0.32},
          {"launch/op:graph/kernels:20", Form::launches, Kind::launch, 1.27e-6, 0, 0.52}};
}

std::vector<Planned> preflight() {
  std::vector<Planned> rows;
  for (const char* of : {"host", "gpu", "nvlink", "software", "binding", "clock", "network"}) {
    rows.push_back({fmt::format("preflight/of:{}", of), Form::facts});
    rows.back().seconds = 1e-4;
  }
  rows.push_back(waived("preflight/of:folder", "no folder was named (--shared-folder=DIR)"));
  return rows;
}

}  // namespace

Planned copy_alone(bool read, bool by_kernel, int source, int destination) {
  Planned row{fmt::format("p2p/op:{}/engine:{}/src:{}/dst:{}/bytes:1073741824", read ? "read" : "write",
                          by_kernel ? "sm" : "ce", source, destination),
              Form::copies, Kind::copy};
  // The rates of copy engines are from ci/baselines/h200-sxm/4ranks/1. The rates of kernels are from 2ranks, where a
  // shift is a single pair.
  row.seconds = gib / ((by_kernel ? (read ? 375.6 : 369.8) : (read ? 396.2 : 396.6)) * 1e9);
  row.min_seconds = gib / (link_rate[by_kernel] * 1e9);
  row.mhz = 1978;
  row.cv = 0.0004;
  row.watts = 200;
  row.source = source;
  row.alone = destination;
  return row;
}

double bus_factor(const std::string& key, int ranks) {
  const double n = ranks;
  const auto op = key_part(key, "op");
  if (key.starts_with("allreduce") || op == "allreduce") return 2 * (n - 1) / n;
  return op == "all_gather" || op == "reduce_scatter" || op == "alltoall" ? (n - 1) / n : 1;
}

std::vector<PlannedFamily> quick_plan(const Shape& shape) {
  const std::string full_alone = "it is measured only in the full tier";
  std::vector<PlannedFamily> plan{{"preflight", preflight()},
                                  {"jitter", jitter()},
                                  {"launch", launches()},
                                  {"gemm", gemm()},
                                  {"hbm", hbm()},
                                  {"memtest", {memory_test()}},
                                  {"p2p", p2p(shape.gpus)},
                                  {"pcie", pcie(shape.gpus)},
                                  {"allreduce", allreduce(shape)},
                                  {"collectives", collectives(shape)},
                                  {"lora_step", steps()},
                                  {"train_step", {waived("train_step/model:gpt2_124m/batch:32/seq:1024", full_alone)}},
                                  {"layer", {waived("layer/model:h8192", "it has no limits yet")}},
                                  {"decode", {waived("decode/model:llama_70b", "it has no limits yet")}},
                                  {"sm", {waived("sm/op:product", "it is measured only on request")}},
                                  {"checkpoint", {waived("checkpoint/op:write/model:gpt2_124m", full_alone)}},
                                  {"storage", {waived("storage/op:write", "no folder was named (--storage-dir=DIR)")}},
                                  {"pairs", {}}};
  if (shape.hosts > 1) {
    plan.back().rows = pair_rows(shape);
  } else {
    plan.back().rows = {
        waived("pairs/op:sendrecv/scope:any/round:0/bytes:268435456", "there is only one host, so it has no partner")};
  }
  return plan;
}

std::vector<PlannedFamily> gate_plan(const Shape& shape) {
  constexpr std::array rows{"preflight/",
                            "gemm/dtype:bf16/m:4096/n:4096/k:4096",
                            "gemm/dtype:bf16/m:8192/n:8192/k:8192",
                            "gemm/dtype:fp8_e4m3/m:8192/n:8192/k:8192",
                            "hbm/op:copy/engine:sm/bytes:4294967296",
                            "hbm/op:read/engine:sm/bytes:4294967296",
                            "hbm/op:write/engine:sm/bytes:4294967296",
                            "p2p/op:read/engine:ce/",
                            "p2p/op:write/engine:ce/",
                            "allreduce/dtype:f32/bytes:8",
                            "allreduce/dtype:f32/bytes:16777216",
                            "allreduce/dtype:f32/bytes:8589934592"};
  const auto is_left_out = [&](const Planned& row) {
    if (row.in_host && row.bytes < gib) return true;
    const auto key = row.in_host ? row.key.substr(0, row.key.find("/scope:")) : row.key;
    return std::ranges::none_of(rows, [&](const std::string_view wanted) {
      return wanted.ends_with('/') ? key.starts_with(wanted) : key == wanted;
    });
  };
  auto plan = quick_plan(shape);
  for (auto& family : plan) std::erase_if(family.rows, is_left_out);
  std::erase_if(plan, [](const PlannedFamily& family) { return family.rows.empty(); });
  return plan;
}

}  // namespace shakedown::rehearsal
