// Works that run together as one.
#include "kernels/burn.hpp"

#include <gtest/gtest.h>

#include <map>

namespace shakedown::burn_test {

namespace {

/// A Work that takes this time, and counts its operations.
class Simulated final : public Work {
 public:
  Simulated(double seconds, std::string unsupported) : seconds_(seconds), unsupported_(std::move(unsupported)) {}
  void connect(Group&) override {
    if (!unsupported_.empty()) throw Unsupported(unsupported_);
  }
  void enqueue() override { ++operations; }
  void stage(int repeats) override { staged = repeats; }
  void reset() override { operations = 0; }
  Check verify() override { return {10, wrong ? 1U : 0U, wrong ? "word 3 is 1, expected 2" : ""}; }
  std::optional<std::uint64_t> digest() const override { return 5; }
  Cost cost() const override { return {1e9, 0}; }
  std::size_t bytes() const override { return 100; }
  bool collective() const override { return false; }
  void corrupt() override { wrong = true; }
  Metrics metrics() override { return {{"checksum", 7}, {"other", 1}}; }

  double took() const { return static_cast<double>(operations) * seconds_; }

  int operations = 0, staged = 0;
  bool wrong = false;

 private:
  double seconds_;
  std::string unsupported_;
};

/// Runs the parts; each takes `slower` times as long as alone.
struct Simulator {
  Simulator(std::vector<Simulated*> all, double factor) : works(std::move(all)), slower(factor), took(works.size()) {}

  void record(std::size_t part, const std::function<void()>& queue) { queued[part] = queue; }
  void launch() {
    for (std::size_t i = 0; i < works.size(); ++i) {
      const double before = works[i]->took();
      queued.at(i)();
      took[i] = (works[i]->took() - before) * slower;
    }
  }
  void wait() {}
  double seconds(std::size_t part) const { return took[part]; }

  std::vector<Simulated*> works;
  double slower;
  std::map<std::size_t, std::function<void()>> queued;
  std::vector<double> took;
};

class Burns : public testing::Test {
 protected:
  void make(std::string unsupported = "") {
    auto products = std::make_unique<Simulated>(1.5e-3, ""), copies = std::make_unique<Simulated>(5e-3, unsupported);
    works_ = {products.get(), copies.get()};
    std::vector<BurnPart> parts;
    parts.push_back({"products", "gemm_tflops", 1.1, std::move(products)});
    parts.push_back({"copies", "copy_gb_per_s", 2.0, std::move(copies)});
    burn_ = std::make_unique<Burn<Simulator>>(std::move(parts), std::make_unique<Simulator>(works_, 1.25));
  }
  double metric(const std::string& name) {
    for (const auto& [found, value] : burn_->metrics()) {
      if (found == name) return value;
    }
    return -1;
  }

  Alone group_;
  std::vector<Simulated*> works_;
  std::unique_ptr<Burn<Simulator>> burn_;
};

}  // namespace

TEST_F(Burns, RepeatEachPartSoOftenThatAllTakeTheSameTime) {
  make();
  burn_->connect(group_);
  burn_->reset();
  burn_->stage(1);
  EXPECT_EQ(works_[0]->staged, 27) << "of 1.875 ms each, in 50 ms";
  EXPECT_EQ(works_[1]->staged, 8) << "of 6.25 ms each";
  burn_->enqueue();
  EXPECT_EQ(works_[0]->operations, 27);
  EXPECT_DOUBLE_EQ(burn_->cost().flops, 27e9);
  EXPECT_NEAR(metric("gemm_tflops"), 1.1 / 1.875e-3, 1e-6);
  EXPECT_NEAR(metric("copy_gb_per_s"), 2.0 / 6.25e-3, 1e-6);
  EXPECT_EQ(metric("checksum"), 7);
  EXPECT_EQ(metric("other"), -1);
}

TEST_F(Burns, ReportTheMeanRateOfAllLaunchesSinceAReset) {
  make();
  burn_->connect(group_);
  burn_->reset();
  EXPECT_EQ(metric("gemm_tflops"), -1) << "nothing ran";
  for (int i = 0; i < 3; ++i) {
    burn_->stage(1);
    burn_->enqueue();
  }
  EXPECT_NEAR(metric("gemm_tflops"), 1.1 / 1.875e-3, 1e-6);
}

TEST_F(Burns, NameThePartWithWrongData) {
  make();
  burn_->connect(group_);
  EXPECT_EQ(burn_->verify().mismatched, 0U);
  EXPECT_EQ(burn_->verify().compared, 20U);
  works_[1]->wrong = true;
  const auto check = burn_->verify();
  EXPECT_EQ(check.mismatched, 1U);
  EXPECT_EQ(check.first, "copies: word 3 is 1, expected 2");
}

TEST_F(Burns, NameThePartThatCannotRun) {
  make("this host has only 1 rank");
  try {
    burn_->connect(group_);
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "copies: this host has only 1 rank");
  }
}

}  // namespace shakedown::burn_test
