// Parses host lists as schedulers write them (node-a[1-3,07],login), and host files as MPI reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shakedown {

/// True if the text has only letters, digits, '.', '-' and '_', and does not begin with '-' (RFC 1123 plus the
/// underscore). Such a name has no special meaning to a shell.
bool is_host_name(std::string_view);

/// True if two names refer to the same host. "node7" is the same as "node7.cluster.local", because schedulers write
/// short names, and hosts report either form. Ignores case (RFC 4343).
bool same_host(std::string_view a, std::string_view b);

/// Returns the host for use in a suggested command. If it is not a valid host name, returns "HOST".
std::string host_in_command(const std::string& host);

/// Returns every host of a list in order: "node-a[08-10],login" gives node-a08, node-a09, node-a10 and login. A name
/// can have any number of brackets at any position, and blanks around it. Errors: InputError, which begins with
/// `where`, for an unclosed or empty bracket, a descending range, or more than 100,000 hosts.
std::vector<std::string> expand_hosts(std::string_view list, std::string_view where = "");

/// A host that a list or a file names.
struct ListedHost {
  std::string name;
  std::optional<int> slots;  // number of ranks on this host; nullopt if the list does not give it
  std::string where;         // prefix of error messages: "FILE:LINE:1: "
};

/// Returns the hosts of a list like expand_hosts. A name or range can end with a number of slots: "a:2,node[1-3]:8".
/// ":*" lets MPI choose the number. Errors: those of expand_hosts, and InputError for a slot count that is not a
/// number.
std::vector<ListedHost> listed_hosts(std::string_view list, const std::string& where);

/// Returns the hosts of a host file in order. A host that is named several times is returned each time. Lines are
/// "host", "host 8", "host slots=8" or "host:8", where host can be a list. # starts a comment. Other MPI settings
/// (max_slots=8) and the queue of a Grid Engine file are ignored. Errors: InputError "FILE:LINE:1: what is wrong; what
/// to write".
std::vector<ListedHost> hosts_of_file(std::string_view text, const std::string& file);

/// Returns the hosts in sorted and compressed form: "node-a[08-10],login". Names that differ only in their last number
/// become ranges.
std::string host_ranges(std::vector<std::string> hosts);

}  // namespace shakedown
