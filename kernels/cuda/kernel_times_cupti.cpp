// CUPTI gives records to functions without a context, so one object holds them for the process. A launch has a number:
// the record of its kernel has it, and so has the record that names the part in which it was launched. The
// documentation of cuptiActivityPushExternalCorrelationId describes both.
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "base/timed_call.hpp"
#include "kernels/cuda/kernel_times.hpp"

namespace shakedown::cuda {

namespace {

constexpr std::array recorded_kinds{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                    CUPTI_ACTIVITY_KIND_RUNTIME,
                                    CUPTI_ACTIVITY_KIND_DRIVER,
                                    CUPTI_ACTIVITY_KIND_MEMCPY,
                                    CUPTI_ACTIVITY_KIND_MEMSET,
                                    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
constexpr auto part_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

class Cupti {
 public:
  decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&::cuptiActivityEnable) enable = nullptr;
  decltype(&::cuptiActivityDisable) disable = nullptr;
  decltype(&::cuptiActivityFlushAll) flush = nullptr;
  decltype(&::cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&::cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&::cuptiActivityPushExternalCorrelationId) push = nullptr;
  decltype(&::cuptiActivityPopExternalCorrelationId) pop = nullptr;

  Cupti() {
    const TimedCall call(CallKind::driver, std::string("load ") + SHAKEDOWN_CUPTI);
    void* const library = dlopen(SHAKEDOWN_CUPTI, RTLD_NOW);
    const auto find = [&](auto& function, const char* name) {
      if (library != nullptr)
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      is_complete = is_complete && function != nullptr;
    };
    find(register_callbacks, "cuptiActivityRegisterCallbacks");
    find(enable, "cuptiActivityEnable");
    find(disable, "cuptiActivityDisable");
    find(flush, "cuptiActivityFlushAll");
    find(next_record, "cuptiActivityGetNextRecord");
    find(dropped_records, "cuptiActivityGetNumDroppedRecords");
    find(push, "cuptiActivityPushExternalCorrelationId");
    find(pop, "cuptiActivityPopExternalCorrelationId");
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    milliseconds_.clear();
    parts_.clear();
    lost_ = 0;
  }

  /// Reads the records of a buffer. CUPTI may call this on a thread of its own.
  void read(CUcontext context, std::uint8_t* buffer, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    CUpti_Activity* record = nullptr;
    while (next_record(buffer, bytes, &record) == CUPTI_SUCCESS) add(*record);
    std::size_t dropped = 0;
    if (dropped_records(context, 0, &dropped) == CUPTI_SUCCESS) lost_ += dropped;
  }

  std::optional<std::vector<double>> by_part(std::size_t parts) {
    const std::lock_guard lock(mutex_);
    if (lost_ > 0 || milliseconds_.empty()) return std::nullopt;
    std::vector<double> sums(parts);
    for (const auto& [launch, part] : parts_) {
      const auto found = milliseconds_.find(launch);
      if (part < parts && found != milliseconds_.end()) sums[part] += found->second;
    }
    return sums;
  }

  bool is_complete = true;

 private:
  template <class Record>
  void add_time(const CUpti_Activity& activity) {
    const auto& record = reinterpret_cast<const Record&>(activity);
    milliseconds_[record.correlationId] += static_cast<double>(record.end - record.start) * 1e-6;
  }

  /// Later records begin as the ones used here do.
  void add(const CUpti_Activity& activity) {
    if (activity.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      add_time<CUpti_ActivityKernel4>(activity);
    } else if (activity.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      add_time<CUpti_ActivityMemcpy>(activity);
    } else if (activity.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      add_time<CUpti_ActivityMemset>(activity);
    } else if (activity.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
      const auto& record = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(activity);
      if (record.externalKind == part_kind) parts_[record.correlationId] = record.externalId;
    }
  }

  std::mutex mutex_;
  std::map<std::uint32_t, double> milliseconds_;  // by launch
  std::map<std::uint32_t, std::uint64_t> parts_;  // by launch
  std::size_t lost_ = 0;
};

Cupti& cupti() {
  static Cupti loaded;
  return loaded;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  constexpr std::size_t size = std::size_t{8} << 20, alignment = 8;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, size));
  *bytes = *buffer == nullptr ? 0 : size;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  if (valid > 0) cupti().read(context, buffer, valid);
  std::free(buffer);
}

void stop() {
  for (const auto kind : recorded_kinds) static_cast<void>(cupti().disable(kind));
}

}  // namespace

std::unique_ptr<KernelTimes> KernelTimes::start() {
  // A profiler that CUDA loads by this variable has callbacks of its own, which ours would replace.
  if (std::getenv("CUDA_INJECTION64_PATH") != nullptr || !cupti().is_complete) return nullptr;
  cupti().forget();
  if (cupti().register_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return nullptr;
  auto times = std::make_unique<KernelTimes>();  // its destructor stops what has been enabled
  const auto enabled = [](auto kind) { return cupti().enable(kind) == CUPTI_SUCCESS; };
  return std::all_of(recorded_kinds.begin(), recorded_kinds.end(), enabled) ? std::move(times) : nullptr;
}

KernelTimes::~KernelTimes() { stop(); }

void KernelTimes::begin_part(std::uint64_t number) { static_cast<void>(cupti().push(part_kind, number)); }

void KernelTimes::end_part() {
  std::uint64_t last = 0;
  static_cast<void>(cupti().pop(part_kind, &last));
}

std::optional<std::vector<double>> KernelTimes::milliseconds(std::size_t parts) {
  stop();
  if (cupti().flush(0) != CUPTI_SUCCESS) return std::nullopt;
  return cupti().by_part(parts);
}

}  // namespace shakedown::cuda
