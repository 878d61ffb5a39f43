// The part of the machine that a finding is about. Pure.
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
  std::string host;  // empty if the part is not in a single host
};

Part host_part(const std::string& host);

/// Returns the GPU of a rank: its UUID, PCI address or "rank 3".
Part gpu_part(const RankFacts&);

/// Returns the part that a value of this benchmark and metric at `rank` is about.
Part part_of(const Key&, const std::string& metric, const Context&, int rank);
/// Returns the same with a known source of a copy; nullopt if it is not a copy between ranks.
Part part_of(const Key&, const std::string& metric, const Context&, int rank, std::optional<int> from);

}  // namespace shakedown
