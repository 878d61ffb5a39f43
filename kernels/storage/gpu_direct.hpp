// GPUDirect Storage, which moves data between a disk and a GPU without the memory of the host.
#pragma once

#include <string>

namespace shakedown::storage {

/// Returns whether the parts of GPUDirect Storage are on this host: "GPUDirect Storage: no module nvidia_fs, no
/// libcufile". It is a fact for the record: no operation uses it.
std::string gpu_direct_text();

}  // namespace shakedown::storage
