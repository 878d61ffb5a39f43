// For LD_PRELOAD: kills the judge. shakedown and acceptance_test judge in a child process with its own name, which gets
// a signal as soon as it takes that name. The child that reads the raw rows has another name and survives.
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
