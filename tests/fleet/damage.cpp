#include "tests/fleet/damage.hpp"

#include <algorithm>

#include "tests/fleet/row.hpp"

namespace shakedown::fleet {

namespace {

/// A step of the training, stored: products 336 of 449 ms, other kernels that memory limits 57 ms.
constexpr double products_of_step = 0.75, memory_of_step = 0.13;

}  // namespace

double Damage::longer(const Fault& fault, const std::string& key) const {
  if (starts(key, fault.in)) return 1 / (1 - fault.percent / 100);
  if (starts(key, "memtest"))
    return (longer(fault, "hbm/op:read/engine:sm") + longer(fault, "hbm/op:write/engine:sm")) / 2;
  if (starts(key, "lora_step")) {
    return 1 + products_of_step * (longer(fault, common_gemm) - 1) +
           memory_of_step * (longer(fault, "hbm/op:copy/engine:sm") - 1);
  }
  return 1;
}

double Damage::longer(int rank, const std::string& key) const {
  double times = 1;
  for (const auto& fault : plan_.faults) {
    if (fault.percent > 0 && (fault.kind == "gpu" || fault.kind == "host" || fault.kind == "fleet") &&
        site_.strikes(fault, rank)) {
      times *= longer(fault, key);
    }
  }
  return times;
}

double Damage::longest(const std::string& key) const {
  double times = 1;
  if (plan_.faults.empty()) return times;
  for (int r = 0; r < site_.count(); ++r) times = std::max(times, longer(r, key));
  return times;
}

double Damage::path(int from, int to) const {
  double rate = 1;
  for (const auto& fault : plan_.faults) {
    const bool ports = fault.kind == "ports" && (site_.strikes(fault, from) || site_.strikes(fault, to));
    const bool link = fault.kind == "link" && site_.gpu(from).host == fault.host &&
                      site_.gpu(from).local == fault.src && site_.gpu(to).local == fault.dst;
    if (ports || link) rate = std::min(rate, fault.fraction);
  }
  return rate;
}

double Damage::ring() const {
  double rate = 1;
  for (int r = 0; r < site_.count() && !plan_.faults.empty(); ++r) {
    const int next = site_.rank_at(site_.gpu(r).host, (site_.gpu(r).local + 1) % site_.on_host(site_.gpu(r).host));
    if (next != r) rate = std::min(rate, path(r, next));
  }
  return rate;
}

double Damage::fraction(const std::string& kind) const {
  double rate = 1;
  for (const auto& fault : plan_.faults) rate *= fault.kind == kind ? fault.fraction : 1;
  return rate;
}

double Damage::late_us(int rank) const {
  double us = 0;
  for (const auto& fault : plan_.faults) us += fault.kind == "late" && fault.rank == rank ? fault.us : 0;
  return us;
}

double Damage::power_part(int rank) const {
  double rate = 1;
  for (const auto& fault : plan_.faults) {
    if (fault.kind == "power_limit" && site_.strikes(fault, rank))
      rate = std::min(rate, fault.watts / usual_.power_limit_w);
  }
  return rate;
}

const Fault* Damage::clock_fault(int rank, double mhz) const {
  const Fault* found = nullptr;
  for (const auto& fault : plan_.faults) {
    if ((fault.kind != "clock" && fault.kind != "heat") || !site_.strikes(fault, rank)) continue;
    if (limit_mhz(fault) < mhz) {
      mhz = limit_mhz(fault);
      found = &fault;
    }
  }
  return found;
}

double Damage::limit_mhz(const Fault& fault) const { return usual_.mhz * (1 - fault.percent / 100); }

double Damage::worst_path() const {
  double rate = 1;
  for (const auto& fault : plan_.faults) {
    if (fault.kind == "ports") rate = std::min(rate, fault.fraction);
    if (fault.kind == "link") rate = std::min(rate, std::min(1.0, fault.fraction * (site_.local_most() - 1)));
  }
  return rate;
}

}  // namespace shakedown::fleet
