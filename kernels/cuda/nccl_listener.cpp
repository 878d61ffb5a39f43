#include "kernels/cuda/nccl_listener.hpp"

#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "kernels/cuda/facts.hpp"

namespace shakedown::cuda {

namespace {

constexpr auto level = "NCCL_DEBUG", subsystems = "NCCL_DEBUG_SUBSYS", file_name = "NCCL_DEBUG_FILE";
constexpr auto connections = "INIT,P2P,SHM,NET";
constexpr auto connections_and_choices = "INIT,P2P,SHM,NET,TUNING";

/// Makes NCCL read the three variables again. Deprecated, so that it is looked for at run time; tried with 2.28.3.
/// Later versions read them through a table of their own.
using Reset = void();
Reset* reset_function() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess || version >= 22900) return nullptr;
  return reinterpret_cast<Reset*>(dlsym(RTLD_DEFAULT, "ncclResetDebugInit"));
}

/// NCCL's own placeholders: %h is the host's name up to its first dot, %p the process.
std::string expanded(const std::string& pattern) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string name = host.data();
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

/// Empty if there is no place for it.
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
  if (!wanted.empty() && wanted != "VERSION") {
    const auto file = nccl_setting(file_name);
    if ((wanted != "INFO" && wanted != "TRACE") || !file) return;
    way_ = Way::of_user;
    file_ = expanded(*file);
    return;
  }
  file_ = temporary_file();
  if (file_.empty()) return;
  for (const auto* name : {level, subsystems, file_name}) before_.emplace_back(name, nccl_setting(name));
  way_ = reset_function() != nullptr ? Way::switched : Way::constant;
}

NcclListener::~NcclListener() {
  if (way_ == Way::switched || way_ == Way::constant) unlink(file_.c_str());
}

/// With a constant log the first call counts, and none has an effect later.
void NcclListener::switch_on() const {
  setenv(level, "INFO", 1);
  setenv(subsystems, way_ == Way::switched ? connections_and_choices : connections, 1);
  setenv(file_name, file_.c_str(), 1);
  if (way_ == Way::switched) reset_function()();
}

void NcclListener::switch_off() const {
  for (const auto& [name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  reset_function()();
}

NcclLog NcclListener::during(const std::function<void()>& step) {
  struct Switch {  // off again also when the step throws
    const NcclListener& listener;
    explicit Switch(const NcclListener& l) : listener(l) {
      if (listener.way_ == Way::switched || listener.way_ == Way::constant) listener.switch_on();
    }
    Switch(const Switch&) = delete;
    Switch& operator=(const Switch&) = delete;
    ~Switch() {
      if (listener.way_ == Way::switched) listener.switch_off();
    }
  };
  std::error_code no_file_nothing_heard;
  if (way_ == Way::switched) std::filesystem::resize_file(file_, 0, no_file_nothing_heard);
  {
    const Switch on(*this);
    step();
  }
  if (way_ == Way::none) return {};
  std::ifstream in(file_);
  if (way_ != Way::switched) in.seekg(read_to_);
  auto log = read_nccl_log(in);
  in.clear();
  in.seekg(0, std::ios::end);
  read_to_ = static_cast<long>(in.tellg());
  return log;
}

}  // namespace shakedown::cuda
