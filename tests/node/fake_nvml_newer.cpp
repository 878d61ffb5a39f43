// The functions that older drivers lack. The second simulated library is built without this file.
#include "tests/node/fake_nvml.hpp"

namespace shakedown::fake_nvml {

namespace abi = nvml_abi;

extern "C" {

abi::Return nvmlDeviceGetCurrentClocksEventReasons(abi::Device device, abi::Size* reasons) {
  const auto reply = ask(device, "nvmlDeviceGetCurrentClocksEventReasons");
  if (reply.status == abi::success) *reasons = reply.number();
  return reply.status;
}

abi::Return nvmlDeviceGetRemappedRows(abi::Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                                      unsigned* failed) {
  const auto reply = ask(device, "nvmlDeviceGetRemappedRows");
  if (reply.status != abi::success) return reply.status;
  unsigned* const to[] = {corrected, uncorrected, pending, failed};
  for (std::size_t i = 0; i < 4; ++i) *to[i] = static_cast<unsigned>(reply.number(i));
  return abi::success;
}

abi::Return nvmlDeviceGetGpuFabricInfoV(abi::Device device, abi::FabricInfo* info) {
  const auto reply = ask(device, "nvmlDeviceGetGpuFabricInfoV");
  if (reply.status != abi::success) return reply.status;
  if (info->version != abi::fabric_info_version) return abi::invalid_argument;
  info->state = static_cast<unsigned char>(reply.number(0));
  info->status = static_cast<abi::Return>(reply.number(1));
  info->clique = static_cast<unsigned>(reply.number(2));
  info->health_mask = static_cast<unsigned>(reply.number(3));
  return abi::success;
}

abi::Return nvmlDeviceGetComputeRunningProcesses_v3(abi::Device device, unsigned* count, abi::ProcessInfo* list) {
  return processes(device, count, list);
}

/// Fields are unsigned long long here; a real driver chooses the type for each field.
abi::Return nvmlDeviceGetFieldValues(abi::Device device, int count, abi::FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    auto question = "field:" + std::to_string(values[i].field);
    const bool of_a_link = values[i].field >= abi::field_nvlink_replay && values[i].field <= abi::field_nvlink_speed;
    if (of_a_link) question += ":" + std::to_string(values[i].scope);
    const auto reply = ask(device, question);
    values[i].status = reply.status;
    values[i].type = abi::as_ulonglong;
    values[i].value.as_ulonglong = reply.number();
  }
  return abi::success;
}

}  // extern "C"

}  // namespace shakedown::fake_nvml
