// Another user of a GPU: holds memory, and computes for a part of the time, until it is killed.
//
//   busy_gpu GIBIBYTES LOAD_PERCENT       prints "ready PID UUID" when it has begun
#include <cuda_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

__global__ void multiply(float* values, long rounds) {
  float x = values[threadIdx.x];
  for (long i = 0; i < rounds; ++i) x = x * 1.0000001F + 1e-9F;
  values[threadIdx.x] = x;
}

bool failed(cudaError_t status) {
  if (status != cudaSuccess) std::fprintf(stderr, "busy_gpu: %s\n", cudaGetErrorString(status));
  return status != cudaSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto bytes = static_cast<std::size_t>(std::atol(argv[1])) << 30;
  const double load = std::atof(argv[2]) / 100;
  void *memory = nullptr, *values = nullptr;
  if (bytes > 0 && failed(cudaMalloc(&memory, bytes))) return 1;
  if (failed(cudaMalloc(&values, 1024 * sizeof(float)))) return 1;
  std::printf("ready %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    if (load > 0) multiply<<<1024, 1024>>>(static_cast<float*>(values), 200000);
    if (failed(cudaDeviceSynchronize())) return 1;
    const auto spent = std::chrono::steady_clock::now() - begin;
    std::this_thread::sleep_for(load > 0 ? spent * (1 / load - 1) : std::chrono::seconds(1));
  }
}
