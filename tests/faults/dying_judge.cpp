// For LD_PRELOAD: a judge that dies. The child in which shakedown and acceptance_test judge gets a signal as it begins,
// and the next child, which reads the raw rows, does not. The guard, which starts ranks, and benchmark programs are
// left alone.
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

namespace {

bool judges() {
  const std::string program = program_invocation_short_name;
  std::ifstream command_line("/proc/self/cmdline");
  std::string word;
  std::getline(command_line, word, '\0');
  std::getline(command_line, word, '\0');
  return (program == "shakedown" && word != "guard") || program == "acceptance_test";
}

}  // namespace

extern "C" pid_t fork() noexcept {
  static auto* const real = reinterpret_cast<pid_t (*)()>(dlsym(RTLD_NEXT, "fork"));
  static int calls = 0;
  const bool is_first_of_two = calls++ % 2 == 0;
  const pid_t pid = real();
  if (pid == 0 && is_first_of_two && judges()) raise(SIGSEGV);
  return pid;
}
