// Messages of ssh, srun and mpirun about ranks that cannot be started, with the user's next action. Each program has a
// table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shakedown {

enum class StartFault {
  login_refused,
  key_file_refused,
  host_key_unknown,
  host_key_changed,
  host_name_unknown,
  connection_refused,
  host_unreachable,
  host_timed_out,
  connection_closed,
  no_common_algorithm,
  ssh_settings_wrong,
  program_missing,
  program_not_executable,
  library_missing,
  library_too_old,
  folder_missing,
  options_wrong,
  partition_wrong,
  account_refused,
  request_too_large,
  resources_busy,
  node_unavailable,
  node_daemon_dead,
  node_name_wrong,
  controller_unreachable,
  slurm_login_refused,
  slurm_job_ended,
  mpi_plugin_missing,
  too_few_slots,
  host_not_allocated,
  host_file_missing,
  ssh_missing,
  root_refused,
  interface_wrong,
  daemon_cannot_call_back,
  daemon_lost,
  daemon_not_started,  // mpirun prints the same sentence for several faults; another line has the reason
};

/// A sentence of another program. '*' matches any text, {host} the name of a host, {what} a word. The pattern must
/// match from the start of a line unless it begins with '*', and any text may follow.
struct StartRow {
  std::string_view pattern;
  StartFault fault;
};

/// All sentences of one program.
struct StartTable {
  std::string_view program;
  std::span<const StartRow> rows;
};

/// Returns the tables of all programs, in the order in which start_match() reads them.
std::span<const StartTable> start_tables();

/// The row that matches a line, and the words of the line for {host} and {what}.
struct StartMatch {
  const StartRow* row = nullptr;
  std::string host, what;
};

/// Returns the first row that matches a line; nullopt if no row does.
std::optional<StartMatch> start_match(std::string_view line);

/// Returns the name of a fault: "login_refused".
std::string_view code(StartFault);

/// Returns what the user must do: "chmod 600 that file".
std::string_view action(StartFault);

/// True if another start may succeed although nothing was changed.
bool may_pass(StartFault);

}  // namespace shakedown
