// Calls that may hang: a driver, a disk, a network file system, a name service. Each has a name while it runs, so that
// a watching process can report the call that did not return.
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

/// The kind of a call. A `phase` is a part of the program's work: it has no limit and tells where a call was made.
enum class CallKind : std::uint8_t { phase, file, driver, name_service };

/// Returns the limit of a call; nullopt for a phase.
std::optional<Seconds> limit_of(CallKind);

/// Registers a call of this thread for the lifetime of the object. Costs about 100 ns.
class TimedCall {
 public:
  TimedCall(CallKind, std::string_view what) noexcept;
  /// Registers a call on a file: "open", "/sys/class/net".
  TimedCall(const char* call, const std::filesystem::path&) noexcept;
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;
  ~TimedCall();

 private:
  const void* board_ = nullptr;  // the board in use at construction
  int slot_ = -1;
};

/// Reports that this process makes progress although no call begins or ends.
void note_progress() noexcept;

/// A call that has begun and not ended.
struct PendingCall {
  CallKind kind = CallKind::file;
  std::string what;   // "nvmlInit_v2", "open /sys/class/net"
  std::string phase;  // the phase that it is part of; may be empty
};

/// Returns "the driver of node3 does not answer: nvmlInit_v2, 30 s (asking the hosts)" or "node3: open /results/run
/// does not answer, 20 s".
std::string unanswered(const PendingCall&, const std::string& host);

/// The pending calls of a process, in memory shared with its children.
class CallBoard {
 public:
  using Clock = std::chrono::steady_clock;

  /// Errors: std::system_error if there is no memory.
  CallBoard();

  /// Registers the calls of this process here from now on.
  void use() const noexcept;
  /// Returns to the process's own board, as at its start.
  static void use_own() noexcept;
  /// Returns the innermost call that exceeds its limit: the one that began last. Times are measured from `since` at the
  /// earliest. nullopt if there is none.
  std::optional<PendingCall> overdue(Clock::time_point since) const;
  /// Returns the call that began last, else the latest phase; nullopt if there is none.
  std::optional<PendingCall> latest() const;
  /// Returns a counter that changes with each call and each note_progress().
  std::uint64_t progress() const noexcept;
  /// Sends SIGTERM to the supervisors of jobs. They normally end with the process that started them; this is for a
  /// process that cannot be ended.
  void end_supervisors() const noexcept;

 private:
  struct Memory;
  friend class TimedCall;
  friend class SupervisorEntry;
  friend void note_progress() noexcept;
  static Memory& of_this_process() noexcept;

  std::shared_ptr<Memory> memory_;
};

/// Registers a supervisor on the board for the lifetime of the object.
class SupervisorEntry {
 public:
  explicit SupervisorEntry(pid_t) noexcept;
  SupervisorEntry(const SupervisorEntry&) = delete;
  SupervisorEntry& operator=(const SupervisorEntry&) = delete;
  ~SupervisorEntry();

 private:
  int slot_ = -1;
};

/// Finds calls that exceed their limit. Time in which this process was stopped is not counted, because the processes
/// that it watches were stopped too.
class HungCalls {
 public:
  explicit HungCalls(const CallBoard& board) : board_(board) {}
  /// Returns a call that exceeds its limit; nullopt if there is none. Call this several times per second.
  std::optional<PendingCall> find();

 private:
  const CallBoard& board_;
  CallBoard::Clock::time_point last_look_ = CallBoard::Clock::now(), since_{};
};

}  // namespace shakedown
