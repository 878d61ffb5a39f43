#include "launch/start_faults.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace shakedown {
namespace {
namespace start_faults {

using enum StartFault;

// Sentences of OpenSSH 9.2: sshconnect.c, sshconnect2.c, packet.c, readconf.c, authfile.c.
constexpr std::array ssh_messages{
    StartRow{"*Permissions * for '{what}' are too open", key_file_refused},
    StartRow{"*@{host}: Permission denied (", login_refused},
    StartRow{"*@{host}'s password:", login_refused},
    StartRow{"Received disconnect from {host} port *Too many authentication failures", login_refused},
    StartRow{"This account is currently not available", login_refused},
    StartRow{"*Unprivileged users are not permitted to log in yet", login_refused},
    StartRow{"Host key for {host} has changed", host_key_changed},
    StartRow{"*REMOTE HOST IDENTIFICATION HAS CHANGED", host_key_changed},
    StartRow{"No * host key is known for {host} and you have requested strict checking", host_key_unknown},
    StartRow{"*Host key verification failed", host_key_unknown},
    StartRow{"*Could not resolve hostname {host}: ", host_name_unknown},
    StartRow{"ssh: connect to host {host} port *: Connection refused", connection_refused},
    StartRow{"ssh: connect to host {host} port *: No route to host", host_unreachable},
    StartRow{"ssh: connect to host {host} port *: Network is unreachable", host_unreachable},
    StartRow{"ssh: connect to host {host} port *: Connection timed out", host_timed_out},
    StartRow{"Connection timed out during banner exchange", host_timed_out},
    StartRow{"Connection to {host} port * timed out", host_timed_out},
    StartRow{"Timeout, server {host} not responding", host_timed_out},
    StartRow{"kex_exchange_identification: ", connection_closed},
    StartRow{"Connection closed by {host} port ", connection_closed},
    StartRow{"Connection reset by {host} port ", connection_closed},
    StartRow{"Unable to negotiate with {host} port ", no_common_algorithm},
    StartRow{"*Bad configuration option: {what}", ssh_settings_wrong},
    StartRow{"Bad owner or permissions on {what}", ssh_settings_wrong},
};

// Sentences of shells and tools that start a program on the host: bash 5.2, dash 0.5.12, zsh 5.9, env and nohup of
// coreutils 9.1, ld.so of glibc 2.36.
constexpr std::array shell_messages{
    StartRow{"*error while loading shared libraries: {what}: cannot open shared object file", library_missing},
    StartRow{"*: version `{what}' not found (required by ", library_too_old},
    StartRow{"*sh: *{what}: command not found", program_missing},
    StartRow{"*sh:*: command not found: {what}", program_missing},
    StartRow{"*sh: *{what}: not found", program_missing},
    StartRow{"*sh: *{what}: No such file or directory", program_missing},
    StartRow{"*env: '{what}': No such file or directory", program_missing},
    StartRow{"*: failed to run command '{what}': No such file or directory", program_missing},
    StartRow{"*sh: *{what}: cannot execute binary file: Exec format error", program_not_executable},
    StartRow{"*sh: *{what}: cannot execute: Permission denied", program_not_executable},
    StartRow{"*sh: *{what}: Permission denied", program_not_executable},
    StartRow{"*env: '{what}': Permission denied", program_not_executable},
};

// Sentences of Slurm 22.05: srun, slurmstepd, slurm_errno.c.
constexpr std::array srun_messages{
    StartRow{"srun: *invalid partition specified: {what}", partition_wrong},
    StartRow{"srun: *Invalid partition name specified", partition_wrong},
    StartRow{"srun: *Partition in DOWN state", partition_wrong},
    StartRow{"srun: *Required partition not available (inactive or drain)", partition_wrong},
    StartRow{"srun: *Invalid account or account/partition combination specified", account_refused},
    StartRow{"srun: *Invalid qos specification", account_refused},
    StartRow{"srun: *User's group not permitted to use this partition", account_refused},
    StartRow{"srun: *Job violates accounting/QOS policy", account_refused},
    StartRow{"srun: *Access/permission denied", account_refused},
    StartRow{"srun: *Requested time limit is invalid", account_refused},
    StartRow{"srun: *Invalid node name specified", node_name_wrong},
    StartRow{"srun: error: Only allocated * nodes asked for ", request_too_large},
    StartRow{"srun: *Memory specification can not be satisfied", request_too_large},
    StartRow{"srun: *Requested node configuration is not available", request_too_large},
    StartRow{"srun: *More processors requested than permitted", request_too_large},
    StartRow{"srun: *Step requested GRES but job doesn't have GRES", request_too_large},
    StartRow{"srun: *Invalid generic resource (gres) specification", request_too_large},
    StartRow{"srun: *Invalid feature specification", request_too_large},
    StartRow{"srun: *Node failure on {host}", node_unavailable},
    StartRow{"srun: *Nodes {host} are still not ready", node_unavailable},
    StartRow{"srun: *Required node not available (down, drained or reserved)", node_unavailable},
    StartRow{"srun: job * queued and waiting for resources", resources_busy},
    StartRow{"srun: *step creation temporarily disabled, retrying", resources_busy},
    StartRow{"srun: *Requested nodes are busy", resources_busy},
    StartRow{"srun: error: Task launch for * failed on node {host}: ", node_daemon_dead},
    StartRow{"srun: error: Application launch failed: ", node_daemon_dead},
    StartRow{"srun: *Unable to contact slurm controller", controller_unreachable},
    StartRow{"srun: *Could not establish a configuration source", controller_unreachable},
    StartRow{"srun: *cannot stat file {what}: No such file or directory, retrying", controller_unreachable},
    StartRow{"srun: *Zero Bytes were transmitted or received", controller_unreachable},
    StartRow{"srun: *Munge encode failed: ", slurm_login_refused},
    StartRow{"srun: *Protocol authentication error", slurm_login_refused},
    StartRow{"srun: *Invalid job id specified", slurm_job_ended},
    StartRow{"srun: *Job/step already completing or completed", slurm_job_ended},
    StartRow{"srun: error: Invalid MPI type '{what}'", mpi_plugin_missing},
    StartRow{"srun: unrecognized option '{what}'", options_wrong},
    StartRow{"srun: invalid option -- '{what}'", options_wrong},
    StartRow{"srun: error: Invalid {what} specification", options_wrong},
    StartRow{"slurmstepd-{host}: error: execve(): {what}: No such file or directory", program_missing},
    StartRow{"slurmstepd: error: execve(): {what}: No such file or directory", program_missing},
    StartRow{"slurmstepd-{host}: error: execve(): {what}: Permission denied", program_not_executable},
    StartRow{"slurmstepd: error: execve(): {what}: Permission denied", program_not_executable},
};

// Sentences of Open MPI 4.1.4 (help-*.txt of orte) and 5.0 (help-*.txt of prrte, whose mpirun calls itself prterun).
constexpr std::array mpirun_messages{
    StartRow{"There are not enough slots available in the system to satisfy", too_few_slots},
    StartRow{"All nodes which are allocated for this job are already filled", too_few_slots},
    StartRow{"*was unable to find the specified executable file*Node: {host} Executable: {what}", program_missing},
    StartRow{"*could not access or execute an executable: Executable: {what} Node: {host}", program_missing},
    StartRow{"*could not change to the specified working directory: Working directory: {what} Node: {host}",
             folder_missing},
    StartRow{"*Error: unknown option \"{what}\"", options_wrong},
    StartRow{"The specified * policy is not recognized: Policy: {what}", options_wrong},
    StartRow{"*could not find anything to do", options_wrong},
    StartRow{"*was unable to open the hostfile: {what}", host_file_missing},
    StartRow{"At least one of the requested hosts is not included*Missing requested host: {host}", host_not_allocated},
    StartRow{"Some of the requested hosts are not included in the current allocation", host_not_allocated},
    StartRow{
        "The value of the MCA parameter \"plm_rsh_agent\" was set to a path that could not be found: plm_rsh_agent: "
        "{what}",
        ssh_missing},
    StartRow{"*has detected an attempt to run as root", root_refused},
    StartRow{"None of the TCP networks specified to be included*Value given: {what}", interface_wrong},
    StartRow{"No network interfaces were found for out-of-band communications", interface_wrong},
    StartRow{"*is unable to establish a communication connection to the specified daemon*target node: {host}",
             daemon_cannot_call_back},
    StartRow{"*daemon has unexpectedly failed after launch and before communicating back", daemon_cannot_call_back},
    StartRow{"*has lost communication with a remote daemon*Remote daemon: * on node {host}", daemon_lost},
    StartRow{"*was unable to reliably start one or more daemons", daemon_not_started},
    StartRow{"*does not know how to route a message to the specified daemon*target node: {host}", daemon_not_started},
};

constexpr std::array tables{StartTable{"ssh", ssh_messages}, StartTable{"shell", shell_messages},
                            StartTable{"srun", srun_messages}, StartTable{"mpirun", mpirun_messages}};

struct Row {
  StartFault fault;
  std::string_view code, action;
  bool may_pass = false;
};

constexpr std::array words{
    Row{login_refused, "login_refused", "allow this user to log in there with a key (ssh-copy-id)"},
    Row{key_file_refused, "key_file_refused", "chmod 600 that file"},
    Row{host_key_unknown, "host_key_unknown",
        "add the host's key to known_hosts (ssh-keyscan), or log in once by hand"},
    Row{host_key_changed, "host_key_changed",
        "if the host was installed anew, remove its old key (ssh-keygen -R HOST); else another host has its address"},
    Row{host_name_unknown, "host_name_unknown",
        "correct the name in the list of hosts, or add it to DNS or /etc/hosts"},
    Row{connection_refused, "connection_refused", "start sshd there, or correct the port in ~/.ssh/config"},
    Row{host_unreachable, "host_unreachable", "ping the host: it is down, or there is no route to it", true},
    Row{host_timed_out, "host_timed_out", "ping the host: it is down, or a firewall drops packets to it", true},
    Row{connection_closed, "connection_closed",
        "read sshd's log there (journalctl -u ssh): MaxStartups and denied addresses are usual", true},
    Row{no_common_algorithm, "no_common_algorithm",
        "update ssh on one of the two hosts, or allow an algorithm that both have"},
    Row{ssh_settings_wrong, "ssh_settings_wrong", "correct the settings of ssh (man ssh_config)"},
    Row{program_missing, "program_missing", "install it there, at the same path as on the other hosts"},
    Row{program_not_executable, "program_not_executable",
        "chmod +x it, and check that its file system is not mounted noexec and that it was built for that processor"},
    Row{library_missing, "library_missing",
        "install that library there, or set LD_LIBRARY_PATH; ldd lists what is missing"},
    Row{library_too_old, "library_too_old", "build on the oldest of the hosts, or use the container"},
    Row{folder_missing, "folder_missing", "start from a folder that all hosts have"},
    Row{options_wrong, "options_wrong", "correct the options in SHAKEDOWN_LAUNCH"},
    Row{partition_wrong, "partition_wrong", "choose a partition that is up (sinfo lists them)"},
    Row{account_refused, "account_refused",
        "choose an account, a QOS and a time limit that you may use (sacctmgr show assoc user=$USER)"},
    Row{request_too_large, "request_too_large",
        "request only resources of the job or the partition (scontrol show job, scontrol show node)"},
    Row{resources_busy, "resources_busy", "start inside of an allocation (salloc), or raise --startup-timeout=S", true},
    Row{node_unavailable, "node_unavailable", "scontrol show node says why it is down; leave it out, or repair it",
        true},
    Row{node_daemon_dead, "node_daemon_dead", "look at slurmd on that node (systemctl status slurmd)", true},
    Row{node_name_wrong, "node_name_wrong", "correct the name (sinfo -N lists the nodes)"},
    Row{controller_unreachable, "controller_unreachable",
        "check slurmctld (scontrol ping), and slurm.conf of this host", true},
    Row{slurm_login_refused, "slurm_login_refused",
        "check that munged runs here, and that its key and the clock are those of the controller"},
    Row{slurm_job_ended, "slurm_job_ended", "start in a job that runs, or unset SLURM_JOB_ID"},
    Row{mpi_plugin_missing, "mpi_plugin_missing", "choose one that srun --mpi=list names"},
    Row{too_few_slots, "too_few_slots",
        "name the slots (host file: NAME slots=8; --host NAME:8), or add --oversubscribe"},
    Row{host_not_allocated, "host_not_allocated", "name only hosts of the job, or leave the list of hosts out"},
    Row{host_file_missing, "host_file_missing", "correct the path of the host file"},
    Row{ssh_missing, "ssh_missing", "install ssh, or name it with --mca plm_rsh_agent"},
    Row{root_refused, "root_refused",
        "set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or be another user"},
    Row{interface_wrong, "interface_wrong", "name an interface that each host has (--interface=NAME; ip -br addr)"},
    Row{daemon_cannot_call_back, "daemon_cannot_call_back",
        "let the hosts open TCP connections to this one (firewall), or name the interface (--interface=NAME)"},
    Row{daemon_lost, "daemon_lost", "ping the host: it is down, or its network is", true},
    Row{daemon_not_started, "daemon_not_started",
        "try ssh to the host by hand: it must start orted without a question"},
};

}  // namespace start_faults

const start_faults::Row& words_of(StartFault fault) {
  const auto& words = start_faults::words;
  return *std::find_if(words.begin(), words.end(), [&](const auto& row) { return row.fault == fault; });
}

bool is_of_host(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-._:[]").find(c) != std::string_view::npos;
}

/// True if a text begins with a pattern. Stores the words that {host} and {what} match.
bool begins_with(std::string_view text, std::string_view pattern, StartMatch& match) {
  if (pattern.empty()) return true;
  if (pattern.front() == '*') {
    for (std::size_t skipped = 0; skipped <= text.size(); ++skipped) {
      if (begins_with(text.substr(skipped), pattern.substr(1), match)) return true;
    }
    return false;
  }
  if (pattern.front() != '{') {
    return !text.empty() && text.front() == pattern.front() && begins_with(text.substr(1), pattern.substr(1), match);
  }
  const auto end = pattern.find('}');
  const bool is_host = pattern.substr(1, end - 1) == "host";
  const auto is_in_word = [&](char c) { return is_host ? is_of_host(c) : c != ' '; };
  const auto word_end = std::find_if_not(text.begin(), text.end(), is_in_word);
  for (auto size = static_cast<std::size_t>(word_end - text.begin()); size > 0; --size) {
    if (!begins_with(text.substr(size), pattern.substr(end + 1), match)) continue;
    (is_host ? match.host : match.what) = std::string(text.substr(0, size));
    return true;
  }
  return false;
}

}  // namespace

std::span<const StartTable> start_tables() { return start_faults::tables; }

std::optional<StartMatch> start_match(std::string_view line) {
  for (const auto& table : start_faults::tables) {
    for (const auto& row : table.rows) {
      StartMatch match{&row, {}, {}};
      if (begins_with(line, row.pattern, match)) return match;
    }
  }
  return std::nullopt;
}

std::string_view code(StartFault fault) { return words_of(fault).code; }
std::string_view action(StartFault fault) { return words_of(fault).action; }
bool may_pass(StartFault fault) { return words_of(fault).may_pass; }

}  // namespace shakedown
