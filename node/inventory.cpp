#include "node/inventory.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/timed_call.hpp"

namespace shakedown {

namespace {

std::string first_line(const std::filesystem::path& file) {
  const TimedCall call("read", file);
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text) {
    if (c != separator) {
      part += c;
    } else {
      parts.push_back(std::exchange(part, ""));
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

/// The tuning of CUDA, NCCL and its network plugins, Open MPI and UCX, by name; * ends a name in any way.
/// Whatever else stands in an environment or a file is nobody's business, the less if it looks like a secret.
bool changes_results(const std::string& name) {
  static const auto known = split(
      "CUBLASLT_WORKSPACE_SIZE CUBLAS_WORKSPACE_CONFIG CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_ORDER "
      "CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_VISIBLE_DEVICES NVIDIA_TF32_OVERRIDE OMP_NUM_THREADS "
      "OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS SLURM_JOB_NUM_NODES "
      "NCCL_ALGO NCCL_ALLOC_* NCCL_BUFFSIZE NCCL_CGA_CLUSTER_SIZE NCCL_CHECK_POINTERS NCCL_CHUNK_* NCCL_COLLNET_* "
      "NCCL_COMM_BLOCKING NCCL_COMM_SPLIT_SHARE_RESOURCES NCCL_CONF_FILE NCCL_CROSS_* NCCL_CTA_POLICY "
      "NCCL_CUMEM_* NCCL_DEBUG NCCL_DEBUG_* NCCL_DMABUF_ENABLE NCCL_ENV_PLUGIN NCCL_FASTRAK_* NCCL_GDRCOPY_* "
      "NCCL_GDR_* NCCL_GIN_* NCCL_GPUDIRECTTCPX_* NCCL_GRAPH_* NCCL_HOSTID NCCL_IBEXT_* NCCL_IB_* "
      "NCCL_IGNORE_CPU_AFFINITY NCCL_IGNORE_DISABLED_P2P NCCL_LAUNCH_* NCCL_LEGACY_CUDA_REGISTER NCCL_LL128_* "
      "NCCL_LL_* NCCL_LOCAL_REGISTER NCCL_MAX_* NCCL_MEM_SYNC_DOMAIN NCCL_MIN_* NCCL_MNNVL_* "
      "NCCL_NCHANNELS_PER_NET_PEER NCCL_NET NCCL_NETDEVS_* NCCL_NET_* NCCL_NSOCKS_PERTHREAD NCCL_NTHREADS "
      "NCCL_NVB_* NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE NCCL_NVLSTREE_* NCCL_NVLS_* NCCL_OOB_NET_* NCCL_P2P_* "
      "NCCL_PAT_ENABLE NCCL_PROFILER_PLUGIN NCCL_PROGRESS_APPENDOP_FREQ NCCL_PROTO NCCL_PROXY_* NCCL_PXN_* "
      "NCCL_RAS_ENABLE NCCL_RUNTIME_* NCCL_SHARP_* NCCL_SHM_* NCCL_SINGLE_PROC_MEM_REG_ENABLE NCCL_SOCKET_* "
      "NCCL_SYM_* NCCL_THREAD_THRESHOLDS NCCL_TOPO_* NCCL_TUNER_* NCCL_UNPACK_DOUBLE_NCHANNELS NCCL_VERSION "
      "NCCL_WIN_* NCCL_WORK_* "
      "OMPI_MCA_btl* OMPI_MCA_coll* OMPI_MCA_mtl* OMPI_MCA_pml* "
      "UCX_BCOPY_* UCX_CMA_* UCX_CUDA_* UCX_DC_* UCX_GDR_COPY_* UCX_IB_* UCX_LOG_* UCX_MAX_* UCX_MEMTYPE_* "
      "UCX_MIN_* UCX_MM_* UCX_NET_DEVICES UCX_POSIX_* UCX_PROTO_* UCX_RC_* UCX_REG_* UCX_RNDV_* UCX_SYSV_* "
      "UCX_TCP_* UCX_TLS UCX_UD_* UCX_XPMEM_* UCX_ZCOPY_* ",
      ' ');
  constexpr std::array secrets{"TOKEN", "PASS", "SECRET", "AUTH", "CREDENTIAL"};
  const auto matches = [&](const std::string& word) {
    return word.back() == '*' ? name.compare(0, word.size() - 1, word, 0, word.size() - 1) == 0 : name == word;
  };
  return std::any_of(known.begin(), known.end(), matches) &&
         std::none_of(secrets.begin(), secrets.end(),
                      [&](const char* word) { return name.find(word) != std::string::npos; });
}

/// NCCL's configuration files, the one that counts first.
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

/// PCI addresses of NVIDIA's functions whose class begins so. Nothing where it cannot be known.
std::optional<std::vector<std::string>> nvidia_functions(const std::filesystem::path& sysfs,
                                                         std::initializer_list<std::string_view> classes) {
  const TimedCall call("list", sysfs / "bus/pci/devices");
  std::error_code error;
  if (std::filesystem::directory_iterator(sysfs / "bus", error); error) return std::nullopt;
  std::vector<std::string> found;
  const auto devices = sysfs / "bus/pci/devices";
  if (!std::filesystem::exists(devices, error)) return error ? std::nullopt : std::optional(found);
  const std::filesystem::directory_iterator entries(devices, error);
  if (error) return std::nullopt;
  for (const auto& entry : entries) {
    if (first_line(entry.path() / "vendor") != "0x10de") continue;
    const auto kind = first_line(entry.path() / "class").substr(0, 6);
    if (std::find(classes.begin(), classes.end(), kind) != classes.end()) found.push_back(entry.path().filename());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<std::vector<std::string>> nvidia_gpus(const std::filesystem::path& sysfs) {
  return nvidia_functions(sysfs, {"0x0300", "0x0302"});
}

std::optional<int> nvswitches(const std::filesystem::path& sysfs) {
  const auto found = nvidia_functions(sysfs, {"0x0680"});
  return found ? std::optional(static_cast<int>(found->size())) : std::nullopt;
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
      if (device == "NoDevFiles" || device == "-1") break;  // CUDA ignores what follows an invalid entry
      mask.devices.push_back(device);
    }
    return mask;
  }
  return std::nullopt;
}

std::map<std::string, std::string> tuning(const Environment& environment, const std::filesystem::path& root) {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    if (equals != std::string::npos && changes_results(name)) found[name] = text.substr(equals + 1);
  }
  for (const auto& file : nccl_files(environment, root)) {
    for (const auto& [name, value] : nccl_lines(file)) {
      if (name.compare(0, 5, "NCCL_") == 0 && changes_results(name)) found.emplace(file + ": " + name, value);
    }
  }
  return found;
}

std::optional<std::string> nccl_setting(const Environment& environment, const std::string& name,
                                        const std::filesystem::path& root) {
  if (const auto value = environment(name)) return value;
  for (const auto& file : nccl_files(environment, root)) {
    for (const auto& [variable, value] : nccl_lines(file)) {
      if (variable == name) return value;
    }
  }
  return std::nullopt;
}

}  // namespace shakedown
