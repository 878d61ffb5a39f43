// Lists of hosts as schedulers write them, node-a[1-3,07],login, and files of hosts as MPI reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// Letters, digits, '.', '-' and '_', and no '-' in front (RFC 1123 and the underscore): nothing that a shell
/// understands.
bool is_host_name(std::string_view);

/// Returns whether two names are those of one host: "node7" is "node7.cluster.local", since schedulers write short
/// names and hosts answer with either. Case does not matter (RFC 4343).
bool same_host(std::string_view a, std::string_view b);

/// As it stands in a command that somebody may run: HOST for one that is no host name.
std::string host_in_command(const std::string& host);

/// Every host of a list, in its order: "node-a[08-10],login" is node-a08, node-a09, node-a10 and login. A bracket may
/// stand anywhere and more than once. Errors: InputError for an unclosed or empty bracket, a range that runs backwards,
/// or more than 100,000 hosts; it begins with `where`.
std::vector<std::string> expand_hosts(std::string_view list, std::string_view where = "");

/// A host that a list or a file names.
struct ListedHost {
  std::string name;
  std::optional<int> slots;  // ranks on it; nullopt if not given
  std::string where;         // "FILE:LINE:1: ", the beginning of errors about it
};

/// Returns the hosts of a list like expand_hosts; a name or range may end in its number of slots: "a:2,node[1-3]:8".
/// ":*" leaves the number to MPI. Errors: those of expand_hosts, and InputError for slots that are not a number.
std::vector<ListedHost> listed_hosts(std::string_view list, const std::string& where);

/// Returns the hosts of a host file in its order, one for each time that it is named. Lines are "host", "host 8",
/// "host slots=8" or "host:8", where host is a list; # begins a comment. Other settings of MPI (max_slots=8) and the
/// queue in a file of Grid Engine are ignored. Errors: InputError "FILE:LINE:1: what is wrong; what to write".
std::vector<ListedHost> hosts_of_file(std::string_view text, const std::string& file);

/// The same hosts, sorted, the last number of names that are alike in all else as ranges: "node-a[08-10],login".
std::string host_ranges(std::vector<std::string> hosts);

}  // namespace shakedown
