// The part of NVML's binary interface that node/nvml.cpp calls. The interface is declared here so that a program can be
// built without nvml.h and a driver, and still load the library at run time. Names, numbers and layouts are those of
// NVIDIA's nvml.h (NVML 12 and 13). If that file exists, tests/node/nvml_abi_test.cpp compares them with it.
#pragma once

namespace shakedown::nvml_abi {

using Return = int;  // nvmlReturn_t
inline constexpr Return success = 0, uninitialized = 1, invalid_argument = 2, not_supported = 3, no_permission = 4,
                        not_found = 6, insufficient_size = 7, driver_not_loaded = 9, timeout = 10,
                        function_not_found = 13, gpu_is_lost = 15, library_version_mismatch = 18, no_data = 21;

struct DeviceTag;
struct EventSetTag;
using Device = DeviceTag*;      // nvmlDevice_t
using EventSet = EventSetTag*;  // nvmlEventSet_t
using Size = unsigned long long;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct ConfidentialState {  // nvmlConfComputeSystemState_t
  unsigned environment, feature, developer_tools;
};
inline constexpr unsigned mode_vgpu = 2;  // NVML_GPU_VIRTUALIZATION_MODE_VGPU
struct Memory {
  Size total, free, used;  // `used` includes the driver's own reservation
};
struct Utilization {  // nvmlUtilization_t: percent of the driver's last period of 0.17 to 1 s
  unsigned gpu, memory;
};
struct ProcessInfo {  // nvmlProcessInfo_v2_t, used by the functions _v2 and _v3
  unsigned pid;
  Size used_memory;  // value if it is unknown: not_available
  unsigned gpu_instance, compute_instance;
};
inline constexpr Size not_available = ~Size{0};

enum ValueType : unsigned { as_double, as_uint, as_ulong, as_ulonglong, as_longlong, as_int, as_ushort };
union Value {
  double as_double;
  int as_int;
  unsigned as_uint;
  unsigned long as_ulong;
  Size as_ulonglong;
  long long as_longlong;
  unsigned short as_ushort;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  unsigned type;
  Return status;
  Value value;
};
struct EventData {
  Device device;
  Size type, data;  // `data` of an XID event is the number of the XID
  unsigned gpu_instance, compute_instance;
};
struct FabricInfo {  // nvmlGpuFabricInfo_v2_t
  unsigned version;
  unsigned char cluster[16];
  Return status;  // status of the registration; valid when the state is completed
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
};
inline constexpr unsigned fabric_info_version = sizeof(FabricInfo) | (2U << 24U);

// Arguments that are enumerations in nvml.h.
inline constexpr unsigned clock_sm = 1, clock_memory = 2;
inline constexpr unsigned temperature_gpu = 0;
inline constexpr unsigned ecc_corrected = 0, ecc_uncorrected = 1, ecc_volatile = 0, ecc_aggregate = 1;
inline constexpr unsigned retired_single_bit = 0, retired_double_bit = 1;
inline constexpr unsigned nvlink_replay = 0, nvlink_recovery = 1, nvlink_crc_flit = 2;
inline constexpr Size event_xid = 8;
inline constexpr unsigned max_links = 18;

// Fields for nvmlDeviceGetFieldValues. The scope of an NVLink field is the number of the link.
inline constexpr unsigned field_memory_temperature = 82, field_nvlink_count = 91, field_nvlink_replay = 161,
                          field_nvlink_recovery = 162, field_nvlink_crc = 163, field_nvlink_speed = 164,
                          field_power_instant = 186, field_recovery_action = 230;
// Counters of bytes; those of NVLink up to Hopper are in KiB. The scope is the number of a link, or all_links.
inline constexpr unsigned field_nvlink_tx_kib = 138, field_nvlink_rx_kib = 139, field_nvlink_tx_bytes = 202,
                          field_nvlink_rx_bytes = 204, field_pcie_tx_bytes = 197, field_pcie_rx_bytes = 198;
inline constexpr unsigned all_links = ~0U;

/// A function of the library: its name and its type.
template <class Signature>
struct Function {
  using type = Signature;
  const char* name;
};
using GetUnsigned = Function<Return(Device, unsigned*)>;
using GetSize = Function<Return(Device, Size*)>;
using GetText = Function<Return(Device, char*, unsigned)>;
using GetPair = Function<Return(Device, unsigned*, unsigned*)>;
using GetOf = Function<Return(Device, unsigned, unsigned*)>;
using GetProcesses = Function<Return(Device, unsigned*, ProcessInfo*)>;
using GetHandle = Function<Return(const char*, Device*)>;

inline constexpr Function<Return()> init{"nvmlInit_v2"};
inline constexpr Function<Return()> shutdown{"nvmlShutdown"};
inline constexpr Function<Return(char*, unsigned)> driver_version{"nvmlSystemGetDriverVersion"};
inline constexpr Function<Return(unsigned*)> device_count{"nvmlDeviceGetCount_v2"};
inline constexpr Function<Return(unsigned, Device*)> handle_by_index{"nvmlDeviceGetHandleByIndex_v2"};
inline constexpr GetHandle handle_by_uuid{"nvmlDeviceGetHandleByUUID"};
inline constexpr GetHandle handle_by_pci{"nvmlDeviceGetHandleByPciBusId_v2"};
inline constexpr Function<Return(Device, PciInfo*)> pci_info{"nvmlDeviceGetPciInfo_v3"};
inline constexpr GetText name{"nvmlDeviceGetName"};
inline constexpr GetText uuid{"nvmlDeviceGetUUID"};
inline constexpr GetText serial{"nvmlDeviceGetSerial"};
inline constexpr GetText vbios{"nvmlDeviceGetVbiosVersion"};
inline constexpr GetOf clock{"nvmlDeviceGetClockInfo"};
inline constexpr GetOf max_clock{"nvmlDeviceGetMaxClockInfo"};
inline constexpr GetOf temperature{"nvmlDeviceGetTemperature"};
inline constexpr GetUnsigned power{"nvmlDeviceGetPowerUsage"};
inline constexpr GetSize energy{"nvmlDeviceGetTotalEnergyConsumption"};
inline constexpr GetUnsigned power_limit{"nvmlDeviceGetEnforcedPowerLimit"};
inline constexpr GetSize event_reasons{"nvmlDeviceGetCurrentClocksEventReasons"};
inline constexpr GetSize throttle_reasons{"nvmlDeviceGetCurrentClocksThrottleReasons"};  // name in drivers before 535
inline constexpr GetPair ecc_mode{"nvmlDeviceGetEccMode"};
inline constexpr Function<Return(Device, unsigned, unsigned, Size*)> ecc_errors{"nvmlDeviceGetTotalEccErrors"};
inline constexpr Function<Return(Device, unsigned*, unsigned*, unsigned*, unsigned*)> remapped_rows{
    "nvmlDeviceGetRemappedRows"};
inline constexpr Function<Return(Device, unsigned, unsigned*, Size*)> retired_pages{"nvmlDeviceGetRetiredPages"};
inline constexpr GetUnsigned retirement_pending{"nvmlDeviceGetRetiredPagesPendingStatus"};
inline constexpr GetUnsigned pcie_generation{"nvmlDeviceGetCurrPcieLinkGeneration"};
inline constexpr GetUnsigned pcie_generation_max{"nvmlDeviceGetMaxPcieLinkGeneration"};
inline constexpr GetUnsigned pcie_width{"nvmlDeviceGetCurrPcieLinkWidth"};
inline constexpr GetUnsigned pcie_width_max{"nvmlDeviceGetMaxPcieLinkWidth"};
inline constexpr GetUnsigned pcie_replays{"nvmlDeviceGetPcieReplayCounter"};
inline constexpr GetOf nvlink_state{"nvmlDeviceGetNvLinkState"};
inline constexpr Function<Return(Device, unsigned, unsigned, Size*)> nvlink_errors{"nvmlDeviceGetNvLinkErrorCounter"};
inline constexpr Function<Return(Device, FabricInfo*)> fabric{"nvmlDeviceGetGpuFabricInfoV"};
inline constexpr GetPair mig_mode{"nvmlDeviceGetMigMode"};
inline constexpr GetUnsigned persistence_mode{"nvmlDeviceGetPersistenceMode"};
inline constexpr GetUnsigned compute_mode{"nvmlDeviceGetComputeMode"};
inline constexpr GetUnsigned virtualization_mode{"nvmlDeviceGetVirtualizationMode"};
inline constexpr Function<Return(ConfidentialState*)> confidential_state{"nvmlSystemGetConfComputeState"};
inline constexpr Function<Return(Device, Utilization*)> utilization{"nvmlDeviceGetUtilizationRates"};
inline constexpr Function<Return(Device, Memory*)> memory{"nvmlDeviceGetMemoryInfo"};
inline constexpr GetProcesses processes{"nvmlDeviceGetComputeRunningProcesses_v3"};
inline constexpr GetProcesses processes_v2{"nvmlDeviceGetComputeRunningProcesses_v2"};  // name in drivers before 510
inline constexpr Function<Return(Device, int, FieldValue*)> field_values{"nvmlDeviceGetFieldValues"};
inline constexpr Function<Return(EventSet*)> event_set_create{"nvmlEventSetCreate"};
inline constexpr Function<Return(EventSet)> event_set_free{"nvmlEventSetFree"};
inline constexpr Function<Return(Device, Size, EventSet)> register_events{"nvmlDeviceRegisterEvents"};
inline constexpr Function<Return(EventSet, EventData*, unsigned)> event_set_wait{"nvmlEventSetWait_v2"};

}  // namespace shakedown::nvml_abi
