// Another user of a GPU during a measurement, until it is killed. It runs arithmetic or memory copies for a share of
// the time, and holds memory. The driver gives processes time slices of the GPU, so the measurement loses about that
// share.
//
//   build/tests/gpu_load GPU SHARE [arithmetic|memory] [GIBIBYTES]     GPU: index as CUDA counts; SHARE: 0 to 1, 0 only
//                                                                      holds memory. Prints "ready" after its start.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "gpu_load: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

__global__ void arithmetic(float* out, int rounds) {
  float a = 1.0f + static_cast<float>(threadIdx.x), b = 0.5f;
  for (int i = 0; i < rounds; ++i) {
    a = a * 1.000001f + b;
    b = b * 0.999999f + a;
  }
  if (a == 12345.0f) out[blockIdx.x] = a + b;  // never true, but the compiler does not know
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes));
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  const double share = argc > 2 ? std::atof(argv[2]) : -1;
  const std::string kind = argc > 3 ? argv[3] : "arithmetic";
  if (share < 0 || share > 1 || argc > 5 || (kind != "arithmetic" && kind != "memory")) {
    std::fprintf(stderr, "usage: gpu_load GPU SHARE [arithmetic|memory] [GIBIBYTES]\n");
    return 2;
  }
  const int gpu = std::atoi(argv[1]);
  check(cudaSetDevice(gpu));
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, gpu));
  constexpr std::size_t copied = std::size_t{1} << 30;
  const bool copies = kind == "memory";
  const auto held = argc > 4 ? static_cast<std::size_t>(std::atol(argv[4])) << 30 : 0;
  if (held > 0) allocate(held);
  void* const from = copies ? allocate(copied) : nullptr;
  void* const to = allocate(copies ? copied : sizeof(float) * 8 * static_cast<std::size_t>(processors));
  check(cudaDeviceSynchronize());
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    if (share == 0) std::this_thread::sleep_for(std::chrono::hours(1));
    const auto begin = std::chrono::steady_clock::now();
    if (copies) {
      check(cudaMemcpyAsync(to, from, copied, cudaMemcpyDeviceToDevice));
    } else {
      arithmetic<<<8 * processors, 256>>>(static_cast<float*>(to), 1 << 14);
    }
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    const auto busy = std::chrono::steady_clock::now() - begin;
    if (share > 0) std::this_thread::sleep_for(busy * ((1 - share) / share));
  }
}
