// Profiles a token of decode on this GPU: cuda_decode_profile [model] [bf16|fp8] [share] [batch] [context]. Each part
// of a token runs over all layers, alone and with the next ones, as one CUDA graph. Not a test: it prints the profile
// of one GPU.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "kernels/backends.hpp"
#include "kernels/cuda/recording.hpp"
#include "kernels/transformer/cuda/decode_ops.hpp"
#include "kernels/transformer/decode.hpp"

namespace shakedown::cuda {
namespace {

constexpr int turns = 7;

void run(const std::vector<std::string>& words) {
  const DecodeSpec spec{.model = words[0],
                        .dtype = words[1] == "fp8" ? DType::fp8_e4m3 : DType::bf16,
                        .batch = std::stoi(words[3]),
                        .context = std::stoi(words[4]),
                        .share = std::stoi(words[2])};
  CudaDevice device(0, {});
  DecodeOps ops(device.gpu(), spec);
  training::Decoder<DecodeOps> model(spec, ops);
  const std::size_t position = model.capacity() - 1, layers = model.layers().size();
  model.fill_cache(position);
  model.step(position);
  ops.synchronize();
  const auto product = [&](char part, std::size_t l) {
    return part == 'q'   ? model.qkv_product(l)
           : part == 'o' ? model.o_product(l)
           : part == 'g' ? model.gate_up_product(l)
                         : model.down_product(l);
  };
  const auto bytes = [&](char part) {
    if (part == 'a') return 0.0;
    const auto w = product(part, 0).w;
    return static_cast<double>(w.rows() * w.cols() * size_of(spec.dtype));
  };
  for (const std::string parts : {"q", "a", "o", "g", "d", "qa", "qao", "go", "gd", "ogd", "qogd", "qaogd"}) {
    const auto count = parts.size() * layers;
    const auto queue = [&](std::size_t i) {
      if (parts[i % parts.size()] == 'a') return ops.attend(model.attention(i / parts.size(), position));
      auto p = product(parts[i % parts.size()], i / parts.size());
      std::size_t next = i + 1;
      while (next < count && parts[next % parts.size()] == 'a') ++next;
      p.next = next < count ? product(parts[next % parts.size()], next / parts.size()).w : decltype(p.next){};
      p.is_next_gated = next < count && parts[next % parts.size()] == 'g';
      ops.project(p);
    };
    Recording recording;
    auto* const stream = device.gpu().stream();
    recording.record(stream, 1, [&] {
      for (std::size_t i = 0; i < count; ++i) queue(i);
    });
    std::vector<double> seconds;
    for (int turn = 0; turn < turns; ++turn) seconds.push_back(ops.seconds([&] { recording.replay(stream, 1); }));
    const double each = median(seconds) / static_cast<double>(layers);
    double of_layer = 0;
    for (const char part : parts) of_layer += bytes(part);
    std::printf("%-8s %8.2f us a layer, %8.1f MB, %8.1f GB/s\n", parts.c_str(), each * 1e6, of_layer / 1e6,
                of_layer / each / 1e9);
  }
  const auto [memory, total] = model.memory();
  const auto read = std::min<std::size_t>(total, std::size_t{8} << 30) / 16 * 16;
  std::vector<double> reads;
  for (int turn = 0; turn < turns; ++turn) reads.push_back(ops.seconds([&, from = memory] { ops.read(from, read); }));
  std::printf("reads: %.1f GB/s\n", static_cast<double>(read) / median(reads) / 1e9);
}

}  // namespace
}  // namespace shakedown::cuda

int main(int argc, char** argv) {
  std::vector<std::string> words{"llama_70b", "bf16", "8", "1", "4096"};
  for (int i = 1; i < argc && i <= static_cast<int>(words.size()); ++i)
    words[static_cast<std::size_t>(i - 1)] = argv[i];
  try {
    shakedown::cuda::run(words);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cuda_decode_profile: %s\n", e.what());
    return 1;
  }
}
