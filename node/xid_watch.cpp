// The XIDs of one GPU, as events of NVML.
#include "node/nvml.hpp"
#include "node/nvml_library.hpp"

namespace shakedown {

XidWatch::XidWatch(const NvmlGpu& gpu) : library_(gpu.library_) {
  const auto events = library_->get<abi::EventSet>(abi::event_set_create);
  if (!events) {
    problem_ = events.why();
    return;
  }
  events_ = *events;
  problem_ = library_->call(abi::register_events, handle(gpu.device_), abi::event_xid, *events);
}

XidWatch::~XidWatch() {
  if (events_ != nullptr) static_cast<void>(library_->call(abi::event_set_free, static_cast<abi::EventSet>(events_)));
}

Answer<std::vector<unsigned>> XidWatch::take() {
  if (!problem_.empty()) return Answer<std::vector<unsigned>>::unknown(problem_);
  std::vector<unsigned> xids;
  constexpr std::size_t max_events = 1000;  // limits the loop if a GPU reports XIDs endlessly
  while (xids.size() < max_events) {
    abi::EventData event{};
    constexpr unsigned no_wait = 0;
    bool missing = false;
    const auto status =
        library_->try_call(abi::event_set_wait, missing, static_cast<abi::EventSet>(events_), &event, no_wait);
    if (status == abi::timeout) break;
    if (status != abi::success) {
      problem_ = missing ? std::string(abi::event_set_wait.name) + " is missing from the library"
                         : NvmlLibrary::reason(status);
      if (xids.empty()) return Answer<std::vector<unsigned>>::unknown(problem_);
      break;
    }
    if (event.type == abi::event_xid) xids.push_back(static_cast<unsigned>(event.data));
  }
  return xids;
}

}  // namespace shakedown
