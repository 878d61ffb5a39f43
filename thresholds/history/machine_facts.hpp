// The facts of a machine and a run that must agree before figures are compared.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "thresholds/results/results.hpp"

namespace shakedown {

/// Facts that must be equal before figures are compared: device, backend, tier, ranks, hosts, driver, cuda, cublaslt,
/// nccl, nvls, build_type, power_limit_w, vbios, plan, version, and every tuning variable. A fact has all values that
/// occur in the files; it is empty if unknown.
using MachineFacts = std::map<std::string, std::set<std::string>>;

MachineFacts machine_facts_of(const std::vector<Results>&);

/// The fields that every MachineFacts has. All others are tuning variables, "unset" if absent, and younger fields.
inline constexpr std::array machine_fields{"device", "backend",  "tier", "ranks", "hosts",     "driver",
                                           "cuda",   "cublaslt", "nccl", "nvls",  "build_type"};

/// Variables that describe where a run took place, not how: GPUs, size of the allocation, log. Devices, ranks and hosts
/// are compared separately.
inline constexpr std::array variables_of_place{"CUDA_VISIBLE_DEVICES", "SLURM_JOB_NUM_NODES", "NCCL_DEBUG",
                                               "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};

/// True for a tuning variable.
bool is_tuning(const std::string& field);

/// True for a field that older baselines do not have: power_limit_w, vbios, plan, version.
bool is_younger_fact(const std::string& field);

/// True for fields of which GPUs of one machine may have several values: power_limit_w, vbios.
bool is_fact_of_gpus(const std::string& field);

/// Returns the fields that differ, such as "driver is 580.159, the baseline has 570.1", with `of` instead of "the
/// baseline". Empty if both can be compared. Newer fields are compared only if both sides have them.
std::vector<std::string> differences(const MachineFacts& current, const MachineFacts& other,
                                     const std::string& of = "the baseline");

}  // namespace shakedown
