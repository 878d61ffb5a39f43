// An NVML with faults, in front of the real one. The product opens NVML with dlopen, so the fault is in dlsym.
// SHAKEDOWN_LIE selects the fault and the number of correct calls before it (tests/faults/lie.hpp): ecc (uncorrected
// errors, counted during a measurement), replays (of PCIe), thermal (a hardware thermal slowdown), xid (79, fallen off
// the bus).
#include <dlfcn.h>

#include <cstring>

#include "tests/faults/lie.hpp"

namespace {

using Find = void* (*)(void*, const char*);
using Device = void*;

Find real_dlsym() {
  // The version in glibc 2.34 and newer on x86-64; older systems have dlsym in libdl.
  static const auto found = reinterpret_cast<Find>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
  if (found != nullptr) return found;
  return reinterpret_cast<Find>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
}

// Returns the function that the last dlsym call found under each name. All ranks share one NVML.
template <class Signature>
Signature*& real_function() {
  static Signature* function = nullptr;
  return function;
}

using CountErrors = int(Device, unsigned, unsigned, unsigned long long*);
int count_errors(Device device, unsigned type, unsigned counter, unsigned long long* count) {
  static lie::Calls calls;
  const int status = real_function<CountErrors>()(device, type, counter, count);
  constexpr unsigned uncorrected = 1;
  if (status == 0 && type == uncorrected && lie::told("ecc") && calls.all_later()) *count += 2;
  return status;
}

using CountReplays = int(Device, unsigned*);
int count_replays(Device device, unsigned* count) {
  static lie::Calls calls;
  const int status = real_function<CountReplays>()(device, count);
  if (status == 0 && lie::told("replays") && calls.all_later()) *count += 7;
  return status;
}

using Reasons = int(Device, unsigned long long*);
int reasons(Device device, unsigned long long* bits) {
  static lie::Calls calls;
  constexpr unsigned long long hw_thermal = 0x40, hw_slowdown = 0x8;
  const int status = real_function<Reasons>()(device, bits);
  if (status == 0 && lie::told("thermal") && calls.all_later()) *bits |= hw_thermal | hw_slowdown;
  return status;
}

struct Event {  // nvmlEventData_t
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
using WaitForEvent = int(void*, Event*, unsigned);
int wait_for_event(void* set, Event* event, unsigned milliseconds) {
  static lie::Calls calls;
  const int status = real_function<WaitForEvent>()(set, event, milliseconds);
  if (!lie::told("xid") || !calls.just_one()) return status;
  constexpr unsigned long long critical_error = 8;
  *event = {nullptr, critical_error, 79, 0, 0};
  return 0;
}

template <class Signature>
void* instead(Signature* ours, void* real) {
  if (real == nullptr) return nullptr;
  real_function<Signature>() = reinterpret_cast<Signature*>(real);
  return reinterpret_cast<void*>(ours);
}

}  // namespace

extern "C" void* dlsym(void* handle, const char* name) noexcept {
  void* const real = real_dlsym()(handle, name);
  if (std::strcmp(name, "nvmlDeviceGetTotalEccErrors") == 0) return instead<CountErrors>(&count_errors, real);
  if (std::strcmp(name, "nvmlDeviceGetPcieReplayCounter") == 0) return instead<CountReplays>(&count_replays, real);
  if (std::strcmp(name, "nvmlDeviceGetCurrentClocksEventReasons") == 0) return instead<Reasons>(&reasons, real);
  if (std::strcmp(name, "nvmlEventSetWait_v2") == 0) return instead<WaitForEvent>(&wait_for_event, real);
  return real;
}
