// Kernels for lying_cuda.cpp.
#pragma once

#include <cuda_runtime.h>

void write_to_illegal_address(cudaStream_t);
void flip_lowest_bit(void* word, cudaStream_t);
void make_one_percent_more(float* value, cudaStream_t);
