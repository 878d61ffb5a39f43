// Our declarations of NVML against those of NVIDIA, if nvml.h exists. All checks run at compile time.
#include "node/nvml_abi.hpp"

#include <gtest/gtest.h>

#if __has_include(<nvml.h>)
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <cstddef>

namespace shakedown::nvml_abi::nvml_abi_test {
namespace {

/// True if both functions have the same number of arguments with the same sizes, and pointers in the same positions.
template <class Ours, class Theirs>
constexpr bool same_shape = false;
template <class R, class S, class... A, class... B>
requires(sizeof...(A) == sizeof...(B)) constexpr bool same_shape<R(A...), S(B...)> =
    sizeof(R) == sizeof(S) && ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);

template <class Signature, class Theirs>
constexpr bool same(const Function<Signature>&, Theirs*) {
  return same_shape<Signature, Theirs>;
}

static_assert(same(init, nvmlInit_v2) && same(shutdown, nvmlShutdown));
static_assert(same(driver_version, nvmlSystemGetDriverVersion) && same(device_count, nvmlDeviceGetCount_v2));
static_assert(same(handle_by_index, nvmlDeviceGetHandleByIndex_v2) && same(handle_by_uuid, nvmlDeviceGetHandleByUUID));
static_assert(same(handle_by_pci, nvmlDeviceGetHandleByPciBusId_v2) && same(pci_info, nvmlDeviceGetPciInfo_v3));
static_assert(same(name, nvmlDeviceGetName) && same(uuid, nvmlDeviceGetUUID) && same(serial, nvmlDeviceGetSerial));
static_assert(same(vbios, nvmlDeviceGetVbiosVersion));
static_assert(same(clock, nvmlDeviceGetClockInfo) && same(max_clock, nvmlDeviceGetMaxClockInfo));
static_assert(same(temperature, nvmlDeviceGetTemperature) && same(power, nvmlDeviceGetPowerUsage));
static_assert(same(power_limit, nvmlDeviceGetEnforcedPowerLimit));
static_assert(same(throttle_reasons, nvmlDeviceGetCurrentClocksThrottleReasons));
static_assert(same(ecc_mode, nvmlDeviceGetEccMode) && same(ecc_errors, nvmlDeviceGetTotalEccErrors));
static_assert(same(remapped_rows, nvmlDeviceGetRemappedRows) && same(retired_pages, nvmlDeviceGetRetiredPages));
static_assert(same(retirement_pending, nvmlDeviceGetRetiredPagesPendingStatus));
static_assert(same(pcie_generation, nvmlDeviceGetCurrPcieLinkGeneration));
static_assert(same(pcie_generation_max, nvmlDeviceGetMaxPcieLinkGeneration));
static_assert(same(pcie_width, nvmlDeviceGetCurrPcieLinkWidth) && same(pcie_width_max, nvmlDeviceGetMaxPcieLinkWidth));
static_assert(same(pcie_replays, nvmlDeviceGetPcieReplayCounter));
static_assert(same(nvlink_state, nvmlDeviceGetNvLinkState) && same(nvlink_errors, nvmlDeviceGetNvLinkErrorCounter));
static_assert(same(mig_mode, nvmlDeviceGetMigMode) && same(persistence_mode, nvmlDeviceGetPersistenceMode));
static_assert(same(virtualization_mode, nvmlDeviceGetVirtualizationMode));
static_assert(same(confidential_state, nvmlSystemGetConfComputeState));
static_assert(sizeof(ConfidentialState) == sizeof(nvmlConfComputeSystemState_t));
static_assert(mode_vgpu == NVML_GPU_VIRTUALIZATION_MODE_VGPU);
static_assert(same(compute_mode, nvmlDeviceGetComputeMode) && same(memory, nvmlDeviceGetMemoryInfo));
static_assert(same(utilization, nvmlDeviceGetUtilizationRates) && sizeof(Utilization) == sizeof(nvmlUtilization_t));
static_assert(field_nvlink_tx_kib == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX);
static_assert(field_nvlink_rx_kib == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
static_assert(same(processes, nvmlDeviceGetComputeRunningProcesses_v3));
static_assert(same(field_values, nvmlDeviceGetFieldValues));
static_assert(same(event_set_create, nvmlEventSetCreate) && same(event_set_free, nvmlEventSetFree));
static_assert(same(register_events, nvmlDeviceRegisterEvents) && same(event_set_wait, nvmlEventSetWait_v2));

static_assert(sizeof(PciInfo) == sizeof(nvmlPciInfo_t) && offsetof(PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(Memory) == sizeof(nvmlMemory_t) && offsetof(Memory, used) == offsetof(nvmlMemory_t, used));
static_assert(sizeof(ProcessInfo) == sizeof(nvmlProcessInfo_t) &&
              offsetof(ProcessInfo, used_memory) == offsetof(nvmlProcessInfo_t, usedGpuMemory));
static_assert(sizeof(FieldValue) == sizeof(nvmlFieldValue_t) &&
              offsetof(FieldValue, type) == offsetof(nvmlFieldValue_t, valueType) &&
              offsetof(FieldValue, status) == offsetof(nvmlFieldValue_t, nvmlReturn) &&
              offsetof(FieldValue, value) == offsetof(nvmlFieldValue_t, value));
static_assert(sizeof(EventData) == sizeof(nvmlEventData_t) &&
              offsetof(EventData, data) == offsetof(nvmlEventData_t, eventData));

static_assert(success == NVML_SUCCESS && uninitialized == NVML_ERROR_UNINITIALIZED);
static_assert(invalid_argument == NVML_ERROR_INVALID_ARGUMENT && not_supported == NVML_ERROR_NOT_SUPPORTED);
static_assert(no_permission == NVML_ERROR_NO_PERMISSION && not_found == NVML_ERROR_NOT_FOUND);
static_assert(insufficient_size == NVML_ERROR_INSUFFICIENT_SIZE && timeout == NVML_ERROR_TIMEOUT);
static_assert(driver_not_loaded == NVML_ERROR_DRIVER_NOT_LOADED && gpu_is_lost == NVML_ERROR_GPU_IS_LOST);
static_assert(function_not_found == NVML_ERROR_FUNCTION_NOT_FOUND && no_data == NVML_ERROR_NO_DATA);
static_assert(library_version_mismatch == NVML_ERROR_LIB_RM_VERSION_MISMATCH);
static_assert(clock_sm == NVML_CLOCK_SM && clock_memory == NVML_CLOCK_MEM && temperature_gpu == NVML_TEMPERATURE_GPU);
static_assert(ecc_corrected == NVML_MEMORY_ERROR_TYPE_CORRECTED);
static_assert(ecc_uncorrected == NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
static_assert(ecc_volatile == NVML_VOLATILE_ECC && ecc_aggregate == NVML_AGGREGATE_ECC);
static_assert(retired_single_bit == NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS);
static_assert(retired_double_bit == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR);
static_assert(nvlink_replay == NVML_NVLINK_ERROR_DL_REPLAY && nvlink_recovery == NVML_NVLINK_ERROR_DL_RECOVERY);
static_assert(nvlink_crc_flit == NVML_NVLINK_ERROR_DL_CRC_FLIT && max_links == NVML_NVLINK_MAX_LINKS);
static_assert(event_xid == nvmlEventTypeXidCriticalError);
static_assert(field_memory_temperature == NVML_FI_DEV_MEMORY_TEMP);
static_assert(field_nvlink_count == NVML_FI_DEV_NVLINK_LINK_COUNT &&
              field_nvlink_speed == NVML_FI_DEV_NVLINK_GET_SPEED);
static_assert(field_nvlink_replay == NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY);
static_assert(field_nvlink_recovery == NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY);
static_assert(field_nvlink_crc == NVML_FI_DEV_NVLINK_ERROR_DL_CRC);
constexpr bool same(ValueType ours, unsigned theirs) { return ours == theirs; }
static_assert(same(as_uint, NVML_VALUE_TYPE_UNSIGNED_INT) && same(as_ulong, NVML_VALUE_TYPE_UNSIGNED_LONG));
static_assert(same(as_ulonglong, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG));
static_assert(same(as_longlong, NVML_VALUE_TYPE_SIGNED_LONG_LONG) && same(as_int, NVML_VALUE_TYPE_SIGNED_INT));
// The layout of the fabric record is newer than some versions of nvml.h with which this must compile.
#ifdef nvmlGpuFabricInfo_v2
static_assert(fabric_info_version == nvmlGpuFabricInfo_v2 && same(fabric, nvmlDeviceGetGpuFabricInfoV));
#endif
#ifdef NVML_FI_DEV_POWER_INSTANT
static_assert(field_power_instant == NVML_FI_DEV_POWER_INSTANT);
#ifdef NVML_FI_DEV_PCIE_COUNT_TX_BYTES  // since CUDA 12.3
static_assert(field_pcie_tx_bytes == NVML_FI_DEV_PCIE_COUNT_TX_BYTES);
static_assert(field_pcie_rx_bytes == NVML_FI_DEV_PCIE_COUNT_RX_BYTES);
#endif
#ifdef NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES  // since CUDA 12.6
static_assert(field_nvlink_tx_bytes == NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES);
static_assert(field_nvlink_rx_bytes == NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES);
#endif
#ifdef NVML_FI_DEV_GET_GPU_RECOVERY_ACTION  // since CUDA 12.8
static_assert(field_recovery_action == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION);
#endif
#endif

}  // namespace
}  // namespace shakedown::nvml_abi::nvml_abi_test

TEST(NvmlAbi, IsNvidias) { SUCCEED() << "the assertions above have compiled"; }
#else
TEST(NvmlAbi, IsNvidias) { GTEST_SKIP() << "there is no nvml.h here to compare with"; }
#endif
