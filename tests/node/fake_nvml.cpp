// The functions that every version of NVML has, and the answer file; see fake_nvml.hpp.
#include "tests/node/fake_nvml.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

namespace shakedown::fake_nvml {

namespace abi = nvml_abi;

namespace {

constexpr unsigned most_gpus = 64;

struct State {
  std::mutex mutex;
  std::map<std::string, std::size_t> asked;  // number of calls by GPU and query
  unsigned watched = most_gpus;              // the GPU whose events a caller waits for
};
State& state() {
  static State only;
  return only;
}

/// The handle of a GPU is its number plus one.
unsigned number_of(abi::Device device) { return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device) - 1); }
abi::Device device_of(unsigned number) { return reinterpret_cast<abi::Device>(std::uintptr_t{number} + 1); }

/// Returns the text after these words in the last matching line; "*" in the file matches any first word.
std::optional<std::string> line_of(const std::string& first, const std::string& second) {
  const char* const file = std::getenv("SHAKEDOWN_FAKE_NVML");
  std::ifstream in(file == nullptr ? "" : file);
  std::optional<std::string> found;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string a, b;
    words >> a;
    if (a != first && (a != "*" || second.empty())) continue;
    if (!second.empty() && (!(words >> b) || b != second)) continue;
    std::string rest;
    std::getline(words >> std::ws, rest);
    found = rest;
  }
  return found;
}

unsigned gpus() { return static_cast<unsigned>(std::atoi(line_of("gpus", "").value_or("1").c_str())); }

abi::Return put(const std::string& text, char* to, unsigned size) {
  if (text.size() + 1 > size) return abi::insufficient_size;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return abi::success;
}

std::string address(unsigned number, int digits) {
  constexpr char hex[] = "0123456789ABCDEF";
  return std::string(static_cast<std::size_t>(digits), '0') + ":1" + hex[number % 16] + ":00.0";
}

}  // namespace

abi::Size Reply::number(std::size_t word) const {
  return word < words.size() ? std::strtoull(words[word].c_str(), nullptr, 10) : 0;
}

Reply ask(abi::Device device, const std::string& question) {
  const auto gpu = std::to_string(number_of(device));
  const auto line = line_of(gpu, question);
  if (!line) return {abi::not_supported, {}};
  const std::scoped_lock lock(state().mutex);
  auto call = state().asked[gpu + " " + question]++;
  std::istringstream answers(*line);
  std::string answer;
  for (std::string next; std::getline(answers, next, '|');) {
    answer = next;
    if (call-- == 0) break;
  }
  std::istringstream words(answer);
  Reply reply{abi::success, {}};
  for (std::string word; words >> word;) reply.words.push_back(word);
  const auto first = reply.words.empty() ? "" : reply.words.front();
  if (first == "unsupported") reply.status = abi::not_supported;
  if (first == "no_permission") reply.status = abi::no_permission;
  if (first == "lost") reply.status = abi::gpu_is_lost;
  if (first == "hangs") pause();
  return reply;
}

abi::Return processes(abi::Device device, unsigned* count, abi::ProcessInfo* list) {
  const auto reply = ask(device, "nvmlDeviceGetComputeRunningProcesses");
  if (reply.status != abi::success) return reply.status;
  const auto room = *count;
  *count = static_cast<unsigned>(reply.words.size());
  if (room < *count) return abi::insufficient_size;
  for (unsigned i = 0; i < *count; ++i) {
    const auto& word = reply.words[i];
    const auto comma = word.find(',');
    const auto memory = comma == std::string::npos ? "unknown" : word.substr(comma + 1);
    list[i] = {static_cast<unsigned>(reply.number(i)),
               memory == "unknown" ? abi::not_available : std::strtoull(memory.c_str(), nullptr, 10), ~0U, ~0U};
  }
  return abi::success;
}

namespace {

abi::Return text(abi::Device device, const std::string& question, const std::string& otherwise, char* to,
                 unsigned size) {
  const auto reply = ask(device, question);
  if (reply.words.empty()) return otherwise.empty() ? reply.status : put(otherwise, to, size);
  if (reply.status != abi::success) return reply.status;
  std::string all;
  for (const auto& word : reply.words) all += (all.empty() ? "" : " ") + word;
  return put(all, to, size);
}

template <class... Values>
abi::Return numbers(abi::Device device, const std::string& question, Values*... to) {
  const auto reply = ask(device, question);
  if (reply.status != abi::success) return reply.status;
  std::size_t word = 0;
  ((*to = static_cast<Values>(reply.number(word++))), ...);
  return abi::success;
}

std::string with(const std::string& function, unsigned a) { return function + ":" + std::to_string(a); }

}  // namespace

extern "C" {

abi::Return nvmlInit_v2() {
  const std::scoped_lock lock(state().mutex);
  state().asked.clear();
  return line_of("init", "") == "no_driver" ? abi::driver_not_loaded : abi::success;
}
abi::Return nvmlShutdown() { return abi::success; }
abi::Return nvmlSystemGetDriverVersion(char* to, unsigned size) {
  return put(line_of("driver", "").value_or("580.0"), to, size);
}
abi::Return nvmlSystemGetConfComputeState(abi::ConfidentialState* state) {
  const auto line = line_of("confidential", "");
  if (!line) return abi::not_supported;
  *state = {0, *line == "1" ? 1U : 0U, 0};
  return abi::success;
}
abi::Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = gpus();
  return abi::success;
}
abi::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, abi::Device* device) {
  if (index >= gpus()) return abi::not_found;
  *device = device_of(index);
  return abi::success;
}
abi::Return nvmlDeviceGetUUID(abi::Device device, char* to, unsigned size) {
  return text(device, "nvmlDeviceGetUUID", "GPU-fake-" + std::to_string(number_of(device)), to, size);
}
abi::Return nvmlDeviceGetHandleByUUID(const char* uuid, abi::Device* device) {
  for (unsigned number = 0; number < gpus(); ++number) {
    char known[96];
    if (nvmlDeviceGetUUID(device_of(number), known, sizeof known) != abi::success) continue;
    if (std::strcmp(known, uuid) != 0) continue;
    *device = device_of(number);
    return abi::success;
  }
  return abi::not_found;
}
abi::Return nvmlDeviceGetHandleByPciBusId_v2(const char* pci, abi::Device* device) {
  for (unsigned number = 0; number < gpus(); ++number) {
    if (address(number, 4) != pci) continue;
    *device = device_of(number);
    return abi::success;
  }
  return abi::not_found;
}
abi::Return nvmlDeviceGetPciInfo_v3(abi::Device device, abi::PciInfo* info) {
  *info = {};
  return put(address(number_of(device), 8), info->bus_id, sizeof info->bus_id);
}
abi::Return nvmlDeviceGetName(abi::Device device, char* to, unsigned size) {
  return text(device, "nvmlDeviceGetName", "NVIDIA H200", to, size);
}
abi::Return nvmlDeviceGetSerial(abi::Device device, char* to, unsigned size) {
  return text(device, "nvmlDeviceGetSerial", "", to, size);
}
abi::Return nvmlDeviceGetVbiosVersion(abi::Device device, char* to, unsigned size) {
  return text(device, "nvmlDeviceGetVbiosVersion", "", to, size);
}
abi::Return nvmlDeviceGetClockInfo(abi::Device device, unsigned type, unsigned* mhz) {
  return numbers(device, with("nvmlDeviceGetClockInfo", type), mhz);
}
abi::Return nvmlDeviceGetMaxClockInfo(abi::Device device, unsigned type, unsigned* mhz) {
  return numbers(device, with("nvmlDeviceGetMaxClockInfo", type), mhz);
}
abi::Return nvmlDeviceGetTemperature(abi::Device device, unsigned, unsigned* celsius) {
  return numbers(device, "nvmlDeviceGetTemperature", celsius);
}
abi::Return nvmlDeviceGetPowerUsage(abi::Device device, unsigned* milliwatts) {
  return numbers(device, "nvmlDeviceGetPowerUsage", milliwatts);
}
abi::Return nvmlDeviceGetTotalEnergyConsumption(abi::Device device, abi::Size* millijoules) {
  return numbers(device, "nvmlDeviceGetTotalEnergyConsumption", millijoules);
}
abi::Return nvmlDeviceGetEnforcedPowerLimit(abi::Device device, unsigned* milliwatts) {
  return numbers(device, "nvmlDeviceGetEnforcedPowerLimit", milliwatts);
}
abi::Return nvmlDeviceGetCurrentClocksThrottleReasons(abi::Device device, abi::Size* reasons) {
  return numbers(device, "nvmlDeviceGetCurrentClocksThrottleReasons", reasons);
}
abi::Return nvmlDeviceGetEccMode(abi::Device device, unsigned* now, unsigned* pending) {
  return numbers(device, "nvmlDeviceGetEccMode", now, pending);
}
abi::Return nvmlDeviceGetTotalEccErrors(abi::Device device, unsigned type, unsigned counter, abi::Size* count) {
  return numbers(device, with(with("nvmlDeviceGetTotalEccErrors", type), counter), count);
}
abi::Return nvmlDeviceGetRetiredPages(abi::Device device, unsigned cause, unsigned* count, abi::Size* pages) {
  const auto status = numbers(device, with("nvmlDeviceGetRetiredPages", cause), count);
  return status == abi::success && *count > 0 && pages == nullptr ? abi::insufficient_size : status;
}
abi::Return nvmlDeviceGetRetiredPagesPendingStatus(abi::Device device, unsigned* pending) {
  return numbers(device, "nvmlDeviceGetRetiredPagesPendingStatus", pending);
}
abi::Return nvmlDeviceGetCurrPcieLinkGeneration(abi::Device device, unsigned* generation) {
  return numbers(device, "nvmlDeviceGetCurrPcieLinkGeneration", generation);
}
abi::Return nvmlDeviceGetMaxPcieLinkGeneration(abi::Device device, unsigned* generation) {
  return numbers(device, "nvmlDeviceGetMaxPcieLinkGeneration", generation);
}
abi::Return nvmlDeviceGetCurrPcieLinkWidth(abi::Device device, unsigned* width) {
  return numbers(device, "nvmlDeviceGetCurrPcieLinkWidth", width);
}
abi::Return nvmlDeviceGetMaxPcieLinkWidth(abi::Device device, unsigned* width) {
  return numbers(device, "nvmlDeviceGetMaxPcieLinkWidth", width);
}
abi::Return nvmlDeviceGetPcieReplayCounter(abi::Device device, unsigned* count) {
  return numbers(device, "nvmlDeviceGetPcieReplayCounter", count);
}
abi::Return nvmlDeviceGetNvLinkState(abi::Device device, unsigned link, unsigned* active) {
  return numbers(device, with("nvmlDeviceGetNvLinkState", link), active);
}
abi::Return nvmlDeviceGetNvLinkErrorCounter(abi::Device device, unsigned link, unsigned counter, abi::Size* count) {
  return numbers(device, with(with("nvmlDeviceGetNvLinkErrorCounter", link), counter), count);
}
abi::Return nvmlDeviceGetMigMode(abi::Device device, unsigned* now, unsigned* pending) {
  return numbers(device, "nvmlDeviceGetMigMode", now, pending);
}
abi::Return nvmlDeviceGetPersistenceMode(abi::Device device, unsigned* on) {
  return numbers(device, "nvmlDeviceGetPersistenceMode", on);
}
abi::Return nvmlDeviceGetComputeMode(abi::Device device, unsigned* mode) {
  return numbers(device, "nvmlDeviceGetComputeMode", mode);
}
abi::Return nvmlDeviceGetVirtualizationMode(abi::Device device, unsigned* mode) {
  return numbers(device, "nvmlDeviceGetVirtualizationMode", mode);
}
abi::Return nvmlDeviceGetUtilizationRates(abi::Device device, abi::Utilization* utilization) {
  return numbers(device, "nvmlDeviceGetUtilizationRates", &utilization->gpu, &utilization->memory);
}
abi::Return nvmlDeviceGetMemoryInfo(abi::Device device, abi::Memory* memory) {
  return numbers(device, "nvmlDeviceGetMemoryInfo", &memory->total, &memory->free, &memory->used);
}
abi::Return nvmlDeviceGetComputeRunningProcesses_v2(abi::Device device, unsigned* count, abi::ProcessInfo* list) {
  return processes(device, count, list);
}
abi::Return nvmlEventSetCreate(abi::EventSet* events) {
  *events = reinterpret_cast<abi::EventSet>(&state());
  return abi::success;
}
abi::Return nvmlEventSetFree(abi::EventSet) { return abi::success; }
abi::Return nvmlDeviceRegisterEvents(abi::Device device, abi::Size, abi::EventSet) {
  if (!line_of(std::to_string(number_of(device)), "xid")) return abi::not_supported;
  state().watched = number_of(device);
  return abi::success;
}
abi::Return nvmlEventSetWait_v2(abi::EventSet, abi::EventData* event, unsigned) {
  const auto reply = ask(device_of(state().watched), "xid");
  if (reply.status != abi::success) return reply.status;
  if (reply.words.empty() || reply.words.front() == "none") return abi::timeout;
  *event = {device_of(state().watched), abi::event_xid, reply.number(), ~0U, ~0U};
  return abi::success;
}

}  // extern "C"

}  // namespace shakedown::fake_nvml
