// Makes calls of the system and of memory allocation fail on request. For LD_PRELOAD:
//
//   FAIL_IN=front|supervisor|mpirun|bench   the kind of process, by its name
//   FAIL_CALL=open                     a row of the table below
//   FAIL_AT=3 [FAIL_STICKY=1]          fails the third call of that kind after the start of main, or all from then on
//   FAIL_ERROR=5|short|hang            errno; for write also "short": writes a half; hang: the call never returns
//   FAIL_TRACE=FILE                    writes the backtrace of a call that hangs
//   FAIL_RECORD=FILE                   writes the numbers of calls and of failed calls, as two binary numbers
//
// Calls inside libc are invisible here: those of stdio are counted at fopen, fread and fflush.
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

struct Record {
  std::atomic<unsigned> calls, failed;
};

/// The fault for this process. Zero at the start of a process: no call fails.
struct Plan {
  char call[16];
  unsigned at;
  int error;
  bool sticky, is_short, armed;
  bool hangs;
  pid_t keeper;  // excluded: its descriptors are signals and pipes, which cannot hang
  std::atomic<unsigned> calls;
  Record* record;
};
Plan plan;

template <class Function>
Function* real(const char* name, Function* /*of this type*/) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Hangs as in the kernel: no signal except SIGKILL ends the process.
[[noreturn]] void hang() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::array<void*, 40> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  const int file = *variable("FAIL_TRACE") == '\0'
                       ? -1
                       : real("open", &open)(variable("FAIL_TRACE"), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file >= 0) backtrace_symbols_fd(frames.data(), count, file);
  for (;;) pause();
}

/// True for files and folders. Calls on pipes and sockets are excluded: they have time limits, or wait for a slow
/// reader.
bool can_hang(int descriptor) {
  struct stat facts {};
  return fstat(descriptor, &facts) == 0 && (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode));
}

/// True if this call must fail; then sets errno.
bool fails(const char* call) {
  if (!plan.armed || std::strcmp(plan.call, call) != 0) return false;
  if (plan.hangs && plan.keeper == getpid()) return false;
  const unsigned number = ++plan.calls;
  if (plan.record != nullptr) ++plan.record->calls;
  if (plan.at == 0 || (plan.sticky ? number < plan.at : number != plan.at)) return false;
  if (plan.record != nullptr) ++plan.record->failed;
  if (plan.hangs) hang();
  errno = plan.error;
  return true;
}

bool skips(int descriptor) { return plan.hangs && !can_hang(descriptor); }

bool is_role(const char* role, int argc, char** argv) {
  const char* const slash = std::strrchr(argv[0], '/');
  const char* const name = slash == nullptr ? argv[0] : slash + 1;
  const bool front = std::strcmp(name, "shakedown") == 0,
             supervisor = front && argc > 1 && std::strcmp(argv[1], "supervisor") == 0;
  if (std::strcmp(role, "front") == 0) return (front && !supervisor) || std::strcmp(name, "acceptance_test") == 0;
  if (std::strcmp(role, "supervisor") == 0) return supervisor;
  if (std::strcmp(role, "bench") == 0) return std::strncmp(name, "bench_", 6) == 0;
  return std::strcmp(role, name) == 0;
}

Record* shared_record(const char* file) {
  const int descriptor = real("open", &open)(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0 || ftruncate(descriptor, sizeof(Record)) != 0) return nullptr;
  void* const begin = real("mmap", &mmap)(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  return begin == MAP_FAILED ? nullptr : static_cast<Record*>(begin);
}

void arm(int argc, char** argv) {
  if (!is_role(variable("FAIL_IN"), argc, argv)) return;
  std::strncpy(plan.call, variable("FAIL_CALL"), sizeof plan.call - 1);
  plan.at = static_cast<unsigned>(std::atoi(variable("FAIL_AT")));
  plan.sticky = *variable("FAIL_STICKY") != '\0';
  plan.is_short = std::strcmp(variable("FAIL_ERROR"), "short") == 0;
  plan.error = plan.is_short ? ENOSPC : std::atoi(variable("FAIL_ERROR"));
  plan.hangs = std::strcmp(variable("FAIL_ERROR"), "hang") == 0;
  plan.keeper = std::strcmp(variable("FAIL_IN"), "front") == 0 ? getpid() : 0;
  if (*variable("FAIL_RECORD") != '\0') plan.record = shared_record(variable("FAIL_RECORD"));
  plan.armed = true;
}

using Main = int(int, char**, char**);
Main* real_main;

int armed_main(int argc, char** argv, char** environment) {
  arm(argc, argv);
  return real_main(argc, argv, environment);
}

/// Returns the mode argument of open and similar calls; 0 if there is none.
mode_t mode_of(int flags, va_list& arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

/// Writes half of the text if the fault is "short".
ssize_t cut(int descriptor, const void* text, std::size_t size) {
  static auto* const write_now = real("write", &write);
  return plan.is_short && size > 1 ? write_now(descriptor, text, size / 2) : -1;
}

/// Sets the error flag of a stdio stream.
void mark_failed(std::FILE* stream) {
  constexpr int error_seen = 0x20;  // _IO_ERR_SEEN of glibc
  stream->_flags |= error_seen;
}

}  // namespace

// NOLINTBEGIN(cert-dcl50-cpp)
extern "C" {

int __libc_start_main(Main* main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(),
                      void* stack_end) {
  real_main = main;
  return real("__libc_start_main", &__libc_start_main)(armed_main, argc, argv, init, fini, rtld_fini, stack_end);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = mode_of(flags, arguments);
  va_end(arguments);
  static auto* const next = real("open", &open);
  return fails("open") ? -1 : next(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = mode_of(flags, arguments);
  va_end(arguments);
  static auto* const next = real("open64", &open64);
  return fails("open") ? -1 : next(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = mode_of(flags, arguments);
  va_end(arguments);
  static auto* const next = real("openat", &openat);
  return fails("open") ? -1 : next(folder, path, flags, mode);
}
std::FILE* fopen(const char* path, const char* mode) {
  static auto* const next = real("fopen", &fopen);
  return fails("open") ? nullptr : next(path, mode);
}
std::FILE* fopen64(const char* path, const char* mode) {
  static auto* const next = real("fopen64", &fopen64);
  return fails("open") ? nullptr : next(path, mode);
}
DIR* opendir(const char* path) {
  static auto* const next = real("opendir", &opendir);
  return fails("open") ? nullptr : next(path);
}

ssize_t read(int descriptor, void* text, std::size_t size) {
  static auto* const next = real("read", &read);
  return !skips(descriptor) && fails("read") ? -1 : next(descriptor, text, size);
}
std::size_t fread(void* text, std::size_t size, std::size_t count, std::FILE* stream) {
  static auto* const next = real("fread", &fread);
  if (!fails("read")) return next(text, size, count, stream);
  mark_failed(stream);
  return 0;
}
struct dirent* readdir(DIR* folder) {
  static auto* const next = real("readdir", &readdir);
  return fails("read") ? nullptr : next(folder);
}

ssize_t write(int descriptor, const void* text, std::size_t size) {
  static auto* const next = real("write", &write);
  return !skips(descriptor) && fails("write") ? cut(descriptor, text, size) : next(descriptor, text, size);
}
ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  static auto* const next = real("writev", &writev);
  return !skips(descriptor) && fails("write") ? cut(descriptor, parts->iov_base, parts->iov_len)
                                              : next(descriptor, parts, count);
}
int fflush(std::FILE* stream) {
  static auto* const next = real("fflush", &fflush);
  if (stream == nullptr || stream == stderr || skips(fileno(stream)) || !fails("write")) return next(stream);
  mark_failed(stream);
  return EOF;
}
int fsync(int descriptor) {
  static auto* const next = real("fsync", &fsync);
  return fails("fsync") ? -1 : next(descriptor);
}
int rename(const char* from, const char* to) noexcept {
  static auto* const next = real("rename", &rename);
  return fails("rename") ? -1 : next(from, to);
}
int link(const char* from, const char* to) noexcept {
  static auto* const next = real("link", &link);
  return fails("rename") ? -1 : next(from, to);
}
int symlink(const char* from, const char* to) noexcept {
  static auto* const next = real("symlink", &symlink);
  return fails("rename") ? -1 : next(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const next = real("mkdir", &mkdir);
  return fails("mkdir") ? -1 : next(path, mode);
}
int stat(const char* path, struct stat* facts) noexcept {
  static auto* const next = real("stat", static_cast<int (*)(const char*, struct stat*) noexcept>(&stat));
  return fails("stat") ? -1 : next(path, facts);
}
int lstat(const char* path, struct stat* facts) noexcept {
  static auto* const next = real("lstat", static_cast<int (*)(const char*, struct stat*) noexcept>(&lstat));
  return fails("stat") ? -1 : next(path, facts);
}

void* mmap(void* begin, std::size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  static auto* const next = real("mmap", &mmap);
  return fails("mmap") ? MAP_FAILED : next(begin, size, protection, flags, descriptor, offset);
}
void* malloc(std::size_t size) noexcept { return fails("malloc") ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) noexcept {
  return fails("malloc") ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept { return fails("malloc") ? nullptr : __libc_realloc(old, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return fails("malloc") ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t size) noexcept {
  if (fails("malloc")) return ENOMEM;
  *result = __libc_memalign(alignment, size);
  return *result == nullptr ? ENOMEM : 0;
}

pid_t fork() noexcept {
  static auto* const next = real("fork", &fork);
  return fails("fork") ? -1 : next();
}
int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* files,
                const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) noexcept {
  static auto* const next = real("posix_spawn", &posix_spawn);
  return fails("fork") ? errno : next(child, path, files, attributes, arguments, environment);
}
int posix_spawnp(pid_t* child, const char* path, const posix_spawn_file_actions_t* files,
                 const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) noexcept {
  static auto* const next = real("posix_spawnp", &posix_spawnp);
  return fails("fork") ? errno : next(child, path, files, attributes, arguments, environment);
}
int execve(const char* path, char* const* arguments, char* const* environment) noexcept {
  static auto* const next = real("execve", &execve);
  return fails("exec") ? -1 : next(path, arguments, environment);
}
int execvp(const char* path, char* const* arguments) noexcept {
  static auto* const next = real("execvp", &execvp);
  return fails("exec") ? -1 : next(path, arguments);
}
pid_t waitpid(pid_t child, int* status, int options) {
  static auto* const next = real("waitpid", &waitpid);
  return fails("waitpid") ? -1 : next(child, status, options);
}

int poll(struct pollfd* files, nfds_t count, int limit) {
  static auto* const next = real("poll", &poll);
  return fails("poll") ? -1 : next(files, count, limit);
}
int signalfd(int descriptor, const sigset_t* signals, int flags) noexcept {
  static auto* const next = real("signalfd", &signalfd);
  return fails("signalfd") ? -1 : next(descriptor, signals, flags);
}
ssize_t send(int socket, const void* text, std::size_t size, int flags) {
  static auto* const next = real("send", &send);
  return fails("send") ? -1 : next(socket, text, size, flags);
}
ssize_t recv(int socket, void* text, std::size_t size, int flags) {
  static auto* const next = real("recv", &recv);
  return fails("recv") ? -1 : next(socket, text, size, flags);
}
int pipe2(int* ends, int flags) noexcept {
  static auto* const next = real("pipe2", &pipe2);
  return fails("pipe") ? -1 : next(ends, flags);
}
int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  static auto* const next = real("socketpair", &socketpair);
  return fails("pipe") ? -1 : next(domain, type, protocol, ends);
}

}  // extern "C"
// NOLINTEND(cert-dcl50-cpp)
