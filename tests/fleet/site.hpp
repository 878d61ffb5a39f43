// Who is in a made-up fleet: its hosts, their GPUs, and which of them a fault strikes.
#pragma once

#include <string>
#include <vector>

#include "tests/fleet/fleet.hpp"

namespace shakedown::fleet {

struct Gpu {
  int host, local, slot;  // slot: which of the host's GPUs
  std::string uuid, pci, serial;
};

class Site {
 public:
  /// The plan must outlive it. Errors: std::runtime_error for a fault at a rank, host or link that is not there.
  explicit Site(const Plan&);

  int count() const { return static_cast<int>(gpus_.size()); }
  /// Ranks of the fullest host.
  int local_most() const { return local_most_; }
  const std::vector<Gpu>& gpus() const { return gpus_; }
  const Gpu& gpu(int rank) const { return gpus_[static_cast<std::size_t>(rank)]; }
  /// -1: there is none.
  int rank_at(int host, int local) const;
  int on_host(int host) const;
  /// GPUs that the host's bus has, with a rank or without.
  int on_bus(int host) const;
  std::string host_name(int host) const;
  std::string rank_name(int rank) const;
  bool strikes(const Fault&, int rank) const;

 private:
  void place_gpus();
  void check(const Fault&) const;

  const Plan& plan_;
  std::vector<Gpu> gpus_;
  std::vector<int> first_of_host_;
  int local_most_ = 0;
};

}  // namespace shakedown::fleet
