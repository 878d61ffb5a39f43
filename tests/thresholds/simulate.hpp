// Makes clusters whose noise is stated and plants faults in them, so that the judge can be judged. Seeded: the same
// seed gives the same cluster on every machine with the same C++ library.
//
// The noise, as relative standard deviations (chip = from GPU to GPU, run = from repetition to repetition):
//   clock under GEMM   chip 2.5 %, Student's t with 5 degrees of freedom (heavy tails), cut off at 15 %; run 2 %.
//                      Four H200 of one node differed by up to 13 % in bursts, and a launch from the next as much.
//   GEMM per GHz       chip 0.35 %, run 0.6 %: four H200 agreed within 0.9 % over 12 s of bf16; over bursts of tens of
//                      milliseconds, with clock samples every 10 ms, within 0.2 to 2.5 %.
//   HBM                chip 0.1 %, run 0.1 %: the committed files show 0.05 % between GPUs and a cv of 0.1 %.
//   copies by NVLink   link 0.05 %, run 0.05 %: the committed files show 0.03 %.
//   PCIe               chip 1 %, run 1 %.       Memory test: run 0.3 %.
//   AllReduce          run 0.5 %.               Arrival: exponential, mean 0.3 us.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "thresholds/results.hpp"
#include "thresholds/verdict.hpp"

namespace shakedown::simulation {

struct Fault {
  enum class Kind {
    slow_gpu,       // GEMM, HBM, and all copies to and from it, at normal clocks
    slow_compute,   // GEMM only, at normal clocks
    slow_memory,    // HBM only
    slow_link,      // one ordered pair
    slow_ports,     // all copies to and from one GPU
    slow_node,      // all of its GPUs and links, and its own AllReduce
    heat,           // one clock, and the GPU says so
    late_rank,      // comes 2 ms late to every barrier
    slow_allreduce  // every AllReduce, with healthy links
  };
  Kind kind;
  double share = 0;  // 0.05 = 5 % slow
  int rank = 0;      // of a link the source; of a node any of its ranks
  int to = 0;        // of a link the destination
};

struct Plan {
  int gpus = 8, gpus_per_host = 8, repetitions = 5;
  double noise = 1;    // all noise, times this
  double drift = 0;    // of everything, 0.02 = 2 % slower
  bool clocks = true;  // false: nobody recorded them
  std::vector<Fault> faults;
  std::uint64_t seed = 1;
  bool whole = false;           // with every array that a real file has, and not only those that are judged
  bool pairs_and_step = false;  // also both directions of each pair at once, and a training step
  std::string device = "Generated GPU";
};

/// 60 benchmarks of seven families, and what `pairs_and_step` adds.
std::vector<Results> cluster(const Plan&);

/// The same as files, one per family or one in all, written row by row.
void write_cluster(const Plan&, const std::filesystem::path& folder, bool one_file = false);

/// What the judge made of a fault that was planted.
struct Outcome {
  bool detected = false;  // something fails
  bool named = false;     // every fault by its first cause and place
  std::size_t wrong = 0;  // culprits that fail and were not planted
};
Outcome outcome(const Plan&, const Verdict&);

/// A fault of that kind at a place that the seed chooses, another one for each attempt.
Fault planted(Fault::Kind, double share, const Plan&, int attempt = 0);

}  // namespace shakedown::simulation
