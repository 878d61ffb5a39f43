// A part of the machine that a finding is about. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/names.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// run: no single part. processor: the cores that feed a GPU, or that a rank of the host backend computes on. link:
/// copies from one GPU to another. pcie: copies between a GPU and its host. nic: the NIC of a rail.
enum class PartKind { run, host, processor, gpu, link, pcie, nic, leaf, uplink, path };
constexpr auto words(PartKind) {
  return names("run", "host", "processor", "gpu", "link", "pcie", "nic", "leaf", "uplink", "path");
}

struct Part {
  PartKind kind = PartKind::run;
  std::string id;    // empty for a run
  std::string host;  // empty where the part is in no single host
};

Part host_part(const std::string& host);

/// The GPU of a rank: its UUID, PCI address or "rank 3".
Part gpu_part(const RankFacts&);

/// The part that a value of this benchmark and metric at `rank` is about.
Part part_of(const Key&, const std::string& metric, const Context&, int rank);
/// The same where the source of a copy is known; nullopt: it is no copy between ranks.
Part part_of(const Key&, const std::string& metric, const Context&, int rank, std::optional<int> from);

}  // namespace shakedown
