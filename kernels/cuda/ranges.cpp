#include "kernels/cuda/ranges.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cstdint>

namespace shakedown::cuda {

namespace {

constexpr std::uint32_t category_of(PartClass part_class) { return static_cast<std::uint32_t>(part_class) + 1; }

/// Names the categories. A name may be given once for each process.
bool name_categories() {
  constexpr auto classes = words(PartClass{});
  for (std::uint32_t i = 0; i < classes.size(); ++i) nvtxNameCategoryA(i + 1, std::string(classes[i]).c_str());
  return true;
}

}  // namespace

void begin_range(const std::string& name, PartClass part_class) {
  [[maybe_unused]] static const bool is_named = name_categories();
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.category = category_of(part_class);
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name.c_str();
  nvtxRangePushEx(&range);
}

void end_range() { nvtxRangePop(); }

}  // namespace shakedown::cuda
