// A load to plant on one GPU beside a measurement: arithmetic or copies in memory for a share of the time, until killed.
// The driver shares the GPU between processes in slices of time, so that the measurement loses about that share.
//
//   build/tests/gpu_load GPU SHARE [memory]       GPU: index as CUDA counts; SHARE: 0.05 to 1
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
  if (a == 12345.0f) out[blockIdx.x] = a + b;  // never, but the compiler cannot know
}

}  // namespace

int main(int argc, char** argv) {
  const double share = argc > 2 ? std::atof(argv[2]) : 0;
  if (share <= 0 || share > 1) {
    std::fprintf(stderr, "usage: gpu_load GPU SHARE [memory]\n");
    return 2;
  }
  const bool memory = argc > 3 && std::string(argv[3]) == "memory";
  check(cudaSetDevice(std::atoi(argv[1])));
  constexpr std::size_t bytes = std::size_t{1} << 30;
  char* from = nullptr;
  char* to = nullptr;
  check(cudaMalloc(&from, bytes));
  check(cudaMalloc(&to, bytes));
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, std::atoi(argv[1])));
  std::puts("loading");
  std::fflush(stdout);
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    if (memory) {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice));
    } else {
      arithmetic<<<8 * processors, 256>>>(reinterpret_cast<float*>(to), 1 << 14);
    }
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    const auto busy = std::chrono::steady_clock::now() - begin;
    std::this_thread::sleep_for(busy * ((1 - share) / share));
  }
}
