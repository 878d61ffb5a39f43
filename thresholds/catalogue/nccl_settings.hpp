// The variables that change the speed of NCCL or of a training step, and the values that `shakedown tune` compares with
// the defaults.
#pragma once

#include <array>
#include <string_view>

namespace shakedown {

/// A setting to compare. The documents of NVIDIA name it: NCCL user guide, environment variables.
struct NcclCandidate {
  std::string_view variable;          // with its value
  bool is_for_several_hosts = false;  // true: has no effect inside a host
};

/// NVLS and collnet are not forced, because they need multicast or a network that computes: a machine without them
/// would only refuse.
inline constexpr std::array nccl_candidates{
    NcclCandidate{"NCCL_ALGO=Ring"},         NcclCandidate{"NCCL_ALGO=Tree"},
    NcclCandidate{"NCCL_PROTO=Simple"},      NcclCandidate{"NCCL_PROTO=LL128"},
    NcclCandidate{"NCCL_MIN_CTAS=32"},       NcclCandidate{"NCCL_NTHREADS=512"},
    NcclCandidate{"NCCL_BUFFSIZE=8388608"},  NcclCandidate{"NCCL_IB_QPS_PER_CONNECTION=4", true},
    NcclCandidate{"NCCL_CROSS_NIC=1", true}, NcclCandidate{"NCCL_NET_GDR_LEVEL=SYS", true},
};

/// Variables that change a training step, and no collective alone. CUDA: number of hardware queues of a process, for
/// kernels of different streams. OpenMP: number of threads of the host's work.
inline constexpr std::array<std::string_view, 2> step_variables{"CUDA_DEVICE_MAX_CONNECTIONS", "OMP_NUM_THREADS"};

/// Their values to compare. CUDA C++ programming guide: 8 connections by default, 32 at most. torchrun sets one thread
/// for OpenMP.
inline constexpr std::array<std::string_view, 4> step_candidates{
    "CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS=32", "OMP_NUM_THREADS=1", "OMP_NUM_THREADS=8"};

/// A setting that a guide recommends to its readers. Some are for a network that this machine may not have.
struct GuideSetting {
  std::string_view variables;  // separated by blanks
  std::string_view source;
  bool is_for_several_hosts = false;  // true: has no effect inside a host
};

inline constexpr std::string_view google_tcpx = "Google Cloud, A3 High with GPUDirect-TCPX",
                                  google_tcpxo = "Google Cloud, A3 Mega with GPUDirect-TCPXO",
                                  amazon_efa = "AWS, P5 with EFA and aws-ofi-nccl",
                                  azure_nd = "Microsoft Azure, ND A100 v4 with Slurm",
                                  oracle_rdma = "Oracle Cloud, GPU cluster networks", megatron = "NVIDIA, Megatron-LM",
                                  torchrun = "PyTorch, torchrun";

inline constexpr std::array guide_settings{
    GuideSetting{"NCCL_ALGO=Ring NCCL_PROTO=Simple", google_tcpx},
    GuideSetting{"NCCL_MIN_NCHANNELS=12 NCCL_MAX_NCHANNELS=12", google_tcpx},
    GuideSetting{"NCCL_BUFFSIZE=4194304", google_tcpx},
    GuideSetting{"NCCL_NSOCKS_PERTHREAD=4 NCCL_SOCKET_NTHREADS=1", google_tcpx, true},
    GuideSetting{"NCCL_PROTO=Simple", google_tcpxo},
    GuideSetting{"NCCL_P2P_NVL_CHUNKSIZE=1048576 NCCL_P2P_PCI_CHUNKSIZE=524288", google_tcpxo},
    GuideSetting{"NCCL_BUFFSIZE=8388608", amazon_efa},
    GuideSetting{"NCCL_P2P_NET_CHUNKSIZE=524288", amazon_efa, true},
    GuideSetting{"NCCL_MIN_NCHANNELS=32", azure_nd},
    GuideSetting{"NCCL_IB_QPS_PER_CONNECTION=16 NCCL_IB_SPLIT_DATA_ON_QPS=0", oracle_rdma, true},
    GuideSetting{"NCCL_CROSS_NIC=0", oracle_rdma, true},
    GuideSetting{"CUDA_DEVICE_MAX_CONNECTIONS=1", megatron},
    GuideSetting{"OMP_NUM_THREADS=1", torchrun},
};

/// Variables whose value in the environment is compared with the default. Others are needed for a connection
/// (interface, GID, HCA, plugin) or change no speed, so they remain in all launches. NCCL_NVLS_ENABLE also remains:
/// where it is 0, multicast may hang the driver.
inline constexpr std::array<std::string_view, 31> priced_nccl_variables{"NCCL_ALGO",
                                                                        "NCCL_PROTO",
                                                                        "NCCL_MIN_NCHANNELS",
                                                                        "NCCL_MAX_NCHANNELS",
                                                                        "NCCL_MIN_CTAS",
                                                                        "NCCL_MAX_CTAS",
                                                                        "NCCL_NTHREADS",
                                                                        "NCCL_LL128_NTHREADS",
                                                                        "NCCL_BUFFSIZE",
                                                                        "NCCL_LL_BUFFSIZE",
                                                                        "NCCL_LL128_BUFFSIZE",
                                                                        "NCCL_P2P_DISABLE",
                                                                        "NCCL_P2P_LEVEL",
                                                                        "NCCL_P2P_DIRECT_DISABLE",
                                                                        "NCCL_SHM_DISABLE",
                                                                        "NCCL_CGA_CLUSTER_SIZE",
                                                                        "NCCL_NVLSTREE_MAX_CHUNKSIZE",
                                                                        "NCCL_NVB_DISABLE",
                                                                        "NCCL_CROSS_NIC",
                                                                        "NCCL_NET_GDR_LEVEL",
                                                                        "NCCL_NET_GDR_READ",
                                                                        "NCCL_IB_QPS_PER_CONNECTION",
                                                                        "NCCL_IB_SPLIT_DATA_ON_QPS",
                                                                        "NCCL_IB_PCI_RELAXED_ORDERING",
                                                                        "NCCL_IB_ADAPTIVE_ROUTING",
                                                                        "NCCL_IB_AR_THRESHOLD",
                                                                        "NCCL_SOCKET_NTHREADS",
                                                                        "NCCL_NSOCKS_PERTHREAD",
                                                                        "NCCL_PXN_DISABLE",
                                                                        "NCCL_NCHANNELS_PER_NET_PEER",
                                                                        "NCCL_WORK_FIFO_BYTES"};

}  // namespace shakedown
