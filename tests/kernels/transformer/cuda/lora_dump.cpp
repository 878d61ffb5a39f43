// lora_dump.hpp on the GPU in bf16: build/tests/cuda_lora_dump FILE --model=qwen2_7b --batch=2 --seq=4096
#include "tests/kernels/transformer/lora_dump.hpp"

#include "kernels/transformer/cuda/cuda_ops.hpp"

int main(int argc, char** argv) {
  using namespace shakedown;
  return dump_main(argc, argv, [](const DumpOptions& options) {
    const cuda::Gpu gpu(0, Placement{});
    const auto shape = dump_shape(options);
    cuda::CudaOps ops(gpu, nullptr, shape);
    dump(ops, shape, options);
  });
}
