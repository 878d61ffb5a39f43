// The memory test: writes a pattern to nearly all free memory of the GPU, reads it back, and lists the wrong words.
// Errors of all walks are counted, not only those of the last walk.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/archive.hpp"
#include "base/statistics.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/gpu.hpp"
#include "kernels/cuda/known_data.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/memory_walk.hpp"

namespace shakedown::cuda {

namespace {

/// Memory left for the driver, for kernels that are loaded on first use, and for other tools that query the GPU.
constexpr std::size_t free_bytes = std::size_t{512} << 20;
/// Memory is allocated in pieces, since one large allocation may fail where several smaller allocations succeed.
constexpr std::size_t max_piece_bytes = std::size_t{8} << 30, min_piece_bytes = std::size_t{32} << 20;

std::vector<Buffer> nearly_all_memory() {
  std::vector<Buffer> pieces;
  for (std::size_t size = max_piece_bytes; size >= min_piece_bytes;) {
    if (free_memory() < size + free_bytes) {
      size /= 2;
      continue;
    }
    try {
      pieces.emplace_back(size);
    } catch (const Unsupported&) {
      size /= 2;
    }
  }
  return pieces;
}

/// bf16 products of size 8192 cubed. The products run on a high-priority stream of their own, because otherwise a walk
/// over memory would leave them no SMs.
class LoadOfProducts {
 public:
  explicit LoadOfProducts(const Gpu& gpu) : gpu_(gpu), a_(bytes), b_(bytes), d_(bytes), workspace_(workspace_bytes) {
    auto status = CUBLAS_STATUS_SUCCESS;
    const auto proposed = product_.propose(1, status);
    if (proposed.empty()) throw Unsupported("cuBLASLt has no product to run during the memory test");
    algorithm_ = proposed.front();
    fill_normal(gpu, a_, DType::bf16, std::size_t{n} * n, 1);
    fill_normal(gpu, b_, DType::bf16, std::size_t{n} * n, 2);
    check(product_.enqueue(algorithm_, operands(), gpu.stream()));
    first_ = digest_of(gpu, d_);
    seconds_of_one_ = time_one();
  }
  LoadOfProducts(const LoadOfProducts&) = delete;
  LoadOfProducts& operator=(const LoadOfProducts&) = delete;
  ~LoadOfProducts() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

  /// Queues enough products to fill about this time. The products start after all work queued before this call. Work
  /// queued after `join` starts when the products have run.
  void start(double seconds) {
    check(cudaEventRecord(begin_.get(), gpu_.stream()));
    check(cudaStreamWaitEvent(stream_.get(), begin_.get()));
    const int count = std::max(1, static_cast<int>(seconds / loaded_product_seconds(seconds_of_one_)));
    for (int i = 0; i < count; ++i) check(product_.enqueue(algorithm_, operands(), stream_.get()));
    check(cudaEventRecord(end_.get(), stream_.get()));
  }
  void join() const { check(cudaStreamWaitEvent(gpu_.stream(), end_.get())); }

  /// Makes all ranks queue the same number of products, according to the median of their times.
  void agree(Group& group) { seconds_of_one_ = median(gather(group, seconds_of_one_)); }

  /// True if the last product has the same bits as the first product, which ran alone.
  bool reproduced() const { return digest_of(gpu_, d_) == first_; }

 private:
  static constexpr std::uint64_t n = 8192;
  static constexpr std::size_t bytes = 2 * n * n, workspace_bytes = std::size_t{32} << 20;
  static constexpr MatmulMatrix matrix{CUDA_R_16BF, n, n, n};

  MatmulOperands operands() const { return {a_.data(), b_.data(), d_.data(), d_.data(), workspace_.data()}; }

  /// Returns the seconds of one product that runs alone, from the fastest of three.
  double time_one() {
    float fastest = std::numeric_limits<float>::max();
    for (int i = 0; i < 3; ++i) {
      check(cudaEventRecord(begin_.get(), gpu_.stream()));
      check(product_.enqueue(algorithm_, operands(), gpu_.stream()));
      check(cudaEventRecord(end_.get(), gpu_.stream()));
      check(cudaEventSynchronize(end_.get()));
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
      fastest = std::min(fastest, milliseconds);
    }
    return static_cast<double>(fastest) * 1e-3;
  }

  const Gpu& gpu_;
  Buffer a_, b_, d_, workspace_;
  BlasHandle blas_ = make_blas();
  Matmul product_{blas_.get(), {CUBLAS_COMPUTE_32F, CUDA_R_32F, matrix, matrix, matrix, false, false, workspace_bytes}};
  MatmulAlgorithm algorithm_{};
  std::optional<std::uint64_t> first_;
  double seconds_of_one_ = 0;
  Stream stream_ = make_first_stream();
  Event begin_ = make_event(), end_ = make_event();
};

class MemoryTest final : public Work {
 public:
  MemoryTest(const MemoryTestSpec& spec, const Gpu& gpu) : spec_(spec), gpu_(gpu), walked_(sizeof(Walked)) {
    if (spec.loaded) products_ = std::make_unique<LoadOfProducts>(gpu);
    if (spec.bytes) {
      buffers_.emplace_back(*spec.bytes);
    } else {
      buffers_ = nearly_all_memory();
    }
    for (const auto& buffer : buffers_) allocated_ += buffer.bytes();
    if (allocated_ == 0) throw Unsupported("less than 0.55 GB of memory is free: another process uses the rest");
    under_test_ = allocated_;
  }

  /// Makes all ranks test as many bytes as the rank with the least memory, so that their rates can be compared. The
  /// capacity of each rank is the number of bytes that it could allocate.
  void connect(Group& group) override {
    const auto all = gather(group, allocated_);
    under_test_ = std::min(under_test_, *std::min_element(all.begin(), all.end()));
    if (products_) products_->agree(group);
    reset();
  }

  void enqueue() override {
    ++walks_;
    inverted_ = reference::inversion(walks_);
    if (products_) products_->start(cost().bytes / loaded_walk_rate(gpu_.properties()));
    for (const auto& piece : pieces()) write_piece(gpu_.stream(), piece, spec_.pattern, inverted_);
    if (spec_.pattern == TestPattern::moving) {
      check_all(Pass::up);
      inverted_ = ~inverted_;
      check_all(Pass::down);
      inverted_ = ~inverted_;
    }
    check_all();
    if (products_) products_->join();
  }

  void reset() override {
    for (const auto& buffer : buffers_) gpu_.fill(buffer, poison_byte);
    const Walked nothing;
    gpu_.write(walked_.data(), &nothing, sizeof nothing);
    walks_ = 0;
    inverted_ = reference::inversion(0);
  }

  /// Checks the results of the walks, and the current content of the memory.
  Check verify() override {
    const auto of_walks = gpu_.read(walked_.data<const Walked>());
    check_all();
    const auto walked = gpu_.read(walked_.data<const Walked>());
    gpu_.write(walked_.data(), &of_walks, sizeof of_walks);
    Check check{walked.compared, walked.mismatched, walked.mismatched > 0 ? list(walked) : ""};
    if (products_ && !products_->reproduced() && check.mismatched++ == 0) {
      check.first = "the products during the memory test have different bits than the first product, which ran alone";
    }
    const auto expected = (walks_ * static_cast<std::size_t>(passes(spec_.pattern)) + 1) * (under_test_ / 8);
    if (check.compared == expected) return check;
    ++check.mismatched;
    check.first = std::to_string(check.compared) + " words were read by " + std::to_string(walks_) +
                  " passes and the last read, expected " + std::to_string(expected) + ": passes were skipped";
    return check;
  }

  Cost cost() const override { return {0, 2.0 * passes(spec_.pattern) * static_cast<double>(under_test_)}; }
  std::size_t bytes() const override { return allocated_; }
  bool collective() const override { return false; }
  Metrics metrics() override { return {{"capacity_gb", static_cast<double>(allocated_) / 1e9}}; }

  void corrupt() override {
    const auto piece = pieces().back();
    auto* const place = piece.words + piece.count / 2;
    const auto flipped = gpu_.read(place) ^ 1;
    gpu_.write(place, &flipped, sizeof flipped);
  }

 private:
  std::vector<Piece> pieces() const {
    std::vector<Piece> pieces;
    std::size_t first = 0, left = under_test_ / 8;
    for (const auto& buffer : buffers_) {
      const auto count = std::min(buffer.bytes() / 8, left);
      if (count > 0) pieces.push_back({buffer.data<std::uint64_t>(), first, count});
      first += count;
      left -= count;
    }
    return pieces;
  }

  void check_all(Pass pass = Pass::look) {
    auto all = pieces();
    if (pass == Pass::down) std::reverse(all.begin(), all.end());
    for (const auto& piece : all) {
      check_piece(gpu_.stream(), piece, spec_.pattern, inverted_, walked_.data<Walked>(), pass);
    }
  }

  std::string list(const Walked& walked) const {
    std::vector<WrongWord> words(walked.words, walked.words + std::min(walked.found, Walked::listed));
    std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
    const auto same = [](const auto& a, const auto& b) { return a.index == b.index && a.got == b.got; };
    words.erase(std::unique(words.begin(), words.end(), same), words.end());  // removes words that several walks found
    std::string text;
    for (const auto& word : words) {
      char line[160];
      std::snprintf(line, sizeof line, "%sbyte 0x%llx at address 0x%llx is 0x%016llx, expected 0x%016llx",
                    text.empty() ? "" : "; ", 8 * word.index, word.address, word.got, word.expected);
      text += line;
    }
    return text;
  }

  MemoryTestSpec spec_;
  const Gpu& gpu_;
  std::vector<Buffer> buffers_;
  Buffer walked_;
  std::unique_ptr<LoadOfProducts> products_;
  std::size_t allocated_ = 0, under_test_ = 0, walks_ = 0;
  std::uint64_t inverted_ = 0;
};

}  // namespace

std::unique_ptr<Work> make(const MemoryTestSpec& spec, CudaDevice& device) {
  if (spec.bytes) {
    if (*spec.bytes == 0 || *spec.bytes % 16 != 0) throw std::invalid_argument("memtest needs whole 16-byte vectors");
    require_memory(*spec.bytes);
  }
  return std::make_unique<MemoryTest>(spec, device.gpu());
}

}  // namespace shakedown::cuda
