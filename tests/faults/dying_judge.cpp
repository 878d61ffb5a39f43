// For LD_PRELOAD: a judge that dies. The child process in which shakedown and acceptance_test judge has a name, and
// gets a signal as it takes it; the one that reads the raw rows has another name, and does not.
#include <dlfcn.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdarg>
#include <cstring>

extern "C" int prctl(int option, ...) {
  static auto* const real = reinterpret_cast<int (*)(int, ...)>(dlsym(RTLD_NEXT, "prctl"));
  va_list arguments;
  va_start(arguments, option);
  const auto value = va_arg(arguments, unsigned long);
  va_end(arguments);
  const int code = real(option, value, 0UL, 0UL, 0UL);
  if (option == PR_SET_NAME && std::strcmp(reinterpret_cast<const char*>(value), "sd-judge") == 0) raise(SIGSEGV);
  return code;
}
