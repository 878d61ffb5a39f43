// What planted faults do to the figures.
#pragma once

#include <string>

#include "tests/fleet/site.hpp"

namespace shakedown::fleet {

inline constexpr const char* common_gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

class Damage {
 public:
  /// Of a GPU of the template.
  struct Usual {
    double mhz, power_limit_w;  // mhz: of a bf16 GEMM
  };
  /// Plan and site must outlive it.
  Damage(const Plan& plan, const Site& site, const Usual& usual) : plan_(plan), site_(site), usual_(usual) {}

  /// How many times longer a rank needs for a row.
  double longer(int rank, const std::string& key) const;
  double longest(const std::string& key) const;
  /// The part of its rate that NVLink has from one rank to another of its host.
  double path(int from, int to) const;
  /// The same of a ring over all ranks of each host.
  double ring() const;
  /// The same of all to all: a slow pair has only its share to carry, slow ports all of theirs.
  double worst_path() const;
  /// Of what all faults of this kind leave.
  double fraction(const std::string& kind) const;
  double late_us(int rank) const;
  double power_part(int rank) const;
  double power_limit_w(int rank) const { return usual_.power_limit_w * power_part(rank); }
  /// The fault that holds a rank's clock below this, or none.
  const Fault* clock_fault(int rank, double mhz) const;
  double limit_mhz(const Fault&) const;

 private:
  double longer(const Fault&, const std::string& key) const;

  const Plan& plan_;
  const Site& site_;
  Usual usual_;
};

}  // namespace shakedown::fleet
