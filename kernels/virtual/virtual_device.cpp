#include "kernels/virtual/virtual_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "kernels/effort.hpp"
#include "kernels/gemm_tuning.hpp"
#include "kernels/ops/memory.hpp"

namespace shakedown::virtual_gpu {

namespace {

/// Relative standard deviations: of one time, and of a GPU from its peers.
constexpr double noise = 0.002, variation = 0.003;
constexpr double free_memory_share = 0.97;  // the rest is for the driver and contexts
/// Tuning of all products of a training step, which the time limits (kernels/transformer/cuda/products.hpp).
constexpr double products_tuning_seconds = 9.5;

/// Seconds that have passed on a device, and the longest time without a sign that it makes progress.
class VirtualClock {
 public:
  double now() const { return now_; }
  void pass(double seconds) {
    now_ += seconds;
    longest_silence_ = std::max(longest_silence_, now_ - heard_);
  }
  void signal() { heard_ = now_; }
  double longest_silence() const { return longest_silence_; }
  void restart() { now_ = heard_ = longest_silence_ = 0; }

 private:
  double now_ = 0, heard_ = 0, longest_silence_ = 0;
};

/// State that the Works of a device share.
struct Shared {
  Chip chip;
  Placement placement;
  VirtualClock clock;
  Device& device;  // for its choices
  std::function<void()> sign = [] {};
};

class VirtualWork final : public Work {
 public:
  VirtualWork(const Spec& spec, Shared& device)
      : device_(device), key_(spec.key_text()), cost_(spec.model_cost()), bytes_(spec.bytes()), random_(seed()) {
    if (family() == "memtest" && bytes_ == 0) take_all_memory();
    if (static_cast<double>(bytes_) > free_memory_share * memory_bytes()) {
      throw Unsupported(fmt::format("needs {:.1f} GB, {:.1f} GB free", static_cast<double>(bytes_) / 1e9,
                                    free_memory_share * device_.chip.memory_gb));
    }
    if (!seconds_of(device_.chip, key_, cost_, 1)) {
      throw Unsupported("the profile of " + device_.chip.name + " states no peak of the unit that it needs");
    }
    device_.clock.pass(touch_seconds());
  }

  void connect(Group& group) override {
    const int ranks = (is_on_host() ? group.on_host() : group).size();
    std::normal_distribution<double> chips(1, variation);
    once_ = *seconds_of(device_.chip, key_, cost_, ranks) / chips(random_);
    const auto known = device_.device.remembered().find(key_.text());
    const bool is_known = known != device_.device.remembered().end();
    if (family() == "gemm") is_known ? compare_with_first() : tune();
    if (is_step()) prepare_steps(is_known);
    if (family() == "gemm" || is_step()) device_.device.choices()[key_.text()] = "first";
  }

  void enqueue() override {
    std::normal_distribution<double> times(1, noise);
    device_.clock.pass(once_ * std::max(times(random_), 0.5));
    ++done_;
  }

  void stage(int repeats) override {
    if (!is_idle()) announced_ += static_cast<std::size_t>(repeats);
  }

  void reset() override {
    for (int i = 0; is_step() && i < warm_up_steps(once_); ++i) enqueue();
    done_ = announced_ = 0;
  }

  /// There are no data: only the number of operations is checked.
  Check verify() override {
    device_.clock.pass(touch_seconds());
    Checker checker;
    if (announced_ > 0 || is_idle()) checker.expect_equal(0, done_ >= announced_, true);
    return checker.result();
  }

  Cost cost() const override { return cost_; }
  std::size_t bytes() const override { return bytes_; }
  bool collective() const override {
    return is_on_host() || is_step() || is_any_of({"allreduce", "collectives", "checkpoint"});
  }
  bool on_host() const override { return is_on_host(); }
  bool on_processor() const override { return is_any_of({"launch", "jitter"}); }
  double expected_seconds() const override { return is_step() ? once_ : 0; }
  std::optional<Bursts> bursts() const override {
    return family() == "gemm" && !is_sustained() ? std::optional(gemm_bursts) : std::nullopt;
  }

  /// The time of a copy between two ranks is that of its destination; the others idle, as do those that are not named
  /// by active:one.
  std::optional<int> credited_rank(int own_rank) const override {
    const auto only = key_.number(key_.part("active") == "one" ? "rank" : "dst");
    const auto other = key_.part("dir") == "both" ? key_.number("src") : std::nullopt;
    const int mine = device_.placement.local_rank;
    return only && *only != mine && other != mine ? std::nullopt : std::optional(own_rank);
  }

  Metrics metrics() override {
    for (int i = 0; is_step() && i < lead_in_steps(once_) + steps_alone(once_); ++i) enqueue();
    if (is_step()) return {{"compute_ms", once_ * 1e3}};
    if (family() == "memtest") return {{"capacity_gb", static_cast<double>(bytes_) / 1e9}};
    if (family() == "jitter") return {{"stolen", 0}};
    return {};
  }

  std::string chosen() const override { return "computed, no data"; }

 private:
  const std::string& family() const { return key_.family(); }
  bool is_any_of(std::initializer_list<std::string_view> families) const {
    return std::find(families.begin(), families.end(), family()) != families.end();
  }
  bool is_step() const { return is_any_of({"lora_step", "train_step"}); }
  bool is_sustained() const { return key_.part("load") == "sustained"; }
  bool is_on_host() const { return family() == "p2p" || key_.part("scope") == "node"; }
  bool is_idle() const { return !credited_rank(0); }
  double memory_bytes() const { return 1e9 * device_.chip.memory_gb; }

  void take_all_memory() {
    bytes_ = static_cast<std::size_t>(free_memory_share * memory_bytes());
    const auto pattern = named<TestPattern>(key_.part("pattern")).value_or(TestPattern::random);
    cost_ = shakedown::cost(MemoryTestSpec{pattern, bytes_});
  }

  /// Returns the seconds that it takes to write or read all data once.
  double touch_seconds() const {
    const auto rate = device_.chip.peak.find("hbm_gb_per_s");
    return rate == device_.chip.peak.end() ? 0 : static_cast<double>(bytes_) / (1e9 * rate->second);
  }

  unsigned seed() const {
    const std::string text = key_.text() + std::to_string(device_.placement.local_rank);
    return static_cast<unsigned>(std::hash<std::string>()(text));
  }

  /// Candidates of a library: the first is the best, the others are slower, and the last by far.
  class Candidates final : public Trials {
   public:
    static constexpr std::size_t count = 16;
    Candidates(VirtualWork& work) : work_(work) {}

    bool runs(std::size_t candidate) override { return seconds(candidate, 1) > 0; }
    double seconds(std::size_t candidate, int repeats) override {
      const double once = work_.once_ * (candidate + 1 == count ? 8 : 1 + 0.01 * static_cast<double>(candidate));
      work_.device_.clock.pass(once * repeats);
      work_.device_.clock.signal();
      work_.device_.sign();
      return once;
    }
    void rest(double seconds) override { work_.device_.clock.pass(seconds); }
    double now() const override { return work_.device_.clock.now(); }

   private:
    VirtualWork& work_;
  };

  void tune() {
    Candidates candidates(*this);
    const auto dtype = named<DType>(key_.part("dtype")).value_or(DType::bf16);
    static_cast<void>(pick_fastest(candidates, Candidates::count,
                                   gemm_tuning(dtype, is_sustained() ? Load::sustained : Load::burst)));
    enqueue();
  }

  /// Times the algorithm that an earlier run chose against the first candidate, as a real matrix product does.
  void compare_with_first() {
    Candidates candidates(*this);
    static_cast<void>(one_turn(candidates, 2, bursts()));
    enqueue();
  }

  /// The steps that a training step runs before it is measured (kernels/transformer/measured_step.hpp).
  void prepare_steps(bool is_known) {
    if (!is_known) device_.clock.pass(products_tuning_seconds);
    const int trials = is_known ? 0 : bucket_trials(once_);
    const int steps = 2 + (trials > 0 ? warm_up_steps(once_) + trials : 0);
    for (int i = 0; i < steps; ++i) {
      enqueue();
      device_.clock.signal();
      device_.sign();
    }
  }

  Shared& device_;
  const Key key_;
  Cost cost_;
  std::size_t bytes_;
  std::mt19937 random_;
  double once_ = 0;
  std::size_t done_ = 0, announced_ = 0;  // operations since reset
};

class VirtualDevice final : public Device {
 public:
  VirtualDevice(const Chip& chip, const Placement& placement) : shared_{chip, placement, {}, *this} {}

  DeviceInfo info() const override {
    DeviceInfo info;
    info.name = shared_.chip.name;
    info.uuid = "virtual-" + std::to_string(shared_.placement.local_rank);
    info.memory_bytes = static_cast<std::uint64_t>(shared_.chip.memory_gb * 1e9);
    info.nvls = "off";
    return info;
  }

  double seconds(Work& work, int repeats) override {
    if (!work.credited_rank(0)) return 0;  // this rank is idle
    const double begin = shared_.clock.now();
    work.enqueue_batch(repeats);
    shared_.clock.signal();
    return shared_.clock.now() - begin;
  }

  void rest(double seconds) override { shared_.clock.pass(seconds); }
  void while_working(std::function<void()> sign) override { shared_.sign = std::move(sign); }

  Metrics own_clock() override {
    return {{"virtual_s", shared_.clock.now()}, {"virtual_silence_s", shared_.clock.longest_silence()}};
  }

  std::unique_ptr<Work> prepare(const Spec& spec) override {
    shared_.clock.restart();
    return std::make_unique<VirtualWork>(spec, shared_);
  }

 private:
  Shared shared_;
};

}  // namespace

std::unique_ptr<Device> open_device(const Chip& chip, const Placement& placement) {
  return std::make_unique<VirtualDevice>(chip, placement);
}

}  // namespace shakedown::virtual_gpu
