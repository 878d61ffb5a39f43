#include "launch/mpirun_prefix.hpp"

#include <algorithm>
#include <string_view>

#include "launch/words.hpp"

namespace shakedown {
namespace {

// Options that take no value: those that `mpirun --help general` and its other topics list (Open MPI 4.1.4), and the
// one-letter options of its manual page. All other options take one value, except `mca`, which takes two.
constexpr std::string_view options_without_value =
    " allow-run-as-root bind-to-core bind-to-socket bycore bynode byslot bysocket continuous d debug "
    "debug-daemons debug-daemons-file disable-recovery display-allocation display-devel-allocation "
    "display-devel-map display-diffable-map display-map display-topo do-not-launch do-not-resolve dvm "
    "enable-instant-on-support enable-recovery fwd-mpirun-port get-stack-traces h index-argv-by-rank "
    "leave-session-attached merge-stderr-to-stdout nolocal nooversubscribe noprefix novm nw oversubscribe "
    "output-proctable pernode q quiet report-bindings report-child-jobs-separately report-state-on-timeout s "
    "set-cwd-to-session-dir show-progress tag-output timestamp-output tv use-hwthread-cpus use-regexp V v "
    "verbose version wait-for-server xml ";

std::string name_of(const std::string& option) {
  const auto begin = option.find_first_not_of('-');
  return begin == std::string::npos ? "" : option.substr(begin);
}

bool has_value(const std::string& name) { return options_without_value.find(" " + name + " ") == std::string::npos; }

bool is_option(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string file_name(const Words& command) {
  return command.empty() ? "" : command.front().substr(command.front().rfind('/') + 1);
}

}  // namespace

bool is_mpirun(const Words& command) { return is_option(file_name(command), {"mpirun", "orterun"}); }

std::optional<MpirunPrefix> mpirun_prefix(const Words& prefix) {
  if (!is_mpirun(prefix) && file_name(prefix) != "mpiexec") return std::nullopt;
  MpirunPrefix found;
  for (auto word = prefix.begin() + 1; word != prefix.end();) {
    if (word->front() != '-') {
      found.wrapper.assign(word, prefix.end());
      break;
    }
    const auto name = name_of(*word);
    const auto values = !has_value(name) ? 0 : is_option(name, {"mca", "gmca"}) ? 2 : 1;
    const auto count = std::min<std::ptrdiff_t>(values + 1, prefix.end() - word);
    const auto value = count == 2 ? *(word + 1) : "";
    if (is_option(name, {"H", "host"})) {
      found.hosts = value;
    } else if (is_option(name, {"hostfile", "machinefile"})) {
      found.host_file = value;
    } else if (is_option(name, {"np", "n", "c"})) {
      found.ranks = value;
    } else {
      auto& words = is_option(name, {"map-by", "N", "npernode", "ppr"}) ? found.shape : found.others;
      words.insert(words.end(), word, word + count);
    }
    word += count;
  }
  return found;
}

}  // namespace shakedown
