// The parts of a burn on the host, one after another: each uses all cores of its rank by itself.
#include "kernels/burn.hpp"

#include <chrono>

#include "kernels/host/host_device.hpp"
#include "kernels/ops/burn.hpp"

namespace shakedown::host {

std::unique_ptr<Work> make(const GemmSpec&, HostDevice&);
std::unique_ptr<Work> make(const PeerShiftSpec&, HostDevice&);
std::unique_ptr<Work> make(const HbmSpec&, HostDevice&);
std::unique_ptr<Work> make(const CollectiveSpec&, HostDevice&);

namespace {

class InTurn {
 public:
  explicit InTurn(std::size_t parts) : queued_(parts), seconds_(parts) {}

  void record(std::size_t part, const std::function<void()>& queue) { queued_[part] = queue; }
  void launch() {
    using Clock = std::chrono::steady_clock;
    for (std::size_t i = 0; i < queued_.size(); ++i) {
      const auto begin = Clock::now();
      queued_[i]();
      seconds_[i] = std::chrono::duration<double>(Clock::now() - begin).count();
    }
  }
  void wait() {}
  double seconds(std::size_t part) const { return seconds_[part]; }

 private:
  std::vector<std::function<void()>> queued_;
  std::vector<double> seconds_;
};

}  // namespace

std::unique_ptr<Work> make(const BurnSpec& spec, HostDevice& device) {
  auto parts = burn_parts(spec, [&](const auto& part) { return make(part, device); });
  auto together = std::make_unique<InTurn>(parts.size());
  return std::make_unique<Burn<InTurn>>(std::move(parts), std::move(together));
}

}  // namespace shakedown::host
