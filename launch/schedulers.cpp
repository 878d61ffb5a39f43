#include "launch/schedulers.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "base/parse_number.hpp"

namespace shakedown {
namespace {

enum class Form {
  file,  // the variable names a host file
  list,  // the variable lists hosts: "host host", or "host 8 host 8" with numbers of ranks
  count  // the variable has a number of hosts, or a range "1:4"
};

struct Sign {
  std::string_view scheduler;
  const char* variable;
  Form form;
  std::string_view launch;
};

// Sources: manual pages of the schedulers (qsub(1B), bsub(1), qsub(1) of Grid Engine, oarsub(1), flux-run(1)),
// Kubeflow's mpi-operator and training-operator, LeaderWorkerSet, PyTorch's torchrun.
constexpr std::array signs{
    Sign{"PBS", "PBS_NODEFILE", Form::file, "mpirun --hostfile $PBS_NODEFILE"},
    Sign{"LSF", "LSB_DJOB_HOSTFILE", Form::file, "mpirun --host HOST:8,..."},
    Sign{"LSF", "LSB_MCPU_HOSTS", Form::list, "mpirun --host HOST:8,..."},
    Sign{"LSF", "LSB_HOSTS", Form::list, "mpirun --host HOST:8,..."},
    Sign{"Grid Engine", "PE_HOSTFILE", Form::file, "mpirun --hostfile FILE"},
    Sign{"OAR", "OAR_NODEFILE", Form::file, "mpirun --hostfile $OAR_NODEFILE --mca plm_rsh_agent oarsh"},
    Sign{"OAR", "OAR_NODE_FILE", Form::file, "mpirun --hostfile $OAR_NODE_FILE --mca plm_rsh_agent oarsh"},
    Sign{"Cobalt", "COBALT_NODEFILE", Form::file, "mpirun --hostfile $COBALT_NODEFILE"},
    Sign{"MPI operator (MPICH)", "HYDRA_HOST_FILE", Form::file, "mpirun --hostfile $HYDRA_HOST_FILE"},
    Sign{"MPI operator (Intel MPI)", "I_MPI_HYDRA_HOST_FILE", Form::file, "mpirun --hostfile $I_MPI_HYDRA_HOST_FILE"},
    Sign{"Flux", "FLUX_JOB_NNODES", Form::count, "flux run -N NODES --tasks-per-node=8"},
    Sign{"Slurm (heterogeneous job)", "SLURM_HET_SIZE", Form::count,
         "srun --mpi=none --het-group=1 --ntasks-per-node=8"},
    Sign{"LeaderWorkerSet", "LWS_GROUP_SIZE", Form::count, "mpirun --host POD:8,..."},
    Sign{"torchrun", "PET_NNODES", Form::count, "torchrun --nnodes=NODES --nproc-per-node=8 --no-python"},
};

std::optional<std::string> set_in(const Environment& environment, const char* name) {
  auto value = environment(name);
  return value && !value->empty() ? value : std::nullopt;
}

/// Returns the number of hosts in a list. A number in the list is not a host but the number of its ranks.
std::size_t hosts_in(const std::string& list) {
  std::istringstream words(list);
  std::set<std::string> hosts;
  for (std::string word; words >> word;) {
    if (word.find_first_not_of("0123456789") != std::string::npos) hosts.insert(word);
  }
  return hosts.size();
}

/// True unless the text is "1". A text that is not a number also returns true, because it may mean several hosts.
bool is_above_one(const std::string& text) {
  const auto last = text.substr(text.rfind(':') == std::string::npos ? 0 : text.rfind(':') + 1);
  return whole_number<int>(last).value_or(2) > 1;
}

const Sign* file_sign(const Environment& environment) {
  const auto* const found = std::find_if(signs.begin(), signs.end(), [&](const Sign& sign) {
    return sign.form == Form::file && set_in(environment, sign.variable);
  });
  return found == signs.end() ? nullptr : found;
}

}  // namespace

std::optional<PromisedHosts> promised_hosts(const Environment& environment) {
  for (const Sign& sign : signs) {
    const auto value = set_in(environment, sign.variable);
    if (!value || sign.form == Form::file) continue;
    if (sign.form == Form::list ? hosts_in(*value) > 1 : is_above_one(*value)) {
      return PromisedHosts{sign.scheduler, sign.variable + ("=" + *value), sign.launch};
    }
  }
  return std::nullopt;
}

std::optional<std::string> scheduler_host_file(const Environment& environment) {
  const Sign* const sign = file_sign(environment);
  return sign == nullptr ? std::nullopt : set_in(environment, sign->variable);
}

std::string_view launch_with_host_file(const Environment& environment) {
  const Sign* const sign = file_sign(environment);
  return sign == nullptr ? std::string_view() : sign->launch;
}

}  // namespace shakedown
