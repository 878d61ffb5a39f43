// The table of metrics: unit, direction, shared or by rank, healthy variation, ceiling and work.
#include "thresholds/catalogue/metrics.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "thresholds/catalogue/bounds.hpp"
#include "thresholds/catalogue/wrong_sm.hpp"

namespace shakedown {
namespace {

using namespace ceilings;
using namespace work;
using Text = std::string_view;

constexpr Text training = "*_step";
constexpr bool yes = true;
constexpr ValueRange not_negative = ValueRange::not_negative, any = ValueRange::any;

// The spread of healthy peers was measured on four H200 of one node in three launches (ci/baselines, tests/data;
// 2026-11). For the chips of a whole fleet it is from publications: 5 % and more inside a node is usual for raw GEMM
// (ml-engineering). Raw GEMM: healthy GPUs of one node differ by up to 13 % in bursts, because each has another clock
// between the maximum and its power limit; the chips of one cluster differ by at most 22 % (Sinha et al., SC22, arXiv
// 2208.11035v3), which is 28 % of a time. Per GHz the same GPUs agree within 0.9 %, HBM within 0.2 %, and copies over
// NVLink within 0.1 %. An effect of 3 % is the smallest that is worth the time of a person. The limit of copies over
// NVLink is a sixth below it, because the slow copies vary as well. least_scaling is the
// fraction of a rank's rate that remains when all ranks work: in GEMM, the GPUs of a node share power supply and
// cooling; in a training step, they also share the links.
// clang-format off
constexpr Text shown = "it is shown with the rates, but not judged", google = "it is Google Benchmark's own figure and is not judged",
               sample = "it is a sensor value of the GPU, which explains findings and is not judged",
               choice = "it is a choice of the tuning, not a figure",
               checked = "it was checked when it was computed, and an error becomes an error row",
               same_time = "the row has the same time in another unit";

constexpr std::array catalogue{
    // Under a load of 3 s, the GPUs of 4 x H200 differed by 0.7 and 1.2 % in two launches.
    Metric{.family = "gemm", .part = {"load", "sustained"}, .name = "tflops_per_ghz",
           .what = "TFLOPS per GHz at the power limit", .aspect = Aspect::gemm, .range = not_negative, .is_telemetry = yes,
           .peers = PeerClass{0.004, 0.002, 0.03, 0.03}, .ceiling = tflops_per_clock,
           .may_lack = "not every GPU reports its clock; without it, the rate itself is compared"},
    Metric{.family = "gemm", .name = "tflops_per_ghz", .what = "TFLOPS per GHz", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .peers = PeerClass{0.002, 0.0022, 0.035, 0.016},
           .ceiling = tflops_per_clock, .may_lack = "not every GPU reports its clock; without it, the rate itself is compared"},
    Metric{.family = "gemm", .name = "tflops", .what = "rate of a matrix product", .aspect = Aspect::gemm_raw, .headline = 1, .of_slowest = yes,
           .peers = PeerClass{0.025, 0, 0.22, 0.22, true}, .ceiling = tflops_of_type, .least_scaling = 0.8,
           .work = tera_flops},
    Metric{.family = "gemm", .name = "tflops_per_w", .what = "TFLOPS per watt", .aspect = Aspect::gemm, .range = not_negative,
           .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "gemm", .name = "tolerance_used", .what = "error of a product, relative to its tolerance", .range = not_negative,
           .ceiling = one, .harmless = checked, .may_lack = checked},
    Metric{.family = "gemm", .name = "least_error_found", .what = "smallest detected error of an element, in standard deviations",
           .range = not_negative, .harmless = checked, .may_lack = checked},
    Metric{.family = "gemm", .name = "a_by_rows", .what = "layout of the operands", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = "gemm", .name = "algorithm", .what = "cuBLASLt's number", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = "gemm", .name = "candidate", .what = "rank of the algorithm among those that cuBLASLt proposes; 99: cublasDgemm", .range = any,
           .harmless = choice, .may_lack = choice},
    Metric{.family = "gemm", .name = "tile", .what = "cuBLASLt's number", .range = any, .harmless = choice,
           .may_lack = choice},
    // The work of jitter is the same on each rank. Clocks of equal cores differ by at most a fifth (turbo). Two threads
    // on one core take twice as long. No fleet has been measured.
    Metric{.family = "jitter", .name = "quantum_us", .what = "time of a fixed amount of work on the core of the rank",
           .aspect = Aspect::processor, .headline = 7, .of_slowest = yes, .peers = PeerClass{0.02, 0, 0.5, 0.5}, .work = quanta},
    Metric{.family = "jitter", .name = "stolen", .what = "share of the time that the core lost to other work",
           .range = not_negative, .ceiling = one, .harmless = shown, .may_lack = shown},
    Metric{.family = "jitter", .name = "waited", .what = "share of the time in which another thread had the core",
           .range = not_negative, .ceiling = one, .harmless = shown, .may_lack = shown},
    Metric{.family = "jitter", .name = "longest_gap_us", .what = "longest interruption of the core",
           .range = not_negative, .harmless = shown, .may_lack = shown},
    Metric{.family = "jitter", .name = "quantum_p99_us", .what = "99 % quantile of the time of a quantum", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "jitter", .name = "p50_us", .what = "median time of a row of quanta", .work = microsecond, .may_lack = same_time},
    Metric{.family = "jitter", .name = "max_us", .what = "slowest row of quanta", .harmless = shown, .may_lack = shown},
    Metric{.family = "launch", .name = "launch_us", .what = "time of the call that starts a kernel or a graph", .aspect = Aspect::processor,
           .headline = 7, .of_slowest = yes, .peers = PeerClass{0.25, 0, 2, 2}, .work = microsecond},
    Metric{.family = "launch", .name = "p50_us", .what = "median time of a call", .work = microsecond, .may_lack = same_time},
    Metric{.family = "launch", .name = "max_us", .what = "the slowest call", .harmless = shown, .may_lack = shown},
    Metric{.family = "hbm", .name = "hbm_gb_per_s", .what = "bytes read and written per second", .aspect = Aspect::memory, .headline = 2,
           .of_slowest = yes, .peers = PeerClass{0.0006, 0.0007, 0.03, 0.016}, .ceiling = hbm, .least_scaling = 0.95,
           .work = giga_bytes},
    Metric{.family = "hbm", .name = "copy_gb_per_s", .what = "bytes copied per second", .aspect = Aspect::memory, .headline = 3,
           .of_slowest = yes, .ceiling = hbm_copy, .work = giga_bytes_copied, .may_lack = same_time},
    Metric{.family = "hbm", .name = "latency_ns", .what = "time of one dependent load", .headline = 7, .of_slowest = yes,
           .work = walk_in_ns},
    Metric{.family = "memtest", .name = "hbm_gb_per_s", .what = "rate of the memory test", .aspect = Aspect::memory, .headline = 2,
           .of_slowest = yes, .peers = PeerClass{0.01, 0, 0.06, 0.06}, .ceiling = hbm, .work = giga_bytes},
    Metric{.family = "memtest", .name = "loaded_gb_per_s", .what = "rate of the memory test during products", .headline = 2, .of_slowest = yes,
           .ceiling = hbm, .work = giga_bytes, .harmless = shown},
    Metric{.family = "memtest", .name = "capacity_gb", .what = "tested memory", .aspect = Aspect::memory, .range = not_negative,
           .peers = PeerClass{0.001, 0, 0.02, 0.02}, .ceiling = memory},
    Metric{.family = "p2p", .name = "copy_gb_per_s", .what = "copy between two GPUs", .headline = 3,
           .of_slowest = yes, .peers = PeerClass{0.0005, 0.0005, 0.025, 0.025}, .ceiling = link_copy,
           .work = giga_bytes},
    Metric{.family = "p2p", .name = "latency_us", .what = "one access to the memory of another GPU", .headline = 7,
           .of_slowest = yes, .peers = PeerClass{0.02, 0, 0.20, 0.20}, .work = walk},
    Metric{.family = "pcie", .part = {"active", "one"}, .name = "copy_gb_per_s", .what = "copy between host and one GPU", .aspect = Aspect::pcie,
           .headline = 3, .of_slowest = yes, .peers = PeerClass{0.005, 0, 0.05, 0.05}, .ceiling = host_copy,
           .work = giga_bytes},
    // If all GPUs copy at once, the bridges and the memory of the host limit each copy.
    Metric{.family = "pcie", .name = "copy_gb_per_s", .what = "copy between host and GPU", .aspect = Aspect::pcie, .headline = 3,
           .of_slowest = yes, .peers = PeerClass{0.03, 0, 0.20, 0.20}, .ceiling = host_copy, .work = giga_bytes},
    Metric{.family = "allreduce", .part = {"scope", "node"}, .name = "busbw_gb_per_s",
           .what = "AllReduce inside each host", .aspect = Aspect::collective, .headline = 4, .shared = yes, .of_slowest = yes,
           .peers = PeerClass{0.01, 0, 0.05, 0.05}, .ceiling = allreduce_busbw},
    Metric{.family = "allreduce", .name = "busbw_gb_per_s", .what = "bus bandwidth of AllReduce",
           .headline = 4, .shared = yes, .of_slowest = yes, .ceiling = allreduce_busbw, .work = giga_bytes_on_bus, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "algbw_gb_per_s", .what = "algorithm bandwidth of AllReduce", .shared = yes,
           .ceiling = allreduce_algbw, .work = giga_bytes, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "latency_us", .what = "time of one AllReduce", .headline = 7,
           .shared = yes, .of_slowest = yes, .work = microsecond, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "p50_us", .what = "median time of one AllReduce", .shared = yes,
           .work = microsecond, .may_lack = same_time},
    Metric{.family = "allreduce", .name = "p999_us", .what = "99.9 % quantile of the time of an AllReduce", .shared = yes,
           .harmless = shown, .may_lack = shown},
    Metric{.family = "allreduce", .name = "max_us", .what = "the slowest AllReduce", .shared = yes, .harmless = shown,
           .may_lack = shown},
    Metric{.family = "collectives", .name = "busbw_gb_per_s", .what = "bus bandwidth of a collective",
           .headline = 4, .shared = yes, .of_slowest = yes, .ceiling = collective_busbw, .work = giga_bytes_on_bus, .may_lack = same_time},
    Metric{.family = "collectives", .name = "algbw_gb_per_s", .what = "algorithm bandwidth of a collective", .shared = yes,
           .ceiling = collective_algbw, .work = giga_bytes, .may_lack = same_time},
    Metric{.family = "collectives", .name = "busiest_gb_per_s", .what = "rate of the rank that sends or receives most in an alltoallv",
           .shared = yes, .of_slowest = yes, .harmless = shown, .may_lack = "other collectives have busbw"},
    Metric{.family = "collectives", .name = "latency_us", .what = "time of one collective", .headline = 7,
           .shared = yes, .of_slowest = yes, .work = microsecond, .may_lack = same_time},
    Metric{.family = "pairs", .name = "busbw_gb_per_s", .what = "bus bandwidth of a pair of hosts over one rail, or of AllReduce over all rails",
           .headline = 4, .ceiling = pair_busbw},
    Metric{.family = "pairs", .name = "partner", .what = "partner rank", .range = any,
           .harmless = "it is an identifier, not a figure"},
    Metric{.family = "pairs", .name = "waited", .what = "share of the time in which other threads had the core of a rank of the pair",
           .range = not_negative, .ceiling = one, .harmless = "it only acquits a host", .may_lack = shown},
    Metric{.family = "pairs", .name = "seed", .what = "seed of the shuffle of hosts", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = training, .name = "tokens_per_s", .what = "tokens per second of the slowest GPU", .aspect = Aspect::gemm_raw,
           .headline = 5, .shared = yes, .of_slowest = yes, .ceiling = model_tokens, .least_scaling = 0.85,
           .work = tokens},
    Metric{.family = training, .name = "tokens_per_s_total", .what = "tokens per second of all GPUs", .aspect = Aspect::gemm_raw, .shared = yes,
           .work = tokens_of_all, .may_lack = same_time},
    Metric{.family = training, .name = "step_ms", .what = "time of a training step", .aspect = Aspect::gemm_raw, .headline = 6,
           .shared = yes, .work = millisecond, .may_lack = same_time},
    Metric{.family = training, .name = "model_tflops", .what = "model FLOPS reached", .aspect = Aspect::gemm_raw, .shared = yes,
           .ceiling = model_tflops, .work = tera_flops, .may_lack = same_time},
    Metric{.family = training, .name = "mfu", .what = "model FLOPS over the dense peak", .aspect = Aspect::gemm_raw, .range = not_negative,
           .shared = yes, .ceiling = one},
    Metric{.family = training, .name = "compute_ms", .what = "time of a rank's own work in a step, mostly GEMM", .aspect = Aspect::gemm_raw,
           .peers = PeerClass{0.025, 0, 0.28, 0.28, true}},
    Metric{.family = training, .name = "tokens_per_s_per_ghz", .what = "tokens per second and GHz", .aspect = Aspect::gemm,
           .peers = PeerClass{0.004, 0.002, 0.03, 0.03}, .may_lack = "not every GPU reports its clock; without it, the time itself is compared"},
    Metric{.family = training, .name = "forward_ms", .what = "forward pass", .aspect = Aspect::gemm_raw, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "backward_ms", .what = "backward pass", .aspect = Aspect::gemm_raw, .harmless = shown,
           .may_lack = shown},
    Metric{.family = training, .name = "optimizer_ms", .what = "optimizer", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "exposed_comm_ms", .what = "communication time that is not hidden by work",
           .range = not_negative, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "exchange_wait_ms", .what = "time in which a step waits for sums and gathers",
           .range = not_negative, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "gemm_ms", .what = "products of a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "attention_ms", .what = "attention of a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "pointwise_ms", .what = "norms, activations, embedding and quantization of a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "loss_ms", .what = "cross entropy of a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "update_ms", .what = "AdamW, norms and checksums of gradients of a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "communication_ms", .what = "waits for other ranks in a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "fixed_ms", .what = "time between the operations of a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "profiled_ms", .what = "time of a profiled step", .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "profile_cost_percent", .what = "time that the profile adds to a step", .range = any, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "p50_us", .what = "median time of a step", .shared = yes,
           .work = microsecond, .may_lack = same_time},
    Metric{.family = training, .name = "max_us", .what = "the slowest step", .shared = yes, .harmless = shown,
           .may_lack = shown},
    Metric{.family = training, .name = "planned_gb", .what = "memory planned", .range = not_negative,
           .ceiling = memory, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "peak_gb", .what = "peak memory", .range = not_negative,
           .ceiling = memory, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "host_gb", .what = "memory of the host", .range = not_negative,
           .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "buckets", .what = "number of gradient reductions in a step", .harmless = choice,
           .may_lack = choice},
    Metric{.family = training, .name = "cudnn_attention", .what = "1 if cuDNN computes attention", .range = any, .harmless = choice,
           .may_lack = choice},
    Metric{.family = training, .name = "first_loss", .what = "loss of the first step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "last_loss", .what = "loss of the last step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "loss_2", .what = "loss of the second step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "loss_5", .what = "loss of the fifth step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "loss_10", .what = "loss of the tenth step", .harmless = checked,
           .may_lack = checked},
    Metric{.family = training, .name = "against_tokens_per_s", .what = "tokens per second of the compared variant", .shared = yes,
           .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "change_percent", .what = "change of the compared variant", .range = any,
           .shared = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "change_percent_low", .what = "lower 95 % bound of the change", .range = any, .shared = yes,
           .harmless = shown, .may_lack = shown},
    Metric{.family = training, .name = "change_percent_high", .what = "upper 95 % bound of the change", .range = any, .shared = yes,
           .harmless = shown, .may_lack = shown},
    // The rate depends on a disk, on a network and on other programs.
    Metric{.family = "layer", .name = "tokens_per_s", .what = "tokens per second of a layer", .aspect = Aspect::gemm_raw,
           .headline = 5, .of_slowest = yes, .peers = PeerClass{0.025, 0, 0.22, 0.22, true}, .least_scaling = 0.8, .work = tokens},
    Metric{.family = "layer", .name = "forward_ms", .what = "time of a layer", .aspect = Aspect::gemm_raw, .work = millisecond,
           .may_lack = same_time},
    Metric{.family = "layer", .name = "tflops", .what = "FLOPS of a layer", .aspect = Aspect::gemm_raw, .of_slowest = yes,
           .ceiling = tflops_of_type, .work = tera_flops, .may_lack = same_time},
    Metric{.family = "layer", .name = "tflops_per_ghz", .what = "TFLOPS per GHz of a layer", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "layer", .name = "tflops_per_w", .what = "TFLOPS per watt of a layer", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "layer", .name = "gemm_ms", .what = "time of the products", .harmless = shown, .may_lack = shown},
    Metric{.family = "layer", .name = "attention_ms", .what = "time of the attention", .harmless = shown, .may_lack = shown},
    Metric{.family = "layer", .name = "pointwise_ms", .what = "time of norms, GELU and quantization", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "layer", .name = "p50_us", .what = "median time of a layer", .work = microsecond, .may_lack = same_time},
    Metric{.family = "layer", .name = "max_us", .what = "the slowest pass through a layer", .harmless = shown, .may_lack = shown},
    Metric{.family = "finetune", .name = "tokens_per_s", .what = "tokens per second of a fine-tuning", .aspect = Aspect::gemm_raw,
           .headline = 5, .shared = yes, .of_slowest = yes, .least_scaling = 0.8},
    Metric{.family = "finetune", .name = "loss", .what = "loss of the last step", .shared = yes, .harmless = checked, .may_lack = checked},
    Metric{.family = "finetune", .name = "eval_loss", .what = "loss on examples that were not trained", .shared = yes,
           .harmless = checked, .may_lack = checked},
    Metric{.family = "finetune", .name = "p50_us", .what = "median time of a short run", .shared = yes, .work = microsecond,
           .may_lack = same_time},
    Metric{.family = "finetune", .name = "max_us", .what = "the slowest short run", .shared = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "decode", .name = "tokens_per_s", .what = "tokens per second of a model or its part", .aspect = Aspect::memory,
           .headline = 5, .of_slowest = yes, .peers = PeerClass{0.02, 0, 0.1, 0.1, true}, .least_scaling = 0.8, .work = tokens},
    Metric{.family = "decode", .name = "token_ms", .what = "time of a token", .aspect = Aspect::memory, .work = millisecond,
           .may_lack = same_time},
    Metric{.family = "decode", .name = "of_hbm_read", .what = "rate of the bytes of a token over the rate of reading them",
           .aspect = Aspect::memory, .ceiling = one, .harmless = shown, .may_lack = shown},
    Metric{.family = "decode", .name = "hbm_read_gb_per_s", .what = "rate of reading the memory of the weights", .aspect = Aspect::memory,
           .harmless = shown, .may_lack = shown},
    Metric{.family = "decode", .name = "p50_us", .what = "median time of a token", .work = microsecond, .may_lack = same_time},
    Metric{.family = "decode", .name = "max_us", .what = "the slowest token", .harmless = shown, .may_lack = shown},
    Metric{.family = "sm", .name = "tflops", .what = "rate of tile products on all SMs", .aspect = Aspect::gemm_raw, .headline = 1,
           .of_slowest = yes, .ceiling = tflops_of_type, .least_scaling = 0.8, .may_lack = "reads of pages have none"},
    Metric{.family = "sm", .name = "read_gb_per_s", .what = "rate of all SMs that read the same pages, mostly from the L2 cache", .headline = 2,
           .of_slowest = yes, .harmless = shown, .may_lack = "tile products have none"},
    Metric{.family = "sm", .name = "sms", .what = "number of SMs that computed", .harmless = checked, .may_lack = checked},
    Metric{.family = "sm", .name = "products", .what = "tile products or pages that were compared", .harmless = checked, .may_lack = checked},
    Metric{.family = "sm", .name = "share_checked", .what = "share of the products that were compared", .ceiling = one, .harmless = checked,
           .may_lack = checked},
    Metric{.family = "sm", .name = "least_rate_found", .what = "smallest rate of wrong products of one SM that is found with 95 %",
           .ceiling = one, .harmless = checked, .may_lack = checked},
    Metric{.family = "sm", .name = wrong_sm_metric, .what = "SM that computed wrong words", .range = any,
           .harmless = "it is an identifier, not a figure", .may_lack = "only a failed row has it"},
    Metric{.family = "sm", .name = "tflops_per_ghz", .what = "TFLOPS per GHz of tile products", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "sm", .name = "tflops_per_w", .what = "TFLOPS per watt of tile products", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "burn", .name = "gemm_tflops", .what = "rate of products during copies and sums", .aspect = Aspect::gemm_raw,
           .peers = PeerClass{0.025, 0, 0.22, 0.22, true}, .ceiling = tflops_of_type, .least_scaling = 0.8, .may_lack = shown},
    Metric{.family = "burn", .name = "tflops", .what = "rate of products over the time of all parts", .aspect = Aspect::gemm_raw,
           .headline = 1, .shared = yes, .of_slowest = yes, .ceiling = tflops_of_type, .harmless = shown, .may_lack = shown},
    Metric{.family = "burn", .name = "copy_gb_per_s", .what = "copy between two GPUs during products",
           .harmless = shown, .may_lack = shown},
    Metric{.family = "burn", .name = "hbm_gb_per_s", .what = "copy in the memory of a GPU during products",
           .harmless = shown, .may_lack = shown},
    Metric{.family = "burn", .name = "busbw_gb_per_s", .what = "bus bandwidth of AllReduce during products",
           .harmless = shown, .may_lack = shown},
    Metric{.family = "burn", .name = "tflops_per_ghz", .what = "TFLOPS per GHz of a burn", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "burn", .name = "tflops_per_w", .what = "TFLOPS per watt of a burn", .aspect = Aspect::gemm,
           .range = not_negative, .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "moe", .name = "busbw_gb_per_s", .what = "rate of the rank that sends or receives most tokens", .headline = 4,
           .shared = yes, .of_slowest = yes},
    Metric{.family = "moe", .name = "latency_us", .what = "time of one exchange with experts", .headline = 7, .shared = yes,
           .of_slowest = yes, .work = microsecond, .may_lack = same_time},
    Metric{.family = "moe", .name = "of_peer_copy", .what = "rate over that of copies between GPUs", .harmless = shown, .may_lack = shown},
    Metric{.family = "moe", .name = "peer_copy_gb_per_s", .what = "copies to or from the next GPU, all at once", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "loader", .name = "samples_per_s", .what = "sequences of a data loader", .headline = 3, .shared = yes,
           .of_slowest = yes},
    Metric{.family = "loader", .name = "loader_gb_per_s", .what = "bytes of tokens of a data loader", .shared = yes, .of_slowest = yes,
           .harmless = shown, .may_lack = same_time},
    Metric{.family = "loader", .name = "starved_ms", .what = "time for which each training step would wait for its batch",
           .range = not_negative, .shared = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "checkpoint", .name = "checkpoint_gb_per_s", .what = "rate of all ranks to or from the disk",
           .headline = 3, .shared = yes, .of_slowest = yes, .work = giga_bytes, .may_lack = same_time},
    Metric{.family = "checkpoint", .name = "checkpoint_ms", .what = "time to write or read a checkpoint", .shared = yes,
           .work = millisecond, .may_lack = same_time},
    Metric{.family = "checkpoint", .name = "checkpoint_gb", .what = "size of parameters and moments of all ranks", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "checkpoint", .name = "p50_us", .what = "median time of a checkpoint", .shared = yes, .work = microsecond,
           .may_lack = same_time},
    Metric{.family = "checkpoint", .name = "max_us", .what = "the slowest checkpoint", .shared = yes, .harmless = shown,
           .may_lack = shown},
    // Hosts share the servers of the storage, and a fair server gives each host the same rate. Not measured on a fleet.
    Metric{.family = "storage", .name = "write_gb_per_s", .what = "rate at which a host writes files, with fsync", .aspect = Aspect::storage,
           .headline = 3, .of_slowest = yes, .peers = PeerClass{0.05, 0, 0.3, 0.3}},
    Metric{.family = "storage", .name = "read_gb_per_s", .what = "rate at which a host reads the files of another host",
           .aspect = Aspect::storage, .headline = 3, .of_slowest = yes, .peers = PeerClass{0.05, 0, 0.3, 0.3}},
    Metric{.family = "storage", .name = "files_per_s", .what = "files that all ranks create, look at, rename and remove in one folder",
           .headline = 7, .shared = yes, .of_slowest = yes},
    Metric{.family = "storage", .name = "visible_s", .what = "time until a rank reads a file that another rank has renamed into place",
           .headline = 7, .of_slowest = yes},
    Metric{.family = "storage", .name = "slowest_visible_s", .what = "longest time until a rank reads a file that another host has renamed",
           .harmless = shown, .may_lack = shown},
    Metric{.family = "storage", .name = "lock_ms", .what = "time of a rank for one lock, while ranks of other hosts take it too",
           .headline = 7, .shared = yes, .of_slowest = yes},
    Metric{.family = "storage", .name = "fsync_ms", .what = "median time of fsync after all data are written", .harmless = shown, .may_lack = shown},
    Metric{.family = "storage", .name = "is_direct", .what = "1 if the page cache is bypassed (O_DIRECT)", .range = not_negative,
           .harmless = choice, .may_lack = choice},
    Metric{.family = "storage", .name = "create_files_per_s", .what = "files created by all ranks", .harmless = shown, .may_lack = shown},
    Metric{.family = "storage", .name = "stat_files_per_s", .what = "calls of stat of all ranks", .harmless = shown, .may_lack = shown},
    Metric{.family = "storage", .name = "rename_files_per_s", .what = "files renamed by all ranks", .harmless = shown, .may_lack = shown},
    Metric{.family = "storage", .name = "remove_files_per_s", .what = "files removed by all ranks", .harmless = shown, .may_lack = shown},
    Metric{.family = "storage", .name = "p50_us", .what = "median time of an operation", .work = microsecond, .may_lack = same_time},
    Metric{.family = "storage", .name = "max_us", .what = "the slowest operation", .harmless = shown, .may_lack = shown},
    Metric{.family = "", .name = "checksum", .what = "checksum of the bits that a rank computed", .range = any,
           .harmless = "it must be equal on all ranks", .may_lack = checked},
    Metric{.family = "", .name = "cv", .what = "standard deviation over mean of the samples", .range = not_negative,
           .harmless = "it is compared only with the limit of its family"},
    Metric{.family = "", .name = "series", .what = "operations after the samples whose bits were compared",
           .range = not_negative, .harmless = "a wrong bit fails the row; the number of operations is not judged",
           .may_lack = checked},
    Metric{.family = "", .name = "samples", .what = "samples taken",
           .harmless = "it is judged only by a minimum"},
    Metric{.family = "", .name = "seconds", .what = "time of one operation of a rank", .work = second,
           .may_lack = same_time},
    Metric{.family = "", .name = "bytes_per_second", .what = google, .work = bytes, .of_mean = yes,
           .harmless = google, .may_lack = google},
    Metric{.family = "", .name = "items_per_second", .what = google, .work = flops, .of_mean = yes,
           .harmless = google, .may_lack = google},
    Metric{.family = "", .name = "arrival_us", .what = "delay of a rank after the first rank",
           .range = not_negative, .harmless = "it names the rank to examine first",
           .may_lack = "it names the rank to examine first"},
    Metric{.family = "", .name = "p99_us", .what = "99 % quantile of the samples", .harmless = shown,
           .may_lack = shown},
    Metric{.family = "", .name = "sm_mhz", .what = "clock during the samples", .range = not_negative,
           .is_telemetry = yes, .ceiling = clock, .harmless = sample, .may_lack = sample},
    Metric{.family = "", .name = "power_w", .what = "power during the samples", .range = not_negative,
           .is_telemetry = yes, .ceiling = power, .harmless = sample, .may_lack = sample},
    Metric{.family = "", .name = "host_w", .what = "power of the processor packages of a host", .range = not_negative,
           .harmless = shown, .may_lack = shown},
    Metric{.family = "", .name = "joule_per_token", .what = "energy of a GPU for each of its tokens", .range = not_negative,
           .is_telemetry = yes, .harmless = shown, .may_lack = shown},
    Metric{.family = "", .name = "gpu_busy_percent", .what = "share of the samples in which a kernel ran",
           .range = not_negative, .harmless = shown, .may_lack = shown},
    Metric{.family = "", .name = "memory_busy_percent", .what = "share of the samples in which the memory was in use",
           .range = not_negative, .harmless = shown, .may_lack = shown},
    Metric{.family = "", .name = "temperature_c", .what = "temperature during the samples", .range = not_negative,
           .is_telemetry = yes, .ceiling = heat, .harmless = sample, .may_lack = sample},
    Metric{.family = "", .name = "throttled", .what = "share of the time under throttling",
           .range = not_negative, .is_telemetry = yes, .ceiling = one, .harmless = sample, .may_lack = sample},
};
// clang-format on

}  // namespace

std::span<const Metric> metrics() { return catalogue; }

const Metric* find_metric(const Key& key, Text name) {
  // Sorted by name once, because every value of a run is looked up several times.
  static const auto rows_of_name = [] {
    std::unordered_map<Text, std::vector<const Metric*>> rows;
    for (const Metric& m : catalogue) rows[m.name].push_back(&m);
    return rows;
  }();
  const auto rows = rows_of_name.find(name);
  if (rows == rows_of_name.end()) return nullptr;
  const auto found = std::find_if(rows->second.begin(), rows->second.end(),
                                  [&](const Metric* m) { return m->is_of(key.family()) && m->part.is_in(key); });
  return found == rows->second.end() ? nullptr : *found;
}

std::optional<PeerClass> peer_class(const Key& key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return row == nullptr ? std::nullopt : row->peers;
}

Aspect aspect_of(const Key& key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return row == nullptr ? Aspect::other : row->aspect;
}

bool is_catalogued(Text family) {
  return std::any_of(catalogue.begin(), catalogue.end(),
                     [&](const Metric& m) { return !m.family.empty() && m.is_of(family); });
}

std::optional<double> ceiling(const Peaks& peaks, const Key& key, Text metric, const Scale& scale) {
  const Metric* row = find_metric(key, metric);
  if (row == nullptr || row->ceiling == nullptr) return std::nullopt;
  return row->ceiling(peaks, key, work::of_group(key, scale));
}

std::optional<double> implied_seconds(const Metric& metric, const Key& key, double value, const Scale& scale) {
  const auto work = metric.work == nullptr ? std::nullopt : metric.work(key, scale);
  if (!work || !(value > 0)) return std::nullopt;
  return lower_is_better(metric.name) ? value * *work : *work / value;
}

bool is_telemetry(Text metric) {
  return std::any_of(catalogue.begin(), catalogue.end(),
                     [&](const Metric& m) { return m.is_telemetry && m.name == metric; });
}

bool is_shared(const Key& key, Text metric) {
  const Metric* row = find_metric(key, metric);
  return is_collective(key.family()) || (row != nullptr && row->shared);
}

bool is_training(Text family) { return family == "lora_step" || family == "train_step"; }

bool Metric::is_of(Text of) const { return family.empty() || family == of || (family == training && is_training(of)); }

bool is_collective(Text family) { return family == "allreduce" || family == "collectives"; }

}  // namespace shakedown
