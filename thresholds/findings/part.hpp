// The part of the machine that a finding is about. The functions are pure.
#pragma once

#include <optional>
#include <string>

#include "base/names.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// run: the finding is about no single part. processor: the cores that feed a GPU, or on which a rank of the host
/// backend computes. link: copies from one GPU to another. pcie: copies between a GPU and its host. nic: the NIC of a
/// rail.
enum class PartKind { run, host, processor, gpu, link, pcie, nic, leaf, uplink, path };
constexpr auto words(PartKind) {
  return names("run", "host", "processor", "gpu", "link", "pcie", "nic", "leaf", "uplink", "path");
}

struct Part {
  PartKind kind = PartKind::run;
  std::string id;    // empty for `run`
  std::string host;  // empty if the part is not in one host
};

Part host_part(const std::string& host);

/// Returns the GPU of a rank. The id of a GPU is the UUID, the PCI address or "rank 3".
Part gpu_part(const RankFacts&);

/// Returns the part that a value of this benchmark and metric at `rank` describes.
Part part_of(const Key&, const std::string& metric, const Context&, int rank);
/// Like the function above, for a copy whose source is known; nullopt for a row that is not a copy between ranks.
Part part_of(const Key&, const std::string& metric, const Context&, int rank, std::optional<int> from);

}  // namespace shakedown
