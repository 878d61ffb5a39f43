#include "launch/with_tcp.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/files.hpp"
#include "base/text.hpp"
#include "launch/local_ranks.hpp"
#include "launch/pods.hpp"
#include "launch/variables.hpp"
#include "launch/words.hpp"

namespace shakedown {
namespace {

/// True if an MPI launcher started this process.
bool is_of_mpi(const Environment& environment) {
  constexpr std::array launchers{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  return std::any_of(launchers.begin(), launchers.end(),
                     [&](const char* name) { return environment(name).has_value(); });
}

}  // namespace

std::optional<Launch> of_ranks(const Environment& environment, Launch launch) {
  for (const auto* variable : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (!set_in(environment, variable)) return std::nullopt;
  }
  // A pod has RANK too. In an elastic job nobody but torchrun knows how many pods there are.
  const bool is_pod = !set_in(environment, "LOCAL_RANK") &&
                      (set_in(environment, "PET_NNODES") || set_in(environment, "PET_NPROC_PER_NODE"));
  if (is_of_mpi(environment) || is_pod) return std::nullopt;
  launch.rank = number_in(environment, "RANK", 0);
  launch.ranks = number_in(environment, "WORLD_SIZE", 1);
  if (*launch.ranks == 0) throw CannotRun("WORLD_SIZE=0 is not a number of ranks: correct or unset it");
  if (*launch.ranks == 1) return std::nullopt;
  if (*launch.rank >= *launch.ranks) {
    throw CannotRun("RANK=" + std::to_string(*launch.rank) +
                    " is not below WORLD_SIZE=" + std::to_string(*launch.ranks) + ": correct or unset them");
  }
  launch.host_count = 0;
  launch.variables.clear();  // these variables are only for mpirun
  launch.note =
      "rank " + std::to_string(*launch.rank) + " of " + std::to_string(*launch.ranks) +
      " by RANK and WORLD_SIZE; the launcher that set them must also start the other ranks; they connect to " +
      *set_in(environment, "MASTER_ADDR") + ":" + *set_in(environment, "MASTER_PORT") +
      "; unset them to measure this machine alone";
  return launch;
}

int checked_ranks(int ranks, const std::string& variable) {
  constexpr int max_ranks = 1024;  // mpirun would start more for minutes, and then run out of processes or memory
  const auto given = variable + "=" + std::to_string(ranks);
  if (ranks == 0) throw InputError(given + " measures nothing: unset it, or give a number of ranks");
  if (ranks <= max_ranks) return ranks;
  throw InputError(given + " is more than one host can run: give at most " + std::to_string(max_ranks));
}

std::optional<Launch> of_pods(const LaunchSite& site, Launch launch) {
  const auto pod = is_of_mpi(site.environment) ? std::nullopt : pod_of(site.environment);
  if (!pod || pod->count == 1) return std::nullopt;
  const int each =
      pod->processes > 0
          ? checked_ranks(pod->processes, "PET_NPROC_PER_NODE")
          : checked_ranks(number_in(site.environment, "SHAKEDOWN_RANKS", std::max(site.gpus, 1)), "SHAKEDOWN_RANKS");
  if (pod->count > std::numeric_limits<int>::max() / each) {
    throw InputError("PET_NNODES or WORLD_SIZE=" + std::to_string(pod->count) + " is not a number of pods: correct it");
  }
  const int first = pod->number * each;
  launch.rank = first;
  launch.ranks = pod->count * each;
  launch.host_count = 0;
  launch.prefix = local_ranks(site.program, first, each);
  launch.variables = {
      {"WORLD_SIZE", std::to_string(*launch.ranks)}, {"MASTER_ADDR", pod->address}, {"MASTER_PORT", pod->port}};
  launch.note = "pod " + std::to_string(pod->number) + " of " + std::to_string(pod->count) + " starts ranks " +
                std::to_string(first) + " to " + std::to_string(first + each - 1) + " of " +
                std::to_string(*launch.ranks) + "; the other pods must start the other ranks; they connect to " +
                pod->address + ":" + pod->port;
  return launch;
}

std::optional<Launch> of_many_ranks(const LaunchSite& site, Launch launch, int ranks) {
  // The time of MPI_Init grows with the square of the number of ranks if they share cores: on 2 cores 64 ranks of Open
  // MPI 4.1 start in 2 s, 128 in 7 s, 256 in 29 s, 512 not in 120 s. Over TCP these take 0.8, 1.4, 3 and 8 s.
  constexpr int max_ranks_of_mpirun = 128;
  if (ranks <= max_ranks_of_mpirun || is_of_mpi(site.environment)) return std::nullopt;
  launch.prefix = local_ranks(site.program, 0, ranks);
  launch.variables = {{"WORLD_SIZE", std::to_string(ranks)}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", ""}};
  launch.note = std::to_string(ranks) + " ranks of this host start without mpirun, which starts more than " +
                std::to_string(max_ranks_of_mpirun) + " slowly; they connect over TCP";
  return launch;
}

void refuse_a_rank_without_meeting_place(const Environment& environment) {
  const auto rank = set_in(environment, "RANK"), size = set_in(environment, "WORLD_SIZE");
  if (!rank || !size || *size == "1" || is_of_mpi(environment)) return;
  Words missing;
  for (const auto* variable : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (!set_in(environment, variable)) missing.emplace_back(variable);
  }
  if (missing.empty()) return;
  throw CannotRun("RANK=" + *rank + " and WORLD_SIZE=" + *size + " without " + joined(missing, " and ") +
                  ": ranks cannot find each other; set " + joined(missing, " and ") +
                  ", or unset RANK and WORLD_SIZE to measure this machine alone");
}

}  // namespace shakedown
