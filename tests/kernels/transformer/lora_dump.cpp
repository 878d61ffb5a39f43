// lora_dump.hpp on the host in f32: build/tests/lora_dump FILE --model=tiny
#include "tests/kernels/transformer/lora_dump.hpp"

#include "kernels/transformer/host/training_ops.hpp"

int main(int argc, char** argv) {
  using namespace shakedown;
  return dump_main(argc, argv, [](const DumpOptions& options) {
    host::Team team(2);
    host::HostOps<float> ops(team);
    dump(ops, dump_shape(options), options);
  });
}
