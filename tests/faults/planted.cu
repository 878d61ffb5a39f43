// Kernels for lying_cuda.cpp.
#include "tests/faults/planted.hpp"

namespace {

__global__ void write_to(int* where) { *where = 1; }
__global__ void flip_lowest_bit(unsigned* word) { *word ^= 1; }
__global__ void make_one_percent_more(float* value) { *value *= 1.01F; }

}  // namespace

void write_to_illegal_address(cudaStream_t stream) { write_to<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(16)); }

void flip_lowest_bit(void* word, cudaStream_t stream) {
  flip_lowest_bit<<<1, 1, 0, stream>>>(static_cast<unsigned*>(word));
}

void make_one_percent_more(float* value, cudaStream_t stream) {
  make_one_percent_more<<<1, 1, 0, stream>>>(static_cast<float*>(value));
}
