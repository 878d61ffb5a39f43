// Dumps ten training steps on one device for tests/peers/torch_lora_step.py --ours, which takes the same steps with
// torch and peft and compares them. FILE.losses has one loss per line. FILE.gradient has the gradient of the first step
// as raw f32 in the order of the flat array. The steps are the measured ones: the same weights, tokens and update.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/group.hpp"
#include "kernels/transformer/measured_step.hpp"

namespace shakedown {

struct DumpOptions {
  std::string file, model = "tiny";
  std::size_t layers = 0, batch = 2, seq = 16;  // layers: 0 = all layers of the model
  int steps = 10;
  bool quantized = false;
};

/// Parses FILE [--model=NAME] [--layers=N] [--batch=N] [--seq=N] [--steps=N] [--dtype=fp8]. Errors:
/// std::invalid_argument.
inline DumpOptions dump_options(int argc, char** argv) {
  DumpOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto equals = word.find('=');
    const auto value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const auto number = [&] { return std::strtoul(value.c_str(), nullptr, 10); };
    if (word.rfind("--", 0) != 0) {
      options.file = word;
    } else if (word.rfind("--model=", 0) == 0) {
      options.model = value;
    } else if (word.rfind("--layers=", 0) == 0) {
      options.layers = number();
    } else if (word.rfind("--batch=", 0) == 0) {
      options.batch = number();
    } else if (word.rfind("--seq=", 0) == 0) {
      options.seq = number();
    } else if (word.rfind("--steps=", 0) == 0) {
      options.steps = static_cast<int>(number());
    } else if (word == "--dtype=fp8") {
      options.quantized = true;
    } else {
      throw std::invalid_argument(word + ": unknown flag");
    }
  }
  if (options.file.empty()) throw std::invalid_argument("which file?");
  return options;
}

inline training::StepShape dump_shape(const DumpOptions& options) {
  auto [model, lora] = training::preset(options.model);
  if (options.layers > 0) model.layers = options.layers;
  return {.model = model, .lora = lora, .batch = options.batch, .seq = options.seq, .quantized = options.quantized};
}

/// Runs the steps and writes the files. `ops` must match `shape`; connects them.
template <class Ops>
void dump(Ops& ops, const training::StepShape& shape, const DumpOptions& options) {
  Alone group;
  training::TrainingStep<Ops> step(ops, shape);
  std::vector<int> inputs, targets;
  for (std::size_t i = 0; i < shape.tokens(); ++i) {
    inputs.push_back(training::input_token(i, shape.model.vocab));
    targets.push_back(training::target_token(i, shape.model.vocab));
  }
  const auto begin = [&] {
    step.initialize();
    step.load(inputs, targets);
  };
  ops.connect(group);
  begin();
  ops.start_tuning();
  step.run(training::measured_update, false);
  ops.synchronize();
  ops.finish_tuning(group);
  begin();

  step.run(training::measured_update);
  const auto& state = step.buffers().state;
  std::vector<typename Ops::Master> gradient(state.count);
  ops.copy_out(gradient.data(), state.gradient, state.count * sizeof(gradient[0]));
  const std::vector<float> values(gradient.begin(), gradient.end());
  std::ofstream(options.file + ".gradient", std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(values[0])));
  for (int i = 1; i < options.steps; ++i) step.run(training::measured_update);

  std::ofstream losses(options.file + ".losses");
  losses.precision(10);
  for (const auto& record : step.records()) losses << record.loss << '\n';
  losses.close();
  if (!losses) throw std::runtime_error(options.file + ": cannot be written");
}

/// Implements main: calls dump() with the options of the command line. Returns 2 if they are wrong, 1 on failure.
template <class Dump>
int dump_main(int argc, char** argv, const Dump& dump_it) {
  try {
    const auto options = dump_options(argc, argv);
    dump_it(options);
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr,
                 "%s\nuse: %s FILE [--model=NAME] [--layers=N] [--batch=N] [--seq=N] [--steps=N] [--dtype=fp8]\n",
                 error.what(), argv[0]);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace shakedown
