#include "base/timed_call.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <system_error>

#include "base/shown_path.hpp"

namespace shakedown {
namespace {

using Clock = CallBoard::Clock;

/// Size of the name in a slot, in bytes. Longer names are cut off.
constexpr std::size_t name_length = 240;

struct Slot {
  std::atomic<pid_t> process{0};  // 0: the slot is free
  std::atomic<std::uint64_t> number{0};
  std::atomic<Clock::rep> began{0};
  std::atomic<CallKind> kind{CallKind::phase};
  // Atomic, because the watching process may read it during the next write.
  std::array<std::atomic<std::uint64_t>, name_length / 8> name{};

  void set_name(std::string_view what) noexcept {
    const auto length = std::min(what.size(), name_length - 1);
    std::array<std::uint64_t, name_length / 8> words;
    std::memset(&words[length / 8], 0, 8);
    std::memcpy(words.data(), what.data(), length);
    for (std::size_t i = 0; i <= length / 8; ++i) name[i].store(words[i], std::memory_order_release);
  }

  /// Returns the name of this call. nullopt if the call has ended in the meantime, because the data may then belong to
  /// another call.
  std::optional<std::string> name_of(std::uint64_t call) const {
    std::array<std::uint64_t, name_length / 8> words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = name[i].load(std::memory_order_acquire);
    if (process <= 0 || number != call) return std::nullopt;
    return reinterpret_cast<const char*>(words.data());
  }
};

/// A slot that a watching process has read, and the call that occupied it at that time.
struct Seen {
  const Slot* slot = nullptr;
  std::uint64_t call = 0;

  void take_later(const Slot& other, std::uint64_t number) {
    if (slot == nullptr || number > call) *this = {&other, number};
  }
};

bool is_alive(pid_t process) { return ::kill(process, 0) == 0 || errno != ESRCH; }

}  // namespace

struct CallBoard::Memory {
  std::array<Slot, 32> slots;  // one for each concurrent call: a few threads, each with a few nested calls
  std::array<std::atomic<pid_t>, 64> supervisors{};
  std::atomic<std::uint64_t> progress{0};
};

namespace {

std::atomic<void*>& board_in_use() {
  static std::atomic<void*> board{nullptr};
  return board;
}

}  // namespace

std::optional<Seconds> limit_of(CallKind kind) {
  switch (kind) {
    case CallKind::phase: return std::nullopt;
    case CallKind::file: return time_limits().file;
    case CallKind::driver: return time_limits().driver;
    case CallKind::name_service: return time_limits().name_service;
  }
  return std::nullopt;
}

std::string unanswered(const PendingCall& call, const std::string& host) {
  const auto limit = std::to_string(std::lround(limit_of(call.kind)->count())) + " s";
  const auto where = call.phase.empty() ? "" : " (" + call.phase + ")";
  if (call.kind == CallKind::driver) {
    return "the driver of " + host + " does not answer: " + call.what + ", " + limit + where;
  }
  return host + ": " + call.what + " does not answer, " + limit + where;
}

CallBoard::CallBoard() {
  void* const memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  memory_ = std::shared_ptr<Memory>(new (memory) Memory, [](Memory* mapped) { munmap(mapped, sizeof(Memory)); });
}

void CallBoard::use() const noexcept { board_in_use() = memory_.get(); }

void CallBoard::use_own() noexcept { board_in_use() = nullptr; }

CallBoard::Memory& CallBoard::of_this_process() noexcept {
  // This board is used by a process without a keeper, whose watchdog thread may read the board.
  static Memory own;
  void* const board = board_in_use();
  return board == nullptr ? own : *static_cast<Memory*>(board);
}

std::optional<PendingCall> CallBoard::overdue(Clock::time_point since) const {
  const auto now = Clock::now();
  Seen last, phase;
  for (auto& slot : memory_->slots) {
    const auto call = slot.number.load();  // read first, so that name_of() notices a call that ends after this line
    const pid_t process = slot.process;
    if (process <= 0) continue;
    if (!is_alive(process)) {  // the process was killed during its call
      slot.process = 0;
      continue;
    }
    const auto limit = limit_of(slot.kind);
    const Clock::time_point began(Clock::duration(slot.began.load()));
    if (!limit) phase.take_later(slot, call);
    if (!limit || now - std::max(began, since) < *limit) continue;
    last.take_later(slot, call);
  }
  if (last.slot == nullptr) return std::nullopt;
  const auto kind = last.slot->kind.load();
  const auto name = last.slot->name_of(last.call);
  if (!name) return std::nullopt;
  return PendingCall{kind, *name, phase.slot == nullptr ? "" : phase.slot->name_of(phase.call).value_or("")};
}

std::optional<PendingCall> CallBoard::latest() const {
  for (const bool phases : {false, true}) {
    Seen last;
    for (const auto& slot : memory_->slots) {
      const auto call = slot.number.load();
      if (slot.process > 0 && (slot.kind == CallKind::phase) == phases) last.take_later(slot, call);
    }
    if (last.slot == nullptr) continue;
    const auto kind = last.slot->kind.load();
    if (const auto name = last.slot->name_of(last.call)) return PendingCall{kind, *name, ""};
  }
  return std::nullopt;
}

std::uint64_t CallBoard::progress() const noexcept { return memory_->progress; }

void CallBoard::end_supervisors() const noexcept {
  for (const auto& supervisor : memory_->supervisors) {
    if (supervisor > 0) ::kill(supervisor, SIGTERM);
  }
}

void note_progress() noexcept { ++CallBoard::of_this_process().progress; }

TimedCall::TimedCall(CallKind kind, std::string_view what) noexcept {
  auto& board = CallBoard::of_this_process();
  board_ = &board;
  const auto number = ++board.progress;
  for (std::size_t i = 0; i < board.slots.size(); ++i) {
    auto& slot = board.slots[i];
    pid_t free = 0;
    if (!slot.process.compare_exchange_strong(free, -1)) continue;
    slot.set_name(what);
    slot.kind = kind;
    slot.number = number;
    slot.began = Clock::now().time_since_epoch().count();
    slot.process = getpid();
    slot_ = static_cast<int>(i);
    return;
  }
}

TimedCall::TimedCall(const char* call, const std::filesystem::path& file) noexcept
    : TimedCall(CallKind::file, std::string(call) + " " + shown(file).native()) {}

TimedCall::~TimedCall() {
  auto& board = CallBoard::of_this_process();
  ++board.progress;
  if (slot_ >= 0 && board_ == &board) board.slots[static_cast<std::size_t>(slot_)].process = 0;
}

SupervisorEntry::SupervisorEntry(pid_t process) noexcept {
  auto& board = CallBoard::of_this_process();
  for (std::size_t i = 0; i < board.supervisors.size(); ++i) {
    pid_t free = 0;
    if (!board.supervisors[i].compare_exchange_strong(free, process)) continue;
    slot_ = static_cast<int>(i);
    return;
  }
}

SupervisorEntry::~SupervisorEntry() {
  if (slot_ >= 0) CallBoard::of_this_process().supervisors[static_cast<std::size_t>(slot_)] = 0;
}

std::optional<PendingCall> HungCalls::find() {
  constexpr Seconds stopped(2);  // if the last check was longer ago than this, this process was suspended
  const auto now = CallBoard::Clock::now();
  if (now - last_look_ > stopped) since_ = now;
  last_look_ = now;
  return board_.overdue(since_);
}

}  // namespace shakedown
