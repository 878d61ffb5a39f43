#include "kernels/cuda/nccl_listener.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/host_name.hpp"
#include "kernels/cuda/facts.hpp"

namespace shakedown::cuda {

namespace {

constexpr auto level = "NCCL_DEBUG", subsystems = "NCCL_DEBUG_SUBSYS", file_name = "NCCL_DEBUG_FILE";

/// Expands NCCL's placeholders: %h is the host name up to its first dot, %p the process id.
std::string expanded(const std::string& pattern) {
  const std::string name = system_host_name();
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') path += name.substr(0, name.find('.'));
    if (next == 'p') path += std::to_string(getpid());
    if (next == '%') path += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

/// Sets an environment variable for the lifetime of the object. The old value is restored because later families record
/// the user's setting. NCCL reads the variable only once. The variable cannot be set safely later, when NCCL's threads
/// may read the environment.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const now = std::getenv(name)) before_ = now;
    setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// Creates a temporary file. Returns its name, or an empty string if it cannot be created.
std::string temporary_file() {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  if (error) return "";
  std::string name = (folder / "shakedown-nccl-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return "";
  close(descriptor);
  return name;
}

}  // namespace

NcclListener::NcclListener() {
  const auto wanted = nccl_setting(level).value_or("");
  own_ = wanted.empty() || wanted == "VERSION";
  if (own_) {
    file_ = temporary_file();
  } else if (wanted == "INFO" || wanted == "TRACE") {
    file_ = expanded(nccl_setting(file_name).value_or(""));
  }
}

NcclListener::~NcclListener() {
  if (own_) unlink(file_.c_str());
}

NcclLog NcclListener::during(const std::function<void()>& step) {
  {
    std::optional<Variable> how_much, of_what, into;
    if (own_ && !file_.empty() && !std::exchange(asked_, true)) {
      how_much.emplace(level, "INFO");
      of_what.emplace(subsystems, "INIT,P2P,SHM,NET");
      into.emplace(file_name, file_.c_str());
    }
    step();
  }
  if (file_.empty()) return {};
  std::ifstream in(file_);
  in.seekg(read_to_);
  auto log = read_nccl_log(in);
  in.clear();
  in.seekg(0, std::ios::end);
  read_to_ = static_cast<long>(in.tellg());
  return log;
}

}  // namespace shakedown::cuda
