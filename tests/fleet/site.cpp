#include "tests/fleet/site.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace shakedown::fleet {

Site::Site(const Plan& plan) : plan_(plan) {
  if (plan.hosts < 1 || plan.gpus < 1 || plan.hosts_per_rack < 1) throw std::runtime_error("a fleet has GPUs");
  place_gpus();
  for (const auto& fault : plan.faults) check(fault);
}

void Site::place_gpus() {
  for (int host = 0; host < plan_.hosts; ++host) {
    int lost = 0;
    for (const auto& fault : plan_.faults) {
      lost += (fault.kind == "missing" || fault.kind == "absent") && fault.host == host ? 1 : 0;
    }
    first_of_host_.push_back(static_cast<int>(gpus_.size()));
    for (int local = 0; local + lost < plan_.gpus; ++local) {
      const int slot = lost > 0 && local >= plan_.gpus / 2 ? local + lost : local;  // one in the middle is gone
      char text[64];
      std::snprintf(text, sizeof text, "GPU-%08x-%04x-4000-8000-%012x", static_cast<unsigned>(plan_.seed), host, slot);
      const std::string uuid = text;
      std::snprintf(text, sizeof text, "0000:%02x:00.0", 0x18 + 0x10 * slot);
      gpus_.push_back({host, local, slot, uuid, text, "16537240" + std::to_string(10000 + host * plan_.gpus + slot)});
      local_most_ = std::max(local_most_, local + 1);
    }
  }
  first_of_host_.push_back(static_cast<int>(gpus_.size()));
  if (gpus_.empty()) throw std::runtime_error("a fleet has GPUs");
}

void Site::check(const Fault& fault) const {
  if (fault.rank >= count()) throw std::runtime_error("there is no rank " + std::to_string(fault.rank));
  if (fault.host >= plan_.hosts) throw std::runtime_error("there is no host " + std::to_string(fault.host));
  if (fault.kind == "link" &&
      (std::min(fault.src, fault.dst) < 0 || std::max(fault.src, fault.dst) >= plan_.gpus || fault.src == fault.dst)) {
    throw std::runtime_error("a link is between two local ranks");
  }
}

int Site::rank_at(int host, int local) const {
  const auto h = static_cast<std::size_t>(host);
  return first_of_host_[h] + local < first_of_host_[h + 1] ? first_of_host_[h] + local : -1;
}
int Site::on_host(int host) const {
  return first_of_host_[static_cast<std::size_t>(host) + 1] - first_of_host_[static_cast<std::size_t>(host)];
}
std::string Site::host_name(int host) const {
  char text[24];
  std::snprintf(text, sizeof text, "node%05d", host);
  return text;
}
std::string Site::rank_name(int rank) const {
  return "rank " + std::to_string(rank) + " (" + host_name(gpu(rank).host) + " " + gpu(rank).uuid + ")";
}
bool Site::strikes(const Fault& fault, int rank) const {
  if (fault.kind == "fleet") return true;
  return fault.kind == "host" ? gpu(rank).host == fault.host : fault.rank == rank || fault.rank == -1;
}

int Site::on_bus(int host) const {
  int gone = 0;
  for (const auto& fault : plan_.faults) gone += fault.kind == "missing" && fault.host == host ? 1 : 0;
  return plan_.gpus - gone;
}

}  // namespace shakedown::fleet
