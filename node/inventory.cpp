#include "node/inventory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

namespace {

/// The tuning variables of CUDA, NCCL (2.30 and its network plugins), Open MPI and UCX. They are listed one by one,
/// because a pattern could also match a variable with a secret.
constexpr const char* tuning_variables =
    "CUBLASLT_WORKSPACE_SIZE CUBLAS_WORKSPACE_CONFIG CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_ORDER "
    "CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_VISIBLE_DEVICES NCCL_ALGO NCCL_ALLOC_P2P_NET_LL_BUFFERS "
    "NCCL_BUFFSIZE NCCL_CGA_CLUSTER_SIZE NCCL_CHECK_POINTERS NCCL_CHUNK_SIZE NCCL_COLLNET_ENABLE "
    "NCCL_COLLNET_NODE_THRESHOLD NCCL_COMM_BLOCKING NCCL_COMM_SPLIT_SHARE_RESOURCES NCCL_CONF_FILE NCCL_CROSS_NIC "
    "NCCL_CTA_POLICY NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE NCCL_DEBUG NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS "
    "NCCL_DEBUG_TIMESTAMP_FORMAT NCCL_DEBUG_TIMESTAMP_LEVELS NCCL_DMABUF_ENABLE NCCL_ENV_PLUGIN "
    "NCCL_FASTRAK_CTRL_DEV NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING "
    "NCCL_FASTRAK_IFNAME NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY NCCL_FASTRAK_NUM_FLOWS NCCL_FASTRAK_USE_LLCM "
    "NCCL_FASTRAK_USE_SNAP NCCL_GDRCOPY_ENABLE NCCL_GDRCOPY_FIFO_ENABLE NCCL_GDRCOPY_FLUSH_ENABLE "
    "NCCL_GDRCOPY_SYNC_ENABLE NCCL_GDR_FLUSH_DISABLE NCCL_GIN_CONNECTION_RAIL NCCL_GIN_ENABLE "
    "NCCL_GIN_ERROR_QUERY_SEC NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC "
    "NCCL_GIN_GDAKI_NIC_HANDLER NCCL_GIN_GDAKI_QP_DEPTH NCCL_GIN_IB_TC NCCL_GIN_NCONNECTIONS NCCL_GIN_PLUGIN "
    "NCCL_GIN_PROXY_QUEUE_SIZE NCCL_GIN_TYPE NCCL_GPUDIRECTTCPX_CTRL_DEV NCCL_GPUDIRECTTCPX_FORCE_ACK "
    "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS NCCL_GPUDIRECTTCPX_RX_BINDINGS "
    "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME NCCL_GPUDIRECTTCPX_TX_BINDINGS NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX "
    "NCCL_GRAPH_DUMP_FILE NCCL_GRAPH_DUMP_FILE_RANK NCCL_GRAPH_FILE NCCL_GRAPH_HELPER_DISABLE "
    "NCCL_GRAPH_MIXING_SUPPORT NCCL_GRAPH_REGISTER NCCL_GRAPH_STREAM_ORDERING NCCL_HOSTID NCCL_IBEXT_DISABLE "
    "NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_AR_THRESHOLD NCCL_IB_CUDA_SUPPORT "
    "NCCL_IB_DATA_DIRECT NCCL_IB_DEVICE_PCI_ORDER NCCL_IB_DISABLE NCCL_IB_ECE_ENABLE NCCL_IB_FIFO_TC "
    "NCCL_IB_GID_INDEX NCCL_IB_HCA NCCL_IB_MERGE_NICS NCCL_IB_MERGE_VFS NCCL_IB_MQP_RETRY_ALL "
    "NCCL_IB_MQP_RETRY_CNT NCCL_IB_MQP_RETRY_SLEEP_MSEC NCCL_IB_OOO_RQ NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_PKEY "
    "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS NCCL_IB_QPS_PER_CONNECTION NCCL_IB_QUERY_PORT_SPEED "
    "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME NCCL_IB_RESILIENCY_PORT_FAILOVER "
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY "
    "NCCL_IB_RESILIENCY_PORT_RECOVERY NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT "
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL "
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE "
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT "
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY NCCL_IB_RETRY_CNT "
    "NCCL_IB_RETURN_ASYNC_EVENTS NCCL_IB_ROCE_VERSION_NUM NCCL_IB_ROUTABLE_FLID_GID_INDEX NCCL_IB_SL "
    "NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_SUBNET_AWARE_ROUTING NCCL_IB_SUBNET_PREFIX_LEN NCCL_IB_TC NCCL_IB_TIMEOUT "
    "NCCL_IB_USE_INLINE NCCL_IB_WARN_RAIL_LOCAL NCCL_IGNORE_CPU_AFFINITY NCCL_IGNORE_DISABLED_P2P NCCL_LAUNCH_MODE "
    "NCCL_LAUNCH_ORDER_IMPLICIT NCCL_LAUNCH_RACE_FATAL NCCL_LEGACY_CUDA_REGISTER NCCL_LL128_BUFFSIZE "
    "NCCL_LL128_C2C NCCL_LL128_NTHREADS NCCL_LL_BUFFSIZE NCCL_LL_THRESHOLD NCCL_LOCAL_REGISTER NCCL_MAX_CTAS "
    "NCCL_MAX_NCHANNELS NCCL_MAX_NRINGS NCCL_MAX_P2P_NCHANNELS NCCL_MEM_SYNC_DOMAIN NCCL_MIN_CTAS "
    "NCCL_MIN_NCHANNELS NCCL_MIN_NRINGS NCCL_MIN_P2P_NCHANNELS NCCL_MNNVL_CLIQUE_ID NCCL_MNNVL_CROSS_CLIQUE "
    "NCCL_MNNVL_ENABLE NCCL_MNNVL_RAIL_PER_HOST NCCL_MNNVL_SCATTER_NETS_ENABLE NCCL_MNNVL_UUID "
    "NCCL_NCHANNELS_PER_NET_PEER NCCL_NET NCCL_NETDEVS_POLICY NCCL_NET_DISABLE_INTRA NCCL_NET_FORCE_FLUSH "
    "NCCL_NET_FORCE_MERGE NCCL_NET_GDR_C2C NCCL_NET_GDR_LEVEL NCCL_NET_GDR_MLOPART NCCL_NET_GDR_READ "
    "NCCL_NET_MERGE_LEVEL NCCL_NET_MERGE_POLICY NCCL_NET_OPTIONAL_RECV_COMPLETION NCCL_NET_OVERHEAD "
    "NCCL_NET_PLUGIN NCCL_NET_SHARED_BUFFERS NCCL_NET_SHARED_COMMS NCCL_NSOCKS_PERTHREAD NCCL_NTHREADS "
    "NCCL_NVB_DISABLE NCCL_NVB_PRECONNECT NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE NCCL_NVLSTREE_ENABLE "
    "NCCL_NVLSTREE_MAX_CHUNKSIZE NCCL_NVLS_CHUNKSIZE NCCL_NVLS_ENABLE NCCL_NVLS_NCHANNELS NCCL_OOB_NET_ENABLE "
    "NCCL_OOB_NET_IFNAME NCCL_P2P_DIRECT_DISABLE NCCL_P2P_DISABLE NCCL_P2P_EPOCH_ENABLE NCCL_P2P_LEVEL "
    "NCCL_P2P_LL_THRESHOLD NCCL_P2P_MAX_PEERS NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_NVL_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE "
    "NCCL_P2P_PER_CHANNEL_NET_BW NCCL_P2P_PXN_LEVEL NCCL_P2P_READ_ENABLE NCCL_P2P_SCHEDULE_GROUP_SIZE "
    "NCCL_P2P_USE_CUDA_MEMCPY NCCL_PAT_ENABLE NCCL_PROFILER_PLUGIN NCCL_PROGRESS_APPENDOP_FREQ NCCL_PROTO "
    "NCCL_PROXY_APPEND_BATCH_SIZE NCCL_PROXY_CPUSET NCCL_PROXY_DUMP_SIGNAL NCCL_PXN_C2C NCCL_PXN_DISABLE "
    "NCCL_RAS_ENABLE NCCL_RUNTIME_CONNECT NCCL_SHARP_DISABLE NCCL_SHARP_GROUP_SIZE_THRESH NCCL_SHARP_MAX_COMMS "
    "NCCL_SHM_DISABLE NCCL_SHM_LOCALITY NCCL_SHM_MEMCPY_MODE NCCL_SHM_USE_CUDA_MEMCPY "
    "NCCL_SINGLE_PROC_MEM_REG_ENABLE NCCL_SOCKET_FAMILY NCCL_SOCKET_IFNAME NCCL_SOCKET_INLINE NCCL_SOCKET_MAGIC "
    "NCCL_SOCKET_MIN_TASKSIZE NCCL_SOCKET_NTHREADS NCCL_SOCKET_POLL_TIMEOUT_MSEC NCCL_SOCKET_RCVBUF "
    "NCCL_SOCKET_RETRY_CNT NCCL_SOCKET_RETRY_SLEEP_MSEC NCCL_SOCKET_SNDBUF NCCL_SYM_CE_THRESHOLD NCCL_SYM_CTAS "
    "NCCL_SYM_GIN_KERNELS_ENABLE NCCL_SYM_KERNEL NCCL_SYM_NOWIN_ENABLE NCCL_SYM_REUSE_SYSMEM_HANDLES "
    "NCCL_SYM_RS_GIN_CHUNK_SIZE NCCL_SYM_TMA_ENABLE NCCL_THREAD_THRESHOLDS NCCL_TOPO_DUMP_FILE "
    "NCCL_TOPO_DUMP_FILE_RANK NCCL_TOPO_FILE NCCL_TOPO_SPLIT_MLOPART NCCL_TREE_THRESHOLD NCCL_TUNER_CONFIG_FILE "
    "NCCL_TUNER_PLUGIN NCCL_UNPACK_DOUBLE_NCHANNELS NCCL_VERSION NCCL_WIN_ENABLE NCCL_WIN_STRIDE "
    "NCCL_WORK_ARGS_BYTES NCCL_WORK_FIFO_BYTES NCCL_WORK_FIFO_DEPTH NVIDIA_TF32_OVERRIDE OMPI_MCA_btl "
    "OMPI_MCA_btl_base_verbose OMPI_MCA_btl_openib_allow_ib OMPI_MCA_btl_openib_if_include OMPI_MCA_btl_sm_use_cma "
    "OMPI_MCA_btl_tcp_if_exclude OMPI_MCA_btl_tcp_if_include OMPI_MCA_btl_tcp_links "
    "OMPI_MCA_btl_vader_single_copy_mechanism OMPI_MCA_coll OMPI_MCA_coll_hcoll_enable "
    "OMPI_MCA_coll_tuned_allreduce_algorithm OMPI_MCA_coll_tuned_use_dynamic_rules OMPI_MCA_coll_ucc_enable "
    "OMPI_MCA_coll_ucc_priority OMPI_MCA_mtl OMPI_MCA_mtl_base_verbose OMPI_MCA_mtl_ofi_provider_include "
    "OMPI_MCA_pml OMPI_MCA_pml_base_verbose OMPI_MCA_pml_ob1_priority OMPI_MCA_pml_ucx_devices "
    "OMPI_MCA_pml_ucx_priority OMPI_MCA_pml_ucx_tls OMPI_MCA_pml_ucx_verbose OMP_NUM_THREADS OPENBLAS_CORETYPE "
    "OPENBLAS_NUM_THREADS SLURM_JOB_NUM_NODES UCX_BCOPY_BW UCX_BCOPY_THRESH UCX_CMA_REG "
    "UCX_CUDA_COPY_ASYNC_MEM_TYPE UCX_CUDA_COPY_DMABUF UCX_CUDA_COPY_MAX_REG_RATIO UCX_CUDA_COPY_REG_WHOLE_ALLOC "
    "UCX_CUDA_IPC_BW UCX_CUDA_IPC_CACHE UCX_CUDA_IPC_ENABLE_MNNVL UCX_CUDA_IPC_MAX_STREAMS UCX_DC_MLX5_NUM_DCI "
    "UCX_DC_MLX5_TIMEOUT UCX_DC_MLX5_TX_POLICY UCX_GDR_COPY_BW UCX_GDR_COPY_RCACHE UCX_IB_ADDR_TYPE "
    "UCX_IB_AR_ENABLE UCX_IB_GID_INDEX UCX_IB_GPU_DIRECT_RDMA UCX_IB_MLX5_DEVX UCX_IB_NUM_PATHS UCX_IB_ODP_ALLOC "
    "UCX_IB_PCI_BW UCX_IB_PCI_RELAXED_ORDERING UCX_IB_PKEY UCX_IB_PREFER_NEAREST_DEVICE UCX_IB_REG_METHODS "
    "UCX_IB_ROCE_LOCAL_SUBNET UCX_IB_ROCE_PATH_FACTOR UCX_IB_ROCE_REACHABILITY_MODE UCX_IB_SEG_SIZE UCX_IB_SL "
    "UCX_IB_SUBNET_PREFIX UCX_IB_TRAFFIC_CLASS UCX_LOG_FILE UCX_LOG_LEVEL UCX_MAX_EAGER_LANES UCX_MAX_EAGER_RAILS "
    "UCX_MAX_RNDV_LANES UCX_MAX_RNDV_RAILS UCX_MEMTYPE_CACHE UCX_MEMTYPE_REG_WHOLE_ALLOC_TYPES "
    "UCX_MIN_RNDV_CHUNK_SIZE UCX_MM_ERROR_HANDLING UCX_MM_SEG_SIZE UCX_NET_DEVICES UCX_POSIX_USE_PROC_LINK "
    "UCX_PROTO_ENABLE UCX_PROTO_INFO UCX_PROTO_REQUEST_RESET UCX_RC_FC_ENABLE UCX_RC_MAX_NUM_EPS "
    "UCX_RC_MAX_RD_ATOMIC UCX_RC_MLX5_TM_ENABLE UCX_RC_PATH_MTU UCX_RC_RETRY_COUNT UCX_RC_RNR_RETRY_COUNT "
    "UCX_RC_RNR_TIMEOUT UCX_RC_RX_QUEUE_LEN UCX_RC_TIMEOUT UCX_RC_TX_QUEUE_LEN UCX_REG_NONBLOCK_MEM_TYPES "
    "UCX_RNDV_FRAG_MEM_TYPE UCX_RNDV_FRAG_SIZE UCX_RNDV_PIPELINE_SHM_ENABLE UCX_RNDV_SCHEME UCX_RNDV_THRESH "
    "UCX_SYSV_HUGETLB_MODE UCX_TCP_KEEPIDLE UCX_TCP_MAX_NUM_EPS UCX_TCP_PUT_ENABLE UCX_TCP_RCVBUF UCX_TCP_SNDBUF "
    "UCX_TLS UCX_UD_TIMEOUT UCX_XPMEM_HUGETLB_MODE UCX_ZCOPY_THRESH";

bool changes_results(const std::string& name) {
  static const auto known = split(tuning_variables, ' ');
  return std::find(known.begin(), known.end(), name) != known.end();
}

/// Returns the value of a setting. Replaces it if it may contain a password.
std::string without_password(const std::string& value) {
  const bool may_have_password = value.find('@') != std::string::npos || value.find("://") != std::string::npos;
  return may_have_password ? "***" : value;
}

/// Returns NCCL's configuration files, highest precedence first.
std::vector<std::string> nccl_files(const Environment& environment, const std::filesystem::path& root) {
  std::vector<std::string> files;
  if (const auto named = environment("NCCL_CONF_FILE")) {
    files.push_back(*named);
  } else if (const auto home = environment("HOME")) {
    files.push_back(*home + "/.nccl.conf");
  }
  files.push_back(root / "etc/nccl.conf");
  return files;
}

std::vector<std::pair<std::string, std::string>> nccl_lines(const std::string& file) {
  std::vector<std::pair<std::string, std::string>> found;
  const TimedCall call("read", file);
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto equals = line.find('=');
    if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
    found.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return found;
}

}  // namespace

std::optional<PciBus> read_pci_bus(const std::filesystem::path& sysfs) {
  const TimedCall call("list", sysfs / "bus/pci/devices");
  std::error_code error;
  if (std::filesystem::directory_iterator(sysfs / "bus", error); error) return std::nullopt;
  PciBus bus;
  const auto devices = sysfs / "bus/pci/devices";
  if (!std::filesystem::exists(devices, error)) return error ? std::nullopt : std::optional(bus);
  const std::filesystem::directory_iterator entries(devices, error);
  if (error) return std::nullopt;
  for (const auto& entry : entries) {
    const auto kind = line_of(entry.path() / "class").value_or("").substr(0, 6);
    const bool is_nvidia = line_of(entry.path() / "vendor") == "0x10de";
    if (kind == "0x0604") bus.bridges.push_back(entry.path().filename());
    if (is_nvidia && (kind == "0x0300" || kind == "0x0302")) bus.gpus.push_back(entry.path().filename());
    if (is_nvidia && kind == "0x0680") bus.nvswitches.push_back(entry.path().filename());
  }
  for (auto* const functions : {&bus.gpus, &bus.nvswitches, &bus.bridges}) std::ranges::sort(*functions);
  return bus;
}

std::optional<std::string> nvidia_driver(const std::filesystem::path& root) {
  for (const std::string trace : {"sys/module/nvidia", "proc/driver/nvidia", "dev/nvidiactl"}) {
    if (is_visible(root / trace)) return "/" + trace;
  }
  for (const auto& name : names_in(root / "dev").value_or(std::vector<std::string>{})) {
    if (name.size() > 6 && name.rfind("nvidia", 0) == 0 && name[6] >= '0' && name[6] <= '9') return "/dev/" + name;
  }
  return std::nullopt;
}

std::optional<int> scheduled_gpus(const Environment& environment) {
  if (const auto count = environment("SLURM_GPUS_ON_NODE")) {
    if (const int gpus = std::atoi(count->c_str()); gpus > 0) return gpus;
  }
  for (const auto* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    if (const auto list = environment(name)) return static_cast<int>(split(*list, ',').size());
  }
  return std::nullopt;
}

std::optional<GpuMask> gpu_mask(const Environment& environment) {
  for (const auto* name : {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    const auto value = environment(name);
    if (!value) continue;
    GpuMask mask{std::string(name) + "=" + *value, {}};
    for (const auto& device : split(*value, ',')) {
      if (device == "NoDevFiles" || device == "-1") break;  // CUDA ignores all entries after an invalid one
      mask.devices.push_back(device);
    }
    return mask;
  }
  return std::nullopt;
}

std::map<std::string, std::string> tuning_in(const std::vector<std::string>& variables) {
  std::map<std::string, std::string> found;
  for (const auto& text : variables) {
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    if (equals != std::string::npos && changes_results(name)) found[name] = without_password(text.substr(equals + 1));
  }
  return found;
}

std::map<std::string, std::string> tuning(const Environment& environment, const std::filesystem::path& root) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  auto found = tuning_in(variables);
  for (const auto& file : nccl_files(environment, root)) {
    for (const auto& [name, value] : nccl_lines(file)) {
      if (name.compare(0, 5, "NCCL_") == 0 && changes_results(name))
        found.emplace(file + ": " + name, without_password(value));
    }
  }
  return found;
}

Environment nccl_environment(const Environment& environment, const std::filesystem::path& root) {
  std::map<std::string, std::string> of_files;
  for (const auto& file : nccl_files(environment, root)) {
    // NCCL uses the first value of a variable.
    for (const auto& [name, value] : nccl_lines(file)) of_files.emplace(name, value);
  }
  return [environment, of_files](const std::string& name) {
    const auto found = of_files.find(name);
    const auto value = environment(name);
    return value || found == of_files.end() ? value : std::optional(found->second);
  };
}

}  // namespace shakedown
