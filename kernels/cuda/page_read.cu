// Shared memory that no thread uses allows only one block on each SM.
#include "kernels/cuda/handle.hpp"
#include "kernels/cuda/page_read.hpp"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/reference.hpp"

namespace shakedown::cuda {

namespace {

constexpr unsigned page_threads = 1024;
constexpr unsigned page_vectors = PageReadSpec::page_bytes / 16;

__device__ ulonglong2 vector_of(const PageRun& run, unsigned page, unsigned v) {
  const auto i = 2 * (std::uint64_t{page} * page_vectors + v);
  const auto inverted = reference::inversion(run.turn);
  return {reference::written_word(i, 0) ^ inverted, reference::written_word(i + 1, 0) ^ inverted};
}

__global__ void __launch_bounds__(page_threads) write_pages_kernel(PageRun run) {
  for (unsigned page = 0; page < run.pages; ++page) {
    if ((page + run.turn) % gridDim.x != blockIdx.x) continue;
    auto* const vectors = reinterpret_cast<ulonglong2*>(run.words) + std::size_t{page} * page_vectors;
    for (unsigned v = threadIdx.x; v < page_vectors; v += page_threads) vectors[v] = vector_of(run, page, v);
    if (threadIdx.x == 0) run.writers[page] = tile::own_sm();
  }
}

__device__ void note_word(const PageRun& run, unsigned page, unsigned word, std::uint64_t got, std::uint64_t expected) {
  SmRecord& record = run.records[tile::own_sm()];
  atomicAdd(&record.wrong_words, 1ULL);
  atomicAdd(&run.wrong[std::size_t{page} * max_sms + tile::own_sm()], 1U);
  if (atomicExch(&record.has_first, 1U) == 1) return;
  record.product = page;
  record.word = word;
  record.got = got;
  record.expected = expected;
}

__global__ void __launch_bounds__(page_threads) read_pages_kernel(PageRun run) {
  for (unsigned n = 0; n < run.pages; ++n) {
    const unsigned page = (n + blockIdx.x * run.pages / gridDim.x) % run.pages;
    const auto* const vectors = reinterpret_cast<const ulonglong2*>(run.words) + std::size_t{page} * page_vectors;
    bool wrong = false;
#pragma unroll 4
    for (unsigned v = threadIdx.x; v < page_vectors; v += page_threads) {
      const auto got = vectors[v], expected = vector_of(run, page, v);
      if (got.x != expected.x) note_word(run, page, 2 * v, got.x, expected.x), wrong = true;
      if (got.y != expected.y) note_word(run, page, 2 * v + 1, got.y, expected.y), wrong = true;
    }
    wrong = __syncthreads_or(wrong) != 0;
    if (threadIdx.x != 0) continue;
    SmRecord& record = run.records[tile::own_sm()];
    atomicAdd(&record.products, 1ULL);
    if (wrong) atomicAdd(&record.wrong_products, 1ULL);
  }
}

void launch(void (*kernel)(PageRun), const PageRun& run, unsigned blocks, cudaStream_t stream) {
  constexpr auto bytes = static_cast<int>(slab_bytes(shallow_slab_columns));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kernel<<<blocks, page_threads, bytes, stream>>>(run);
  check(cudaGetLastError());
}

}  // namespace

void write_pages(const PageRun& run, unsigned blocks, cudaStream_t stream) {
  launch(write_pages_kernel, run, blocks, stream);
}

void read_pages(const PageRun& run, unsigned blocks, cudaStream_t stream) {
  launch(read_pages_kernel, run, blocks, stream);
}

}  // namespace shakedown::cuda
