#include "launch/schedulers.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "base/parse_number.hpp"
#include "launch/variables.hpp"

namespace shakedown {
namespace {

enum class Form {
  file,  // the variable names a host file
  list,  // the variable lists hosts: "host host", "host 8 host 8" with numbers of ranks, "host,host" or a JSON array
  count  // the variable has a number of hosts, or a range "1:4"
};

/// The program that starts a command on a host. The options of this program are the same as those of ssh: AGENT HOST
/// COMMAND.
struct Agent {
  std::string_view program = {};              // empty: the program does not start ranks under this scheduler
  const char* variable = nullptr;             // this variable, if set, names another program
  std::array<const char*, 2> arguments = {};  // variables with arguments of the program
};

struct Sign {
  std::string_view scheduler;
  const char* variable;
  Form form;
  std::string_view launch;
  Agent agent = {};
};

constexpr Agent lsf_agent{"blaunch"};
constexpr Agent mpich_agent{"ssh", "HYDRA_LAUNCHER_EXEC", {"HYDRA_LAUNCHER_EXTRA_ARGS", "HYDRA_LAUNCH_EXTRA_ARGS"}};
constexpr Agent intel_agent{"ssh", "I_MPI_HYDRA_BOOTSTRAP_EXEC", {"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"}};

// Sources: manual pages of the schedulers (qsub(1B), bsub(1), blaunch(1), qsub(1) of Grid Engine, oarsub(1),
// flux-run(1)), Kubeflow's mpi-operator (ssh since v2, kubexec.sh before) and training-operator, the wiki of MPICH's
// Hydra, LeaderWorkerSet, PyTorch's torchrun, Volcano's plugin svc, and the manuals of the cloud services.
constexpr std::array signs{
    Sign{"PBS", "PBS_NODEFILE", Form::file, "mpirun --hostfile $PBS_NODEFILE"},
    Sign{"LSF", "LSB_DJOB_HOSTFILE", Form::file, "mpirun --host HOST:8,...", lsf_agent},
    Sign{"Grid Engine", "PE_HOSTFILE", Form::file, "mpirun --hostfile FILE"},
    Sign{"OAR", "OAR_NODEFILE", Form::file, "mpirun --hostfile $OAR_NODEFILE --mca plm_rsh_agent oarsh"},
    Sign{"OAR", "OAR_NODE_FILE", Form::file, "mpirun --hostfile $OAR_NODE_FILE --mca plm_rsh_agent oarsh"},
    Sign{"Cobalt", "COBALT_NODEFILE", Form::file, "mpirun --hostfile $COBALT_NODEFILE"},
    Sign{"MPI operator (MPICH)", "HYDRA_HOST_FILE", Form::file, "mpirun --hostfile $HYDRA_HOST_FILE", mpich_agent},
    Sign{"MPI operator (Intel MPI)", "I_MPI_HYDRA_HOST_FILE", Form::file, "mpirun --hostfile $I_MPI_HYDRA_HOST_FILE",
         intel_agent},
    Sign{"LSF", "LSB_MCPU_HOSTS", Form::list, "mpirun --host HOST:8,...", lsf_agent},
    Sign{"LSF", "LSB_HOSTS", Form::list, "mpirun --host HOST:8,...", lsf_agent},
    Sign{"LoadLeveler", "LOADL_HOSTFILE", Form::file, "mpirun --hostfile $LOADL_HOSTFILE"},
    Sign{"SageMaker", "SM_HOSTS", Form::list, "mpirun --host HOST:8,..."},
    Sign{"Azure Batch", "AZ_BATCH_HOST_LIST", Form::list, "mpirun --host HOST:8,..."},
    Sign{"Flux", "FLUX_JOB_NNODES", Form::count, "flux run -N NODES --tasks-per-node=8"},
    Sign{"Slurm (heterogeneous job)", "SLURM_HET_SIZE", Form::count,
         "srun --mpi=none --het-group=1 --ntasks-per-node=8"},
    Sign{"LeaderWorkerSet", "LWS_GROUP_SIZE", Form::count, "mpirun --host POD:8,..."},
    Sign{"AWS Batch", "AWS_BATCH_JOB_NUM_NODES", Form::count, "mpirun --host HOST:8,..."},
    Sign{"Base Command Platform", "NGC_ARRAY_SIZE", Form::count, "mpirun --host HOST:8,..."},
    Sign{"Volcano", "VC_WORKER_NUM", Form::count, "mpirun --host POD:8,..."},
    Sign{"HTCondor", "_CONDOR_NPROCS", Form::count, "mpirun --host HOST:8,..."},
    Sign{"PJM", "PJM_NODE", Form::count, "mpirun --hostfile $PJM_O_NODEINF"},
    Sign{"SkyPilot", "SKYPILOT_NUM_NODES", Form::count, "torchrun --nnodes=NODES --nproc-per-node=8 --no-python"},
    Sign{"dstack", "DSTACK_NODES_NUM", Form::count, "torchrun --nnodes=NODES --nproc-per-node=8 --no-python"},
    Sign{"torchrun", "PET_NNODES", Form::count, "torchrun --nnodes=NODES --nproc-per-node=8 --no-python"},
};

/// Returns the list of a variable in the form of a host file. A number is the number of ranks of the host before it.
std::string as_host_file(const std::string& list) {
  auto blanks = list;
  constexpr std::string_view separators = "[],\"";
  std::replace_if(
      blanks.begin(), blanks.end(), [&](char c) { return separators.find(c) != std::string_view::npos; }, ' ');
  std::istringstream words(blanks);
  std::string lines;
  for (std::string word; words >> word;) {
    const bool is_host = word.find_first_not_of("0123456789") != std::string::npos;
    lines += (is_host ? "\n" : " ") + word;
  }
  return lines;
}

/// Returns the agent with its arguments; nullopt if there is none.
std::optional<std::string> command_of(const Agent& agent, const Environment& environment) {
  if (agent.program.empty()) return std::nullopt;
  std::string command(agent.program);
  if (agent.variable != nullptr) command = set_in(environment, agent.variable).value_or(command);
  for (const auto* variable : agent.arguments) {
    const auto arguments = variable == nullptr ? std::nullopt : set_in(environment, variable);
    if (arguments) command += " " + *arguments;
  }
  return command;
}

/// True unless the text is "1". A text that is not a number also returns true, because it may mean several hosts.
bool is_above_one(const std::string& text) {
  const auto last = text.substr(text.rfind(':') == std::string::npos ? 0 : text.rfind(':') + 1);
  return whole_number<int>(last).value_or(2) > 1;
}

}  // namespace

std::optional<PromisedHosts> promised_hosts(const Environment& environment) {
  for (const Sign& sign : signs) {
    const auto value = sign.form == Form::count ? set_in(environment, sign.variable) : std::nullopt;
    if (value && is_above_one(*value))
      return PromisedHosts{sign.scheduler, sign.variable + ("=" + *value), sign.launch};
  }
  return std::nullopt;
}

std::optional<SchedulerHosts> scheduler_hosts(const Environment& environment) {
  for (const Sign& sign : signs) {
    const auto value = sign.form == Form::count ? std::nullopt : set_in(environment, sign.variable);
    if (!value) continue;
    const auto agent = command_of(sign.agent, environment);
    if (sign.form == Form::file) return SchedulerHosts{*value, std::nullopt, sign.launch, agent};
    return SchedulerHosts{sign.variable, as_host_file(*value), sign.launch, agent};
  }
  return std::nullopt;
}

}  // namespace shakedown
