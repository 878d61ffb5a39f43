// Messages of ssh, srun and mpirun when they cannot start ranks, one table for each program, with the actions.
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
  daemon_not_started,  // mpirun's sentence for all of these; another line has the reason
};

/// A sentence of another program. '*' is any text, {host} a name of a host, {what} a word. The pattern must match from the start of a line unless it
/// begins with '*', and more text may follow.
struct StartRow {
  std::string_view pattern;
  StartFault fault;
};

struct StartTable {
  std::string_view program;
  std::span<const StartRow> rows;
};

std::span<const StartTable> start_tables();

/// A row, and the words of a line for its {host} and {what}.
struct StartMatch {
  const StartRow* row = nullptr;
  std::string host, what;
};

/// Returns the first matching row for a line; nullopt if there is none.
std::optional<StartMatch> start_match(std::string_view line);

/// Returns the name of a fault: "login_refused".
std::string_view code(StartFault);

/// Returns the action for the user: "chmod 600 that file".
std::string_view action(StartFault);

/// True if a second try may succeed without a change.
bool may_pass(StartFault);

}  // namespace shakedown
