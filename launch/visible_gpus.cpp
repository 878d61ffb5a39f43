#include "launch/visible_gpus.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/text.hpp"

namespace shakedown {
namespace {

using Texts = std::vector<std::string>;

constexpr std::string_view gpu_prefix = "GPU-", mig_prefix = "MIG-";
constexpr std::size_t uuid_size = 36;

bool begins_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

Texts entries_of(std::string_view mask) {
  Texts entries{""};
  for (const char c : mask) {
    if (c == ',') {
      entries.emplace_back();
    } else {
      entries.back() += c;
    }
  }
  return entries;
}

/// Returns the index of a GPU that an entry of the mask gives; nullopt for an invalid entry.
std::optional<std::size_t> gpu_of_index(const std::string& entry, const Texts& gpus) {
  char* end = nullptr;
  // CUDA truncates the number to 32 bits as well.
  const int index = static_cast<int>(std::strtol(entry.c_str(), &end, 10));
  if (end == entry.c_str() || index < 0 || static_cast<std::size_t>(index) >= gpus.size()) return std::nullopt;
  return static_cast<std::size_t>(index);
}

/// Returns the index of a GPU for the entry "GPU-a7725b98", or "MIG-" with the UUID of a GPU without MIG.
std::optional<std::size_t> gpu_of_uuid(const std::string& entry, const Texts& gpus) {
  if (!begins_with(entry, gpu_prefix) && !begins_with(entry, mig_prefix)) return std::nullopt;
  const auto wanted = lower(entry.substr(gpu_prefix.size(), uuid_size));
  const auto matches = [&](const std::string& gpu) {
    return begins_with(gpu, gpu_prefix) && begins_with(lower(gpu.substr(gpu_prefix.size())), wanted);
  };
  const auto found = std::find_if(gpus.begin(), gpus.end(), matches);
  if (wanted.empty() || found == gpus.end() || std::any_of(found + 1, gpus.end(), matches)) return std::nullopt;
  return static_cast<std::size_t>(found - gpus.begin());
}

bool hides_all(std::string_view mask) {
  return mask.empty() || begins_with(mask, "-1") || mask == "NoDevFiles" || mask == "none" || mask == "void";
}

std::string quoted(const std::string& entry) { return "\"" + one_line(entry) + "\""; }

}  // namespace

VisibleGpus visible_gpus(std::string_view mask, const Texts& gpus) {
  const auto entries = entries_of(mask);
  const bool by_uuid = begins_with(mask, gpu_prefix) || begins_with(mask, mig_prefix);
  const bool knows_uuids =
      std::any_of(gpus.begin(), gpus.end(), [](const auto& gpu) { return begins_with(gpu, gpu_prefix); });
  if (gpus.empty() || hides_all(mask)) return {};
  if (by_uuid && !knows_uuids) return {static_cast<int>(std::min(entries.size(), gpus.size())), ""};
  // The UUID of a MIG device cannot be looked up here. CUDA shows at most one MIG device.
  if (begins_with(mask, mig_prefix) && !gpu_of_uuid(entries.front(), gpus)) {
    return {1, entries.size() > 1 ? "CUDA shows one MIG device, and no other after it" : ""};
  }
  std::set<std::size_t> shown;
  for (const auto& entry : entries) {
    const auto gpu = by_uuid ? gpu_of_uuid(entry, gpus) : gpu_of_index(entry, gpus);
    if (!gpu) {
      const bool marks_end = begins_with(entry, "-") || (entry.empty() && &entry == &entries.back());
      return {static_cast<int>(shown.size()),
              marks_end
                  ? ""
                  : quoted(entry) + " names no GPU of this host; there " +
                        (gpus.size() == 1 ? "is 1" : "are " + std::to_string(gpus.size())) + ", and CUDA ignores the rest of the list"};
    }
    if (!shown.insert(*gpu).second) return {0, quoted(entry) + " names a GPU twice, so CUDA shows no GPU"};
  }
  return {static_cast<int>(shown.size()), ""};
}

}  // namespace shakedown
