// Reads of the same pages by all SMs. A page that most SMs read wrong is wrong in memory, or was written wrong; other
// wrong words are of the SM that read them.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/page_read.hpp"
#include "kernels/cuda/sm_records.hpp"
#include "kernels/sm_report.hpp"

namespace shakedown::cuda {

namespace {

class PageReads final : public Work {
 public:
  PageReads(const PageReadSpec& spec, const Gpu& gpu)
      : spec_(spec),
        gpu_(gpu),
        memory_(spec.bytes),
        writers_(spec.pages() * sizeof(unsigned)),
        wrong_(spec.pages() * max_sms * sizeof(unsigned)),
        records_(gpu) {}

  void enqueue() override {
    ++turns_;
    write_pages(run(), static_cast<unsigned>(records_.sms()), gpu_.stream());
    read_pages(run(), static_cast<unsigned>(records_.sms()), gpu_.stream());
  }

  void reset() override {
    turns_ = 0;
    gpu_.fill(memory_, poison_byte);
    records_.clear();
    gpu_.fill(wrong_, 0);
    gpu_.synchronize();
  }

  Check verify() override {
    auto check = check_of(records_.read(), records_.sms(), announced(),
                          {"SM", "pages", [](const SmRecord& record) {
                             return fmt::format("page {}, word {}: {:#018x}, expected {:#018x}", record.product,
                                                record.word, record.got, record.expected);
                           }});
    if (check.mismatched > 0) check.first += wrong_pages();
    return check;
  }

  Cost cost() const override { return {0, static_cast<double>(spec_.bytes) * static_cast<double>(records_.sms() + 1)}; }
  std::size_t bytes() const override { return memory_.bytes() + writers_.bytes() + records_.bytes() + wrong_.bytes(); }
  bool collective() const override { return false; }
  Metrics metrics() override { return metrics_of(records_.read(), records_.sms(), announced()); }

  /// Changes a word of the memory, and reads all pages again.
  void corrupt() override {
    auto* const word = memory_.data<std::uint64_t>() + spec_.bytes / 16;
    const auto flipped = gpu_.read(word) ^ 1;
    gpu_.write(word, &flipped, sizeof flipped);
    read_pages(run(), static_cast<unsigned>(records_.sms()), gpu_.stream());
  }

 private:
  /// Returns the operands of this turn.
  PageRun run() const {
    return {memory_.data<std::uint64_t>(),
            static_cast<unsigned>(spec_.pages()),
            turns_,
            writers_.data<unsigned>(),
            records_.data(),
            wrong_.data<unsigned>()};
  }
  unsigned long long announced() const { return static_cast<unsigned long long>(turns_) * spec_.pages(); }

  /// Returns the pages that most SMs have read wrong: "; pages that most SMs read wrong: 12 (written by SM 3 at last)".
  std::string wrong_pages() const {
    std::vector<unsigned> wrong(spec_.pages() * max_sms), writers(spec_.pages());
    gpu_.read(wrong.data(), wrong_.data(), wrong_.bytes());
    gpu_.read(writers.data(), writers_.data(), writers_.bytes());
    constexpr int max_listed = 8;
    int found = 0;
    std::string text;
    for (std::size_t page = 0; page < writers.size(); ++page) {
      const auto row = wrong.begin() + static_cast<std::ptrdiff_t>(page * max_sms);
      const auto readers = std::count_if(row, row + max_sms, [](unsigned words) { return words > 0; });
      if (2 * readers <= static_cast<std::ptrdiff_t>(records_.sms()) || found++ >= max_listed) continue;
      text +=
          fmt::format("{} {} at {} (last written by SM {})", text.empty() ? "; pages that most SMs read wrong:" : ",",
                      page, static_cast<const void*>(memory_.at(page * PageReadSpec::page_bytes)), writers[page]);
    }
    return text + (found > max_listed ? fmt::format(" and {} more", found - max_listed) : "");
  }

  const PageReadSpec spec_;
  const Gpu& gpu_;
  const Buffer memory_, writers_, wrong_;
  const SmRecords records_;
  unsigned turns_ = 0;
};

}  // namespace

std::unique_ptr<Work> make(const PageReadSpec& spec, CudaDevice& device) {
  if (spec.bytes == 0 || spec.bytes % PageReadSpec::page_bytes != 0) throw std::invalid_argument("pages have 2 MiB");
  require_memory(spec.bytes);
  return std::make_unique<PageReads>(spec, device.gpu());
}

}  // namespace shakedown::cuda
