// The variables of NCCL that change its speed, and the values that `shakedown tune` compares with the defaults.
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
