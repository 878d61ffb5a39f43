// Calls that may hang: a driver, a disk, a network file system, a name service. A call has a name while it runs, so
// that a watching process can report which call did not return.
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

/// The kind of a call. A `phase` is a part of the program's work. A phase has no time limit, and messages use it to say
/// where a call was made.
enum class CallKind : std::uint8_t { phase, file, driver, name_service };

/// Returns the time limit of a call; nullopt for a phase.
std::optional<Seconds> limit_of(CallKind);

/// Registers a call of this thread during the lifetime of the object. Costs about 100 ns.
class TimedCall {
 public:
  TimedCall(CallKind, std::string_view what) noexcept;
  /// Registers a call on a file, such as "open" on "/sys/class/net".
  TimedCall(const char* call, const std::filesystem::path&) noexcept;
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;
  ~TimedCall();

 private:
  const void* board_ = nullptr;  // the board that was in use when the object was constructed
  int slot_ = -1;
};

/// Records progress of this process although no call begins or ends.
void note_progress() noexcept;

/// A call that has begun and has not ended.
struct PendingCall {
  CallKind kind = CallKind::file;
  std::string what;   // "nvmlInit_v2", "open /sys/class/net"
  std::string phase;  // the phase to which it belongs; may be empty
};

/// Returns "the driver of node3 does not answer: nvmlInit_v2, 30 s (asking the hosts)" or "node3: open /results/run
/// does not answer, 20 s".
std::string unanswered(const PendingCall&, const std::string& host);

/// The pending calls of a process. The records of these calls are in memory that child processes share.
class CallBoard {
 public:
  using Clock = std::chrono::steady_clock;

  /// Makes a board. Errors: std::system_error if there is no memory.
  CallBoard();

  /// Makes this process register its calls on this board.
  void use() const noexcept;
  /// Makes this process register its calls on its own board again, as when it started.
  static void use_own() noexcept;
  /// Returns the call that exceeds its limit; if there are several, the one that began last. The time before `since`
  /// does not count. nullopt if no call exceeds its limit.
  std::optional<PendingCall> overdue(Clock::time_point since) const;
  /// Returns the pending call that began last. If there is none, returns the latest phase; nullopt if there is neither.
  std::optional<PendingCall> latest() const;
  /// Returns a counter that changes with each call and each note_progress().
  std::uint64_t progress() const noexcept;
  /// Sends SIGTERM to the supervisors of jobs. Supervisors normally end with the process that started them, but that
  /// process may be impossible to end.
  void end_supervisors() const noexcept;

 private:
  struct Memory;
  friend class TimedCall;
  friend class SupervisorEntry;
  friend void note_progress() noexcept;
  static Memory& of_this_process() noexcept;

  std::shared_ptr<Memory> memory_;
};

/// Registers a supervisor on the board during the lifetime of the object.
class SupervisorEntry {
 public:
  explicit SupervisorEntry(pid_t) noexcept;
  SupervisorEntry(const SupervisorEntry&) = delete;
  SupervisorEntry& operator=(const SupervisorEntry&) = delete;
  ~SupervisorEntry();

 private:
  int slot_ = -1;
};

/// Finds calls that exceed their limit. If this process was stopped, that time does not count, because the watched
/// processes were stopped too.
class HungCalls {
 public:
  explicit HungCalls(const CallBoard& board) : board_(board) {}
  /// Returns a call that exceeds its limit; nullopt if no call does. Call this several times per second.
  std::optional<PendingCall> find();

 private:
  const CallBoard& board_;
  CallBoard::Clock::time_point last_look_ = CallBoard::Clock::now(), since_{};
};

}  // namespace shakedown
