// Calls that may never return: a driver, a disk, a network file system, a name service. Each has a name while it runs,
// so that a process that keeps time can say which one did not answer.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/time_limits.hpp"

namespace shakedown {

/// `phase`: a part of the program's work. It has no limit, and says where a call was made.
enum class CallKind : std::uint8_t { phase, file, driver, name_service };

/// The limit of a call; nullopt for a phase.
std::optional<Seconds> limit_of(CallKind);

/// Names a call of this thread while it lives. Takes some 100 ns.
class TimedCall {
 public:
  TimedCall(CallKind, std::string_view what) noexcept;
  /// A call on a file: "open", "/sys/class/net".
  TimedCall(const char* call, const std::filesystem::path&) noexcept;
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;
  ~TimedCall();

 private:
  const void* board_ = nullptr;  // one in use at the time
  int slot_ = -1;
};

/// Tells that this process works, though no call begins or ends.
void note_progress() noexcept;

/// A call that has begun and not ended.
struct PendingCall {
  CallKind kind = CallKind::file;
  std::string what;   // "nvmlInit_v2", "open /sys/class/net"
  std::string phase;  // that it is part of; may be empty
};

/// "the driver of node3 does not answer: nvmlInit_v2, 30 s (asking the hosts)", "node3: open /results/run does not
/// answer, 20 s".
std::string unanswered(const PendingCall&, const std::string& host);

/// The calls of a process, in memory that is shared with its children.
class CallBoard {
 public:
  using Clock = std::chrono::steady_clock;

  /// Errors: std::system_error if there is no memory.
  CallBoard();

  /// From now on the calls of this process are shown here.
  void use() const noexcept;
  /// From now on on a board of its own, as at its start.
  static void use_own() noexcept;
  /// Of the calls that are beyond their limit, the one that began last: the innermost. Calls count from `since` on.
  std::optional<PendingCall> overdue(Clock::time_point since) const;
  /// The call that began last, else the phase; nullopt if there is none.
  std::optional<PendingCall> latest() const;
  /// Changes with each call and note_progress().
  std::uint64_t progress() const noexcept;
  /// Supervisors of jobs. They end with the process that started them; by SIGTERM where that cannot be ended.
  void end_supervisors() const noexcept;

 private:
  struct Memory;
  friend class TimedCall;
  friend class SupervisorEntry;
  friend void note_progress() noexcept;
  static Memory& of_this_process() noexcept;

  std::shared_ptr<Memory> memory_;
};

/// Names a supervisor on the board while it lives.
class SupervisorEntry {
 public:
  explicit SupervisorEntry(pid_t) noexcept;
  SupervisorEntry(const SupervisorEntry&) = delete;
  SupervisorEntry& operator=(const SupervisorEntry&) = delete;
  ~SupervisorEntry();

 private:
  int slot_ = -1;
};

/// Looks for calls beyond their limit. The time in which this process was stopped, and those that it watches with it,
/// does not count.
class HungCalls {
 public:
  explicit HungCalls(const CallBoard& board) : board_(board) {}
  /// To be asked several times a second.
  std::optional<PendingCall> find();

 private:
  const CallBoard& board_;
  CallBoard::Clock::time_point last_look_ = CallBoard::Clock::now(), since_{};
};

}  // namespace shakedown
