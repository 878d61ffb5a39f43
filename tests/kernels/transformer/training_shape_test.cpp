// The numbers of a training step against constants calculated by hand from the published configurations of Qwen2-7B and
// GPT-2.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/text.hpp"
#include "kernels/transformer/buffers.hpp"
#include "kernels/transformer/memory_plan.hpp"

namespace shakedown::training::training_shape_test {
namespace {

StepShape qwen2_7b_step(std::size_t batch, Retain retain) {
  const auto p = preset("qwen2_7b");
  return {.model = p.model, .lora = p.lora, .batch = batch, .seq = 4096, .retain = retain};
}

double planned_gb(std::size_t batch, Retain retain) {
  return static_cast<double>(plan(qwen2_7b_step(batch, retain), 2, 4, 0).bytes) / 1e9;
}

TEST(TrainingShape, CountsTheParametersOfQwen2) {
  const auto p = preset("qwen2_7b");
  const auto count = parameters(p.model, p.lora);
  EXPECT_EQ(count.total(), 7'615'616'512u);
  EXPECT_EQ(count.linears, 6'525'288'448u);
  EXPECT_EQ(count.head, 544'997'376u);
  EXPECT_EQ(count.adapters, 161'480'704u);
  const auto attention_only = preset("qwen2_7b_attention_only");
  EXPECT_EQ(parameters(attention_only.model, attention_only.lora).adapters, 40'370'176u);
}

TEST(TrainingShape, CountsTheOperationsOfAToken) {
  const auto p = preset("qwen2_7b");
  const auto flops = token_flops(p.model, p.lora, 4096);
  EXPECT_NEAR(flops.linears / 1e9, 26.101, 0.001);
  EXPECT_NEAR(flops.attention / 1e9, 2.877, 0.001);
  EXPECT_NEAR(flops.head / 1e9, 2.180, 0.001);
  EXPECT_NEAR(flops.adapters / 1e9, 0.969, 0.001);
  EXPECT_NEAR(flops.total() / 1e9, 32.13, 0.005);
  EXPECT_NEAR((flops.total() + flops.recomputed) / 1e9, 46.32, 0.005);
}

TEST(TrainingShape, CountsTheParametersOfGpt2AndOfTheEncoder) {
  for (const auto& [name, published, ours] :
       {std::tuple{"gpt2_124m", 124'439'808U, 124'475'904U}, {"encoder_163m", 162'692'689U, 162'764'928U}}) {
    auto model = preset(name).model;
    EXPECT_EQ(parameters(model, no_adapters).total(), ours) << name;
    model.vocab = 50257;
    EXPECT_EQ(parameters(model, no_adapters).total(), published) << name;
  }
}

TEST(TrainingShape, CutsModelsToTheLayersThatOneGpuTrainsAndToNothingElse) {
  for (const char* const name : {"qwen2_7b", "llama_8b", "gpt_7b_gqa"}) {
    auto model = preset(name).model;
    const auto whole = parameters(model, no_adapters);
    const auto shorter = parameters(preset(std::string(name) + "_8_layers").model, no_adapters);
    EXPECT_EQ(shorter.head, whole.head) << name;
    EXPECT_EQ(shorter.linears * model.layers, whole.linears * 8) << name;
    model.layers = 8;
    EXPECT_EQ(shorter.total(), parameters(model, no_adapters).total()) << name;
  }
}

TEST(TrainingShape, CountsTheParametersOfLlama) {
  for (const auto& [name, published] : {std::pair{"llama_8b", 8'030'261'248U},
                                        {"gpt_7b_gqa", 6'721'638'400U},
                                        {"llama2_13b", 13'015'864'320U},
                                        {"llama_70b", 70'553'706'496U}}) {
    EXPECT_EQ(parameters(preset(name).model, no_adapters).total(), published) << name;
  }
}

/// The shards of all ranks cover a model exactly once, have equal sizes, and begin at addresses aligned for wide loads.
TEST(TrainingShape, CutsAModelIntoSharesThatCoverItOnce) {
  for (const char* const name : {"gpt2_tiny", "encoder_tiny", "tiny", "qwen2_7b"}) {
    const auto model = preset(name).model;
    for (const int ranks : {2, 3, 4, 7, 64}) {
      const auto layout = flat_layout(model, no_adapters, Trains::all, 64 * static_cast<std::size_t>(ranks));
      EXPECT_EQ(layout.units.size(), model.layers + 2);
      std::vector<Piece> all;
      for (int rank = 0; rank < ranks; ++rank) {
        for (const auto& piece : pieces(layout, ranks, rank)) {
          EXPECT_EQ(piece.first % 8, 0U);
          all.push_back(piece);
        }
      }
      std::sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) { return a.first < b.first; });
      std::size_t next = 0, covered = 0;
      for (const auto& piece : all) {
        const auto& t = layout.tensors[piece.tensor];
        EXPECT_GE(piece.first, next) << text(t);
        EXPECT_GE(piece.first, t.offset);
        EXPECT_LE(piece.first + piece.count, t.end());
        next = piece.first + piece.count;
        covered += piece.count;
      }
      EXPECT_EQ(covered, parameters(model, no_adapters).total()) << name << " " << ranks;
    }
  }
}

TEST(TrainingShape, LaysOutAWholeModelInTheOrderOfTheBackwardPass) {
  const auto order = [](const char* name) {
    const auto model = preset(name).model;
    const auto tensors = parameter_tensors(model, no_adapters, Trains::all);
    std::vector<std::string> names;
    for (const auto& t : tensors) names.push_back(text(t));
    const auto last = tensors.back().offset + tensors.back().size();
    EXPECT_EQ(last, parameters(model, no_adapters).total());
    // Before the attention of layer 0, all tensors are complete except those after it in the order.
    const auto at = complete_before_attention(tensors, model, 0);
    EXPECT_EQ(std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.offset == at; })->owner,
              Owner::qkv);
    return names;
  };
  const auto gpt2 = order("gpt2_tiny"), encoder = order("encoder_tiny");
  EXPECT_EQ(gpt2.size(), 2 * 12U + 4);
  EXPECT_EQ(gpt2.front(), "final_norm weight");
  EXPECT_EQ(gpt2[2], "layer 1 norm2 weight");
  EXPECT_EQ(gpt2[24], "layer 0 norm1 weight");
  EXPECT_EQ(gpt2[26], "positions weight");
  EXPECT_EQ(gpt2.back(), "embedding weight");
  EXPECT_EQ(encoder.front(), "head weight");
  EXPECT_EQ(encoder[1], "head bias");
  EXPECT_EQ(encoder[8], "layer 1 norm1 weight");  // after the sum that precedes the MLP
}

TEST(TrainingShape, LetsMatricesDecayAlone) {
  for (const auto& t : parameter_tensors(preset("gpt2_tiny").model, no_adapters, Trains::all)) {
    EXPECT_EQ(t.decays(), t.rows > 1) << text(t);
  }
}

TEST(TrainingShape, RefusesAModelThatDoesNotExist) {
  try {
    preset("qwen2_8b");
    FAIL() << "there is no such model";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("choose qwen2_7b"), std::string::npos) << error.what();
  }
}

TEST(TrainingShape, FusesTheProjectionsThatReadTheSameInput) {
  const auto p = preset("qwen2_7b");
  const auto qkv = fused(p.model, p.lora, Linear::qkv), down = fused(p.model, p.lora, Linear::down);
  EXPECT_EQ(qkv.in, 3584u);
  EXPECT_EQ(qkv.out, 4608u);
  EXPECT_EQ(qkv.rank_total, 192u);
  ASSERT_EQ(qkv.parts.size(), 3u);
  EXPECT_EQ(qkv.parts[2].row, 4096u);
  EXPECT_EQ(qkv.parts[2].u, 128u);
  EXPECT_EQ(down.in, 18944u);
  EXPECT_EQ(down.rank_total, 64u);
  const auto attention_only = preset("qwen2_7b_attention_only");
  EXPECT_EQ(fused(attention_only.model, attention_only.lora, Linear::gate_up).rank_total, 0u);
}

TEST(TrainingShape, LaysOutTheAdaptersInTheOrderOfTheBackwardPass) {
  const auto p = preset("qwen2_7b");
  const auto tensors = parameter_tensors(p.model, p.lora);
  ASSERT_EQ(tensors.size(), 28u * 14);
  EXPECT_EQ(tensors.front().layer, 27u);
  EXPECT_EQ(tensors.front().module, Module::down);
  EXPECT_EQ(tensors.back().layer, 0u);
  EXPECT_EQ(tensors.back().module, Module::v);
  std::size_t next = 0;
  for (const auto& t : tensors) {
    EXPECT_EQ(t.offset, next);
    next += t.size();
  }
  EXPECT_EQ(next, 161'480'704u);
}

TEST(TrainingPlan, FitsWhatTheIssueAsksFor) {
  // Without workspaces and the memory of the driver and the libraries, about 2 GB in total.
  EXPECT_NEAR(planned_gb(2, Retain::rebuild), 45.0, 1.5);
  EXPECT_NEAR(planned_gb(4, Retain::rebuild), 70.5, 1.5);
  EXPECT_NEAR(planned_gb(2, Retain::all), 57.0, 1.5);
  EXPECT_NEAR(planned_gb(2, Retain::inputs), 23.0, 1.5);
}

TEST(TrainingPlan, OfGpt2IsItsStateAndWhatALayerKeeps) {
  // For each parameter a bf16 copy, a master weight, a gradient and two moments; for each token and layer 16 x 768
  // values in bf16; and 8192 rows of logits.
  const auto shape = step_shape(TrainStepSpec{.model = "gpt2_124m", .batch = 32, .seq = 1024});
  const double state = 124475904 * 18.0, kept = 32768.0 * 12 * 16 * 768 * 2, logits = 8192.0 * 50304 * 2;
  EXPECT_NEAR(static_cast<double>(plan(shape, 2, 4, 0).bytes) / (state + kept + logits), 1, 0.05);
}

/// Master weights and moments only for a shard. With sharded weights also three layers, the larger of head and
/// embedding, and the shard.
TEST(TrainingPlan, OfASharedModelHasAShareOfWhatIsShared) {
  const auto bytes = [](const char* model, Shard shard, int ranks, std::size_t layers) {
    auto shape = step_shape(
        TrainStepSpec{.model = model, .batch = 1, .seq = 1024, .ranks = ranks, .shard = shard, .rank = ranks - 1});
    shape.model.layers = layers;
    return plan(shape, 2, 4, 0).bytes;
  };
  const auto gpt2 = parameters(preset("gpt2_124m").model, no_adapters).total();
  EXPECT_EQ(bytes("gpt2_124m", Shard::none, 2, 12) - bytes("gpt2_124m", Shard::optimizer, 2, 12), 12 * gpt2 / 2);
  EXPECT_EQ(bytes("gpt2_124m", Shard::none, 4, 12) - bytes("gpt2_124m", Shard::optimizer, 4, 12), 12 * gpt2 * 3 / 4);
  const auto layer = 466'115'584U / 2;  // weights and biases of a layer of Qwen2-7B
  const auto all = parameters(preset("qwen2_7b").model, no_adapters).total();
  // Up to the alignment of slices.
  EXPECT_NEAR(static_cast<double>(bytes("qwen2_7b", Shard::none, 8, 28) - bytes("qwen2_7b", Shard::weights, 8, 28)),
              static_cast<double>(18 * all - 18 * all / 8 - 6 * (3UL * layer + 152064UL * 3584 + 3584)), 1024);
}

/// The table of docs/training_step.md, with the numbers that bench_train_step --plan --model prints.
TEST(TrainingPlan, SaysHowManyRanksAModelNeedsAsTheTableDoes) {
  const std::map<std::string, std::string> presets{{"Qwen2-7B", "qwen2_7b"},
                                                   {"Llama 3.1 8B", "llama_8b"},
                                                   {"Llama 2 13B", "llama2_13b"},
                                                   {"Llama 3.1 70B", "llama_70b"}};
  std::ifstream page(SHAKEDOWN_SOURCE_DIR "/docs/training_step.md");
  std::string line;
  while (std::getline(page, line) && line != "| model | 2 ranks | 4 | 8 | 16 | 64 |") continue;
  std::getline(page, line);
  int rows = 0;
  while (std::getline(page, line) && line.starts_with("| ")) {
    const auto what = line.substr(2, line.find(" |") - 2);
    const auto retain = what.ends_with("`retain:inputs`") ? Retain::inputs : Retain::all;
    std::string row = "| " + what;
    for (const int ranks : {2, 4, 8, 16, 64}) {
      for (const auto& each : memory_rows(
               {.model = presets.at(what.substr(0, what.find(','))), .batch = 1, .seq = 4096, .ranks = ranks}, {})) {
        if (each.shard == Shard::weights && each.retain == retain) row += fmt::format(" | {:.0f}", each.bytes / 1e9);
      }
    }
    EXPECT_EQ(row + " |", line);
    ++rows;
  }
  EXPECT_EQ(rows, 6);
}

/// GB in use on H200s, from stored results or docs/training_step.md.
TEST(TrainingPlan, LeavesLibrariesWhatTheyTook) {
  const auto needed = [](const TrainStepSpec& spec) {
    return (static_cast<double>(footprint(spec)) + library_bytes(spec)) / 1e9;
  };
  const double gpt2 = needed({.model = "gpt2_124m", .batch = 64, .seq = 1024});
  EXPECT_GT(gpt2, 26.161);
  EXPECT_LT(gpt2, 27);
  const double qwen2 = needed({.model = "qwen2_7b", .batch = 1, .seq = 4096, .ranks = 2, .shard = Shard::weights});
  EXPECT_GT(qwen2, 98.4);
  EXPECT_LT(qwen2, 99);
}

TEST(TrainingPlan, SaysOnWhichGpusAModelFits) {
  const std::vector<GpuKind> gpus{{"h100", 85e9}, {"b200", 180e9}, {"b300", 270e9}};
  const auto rows = memory_rows({.model = "llama_70b", .batch = 1, .seq = 4096, .ranks = 64, .tp = 8}, gpus);
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(joined(rows.front().fits), "b300") << "179.7 GB and libraries are more than a B200 has";
  EXPECT_EQ(joined(rows.back().fits), "h100, b200, b300");
  EXPECT_EQ(memory_rows({.model = "llama_70b", .batch = 1, .seq = 4096}, gpus).size(), 3u) << "one rank shares nothing";
  const auto text = memory_text({.model = "llama_70b", .batch = 1, .seq = 4096, .ranks = 2}, gpus);
  EXPECT_NE(text.find("none of them"), std::string::npos) << text;
  EXPECT_THROW(memory_rows({.model = "llama_70b", .batch = 1, .seq = 4096, .ranks = 12, .tp = 8}, gpus),
               std::invalid_argument);
  EXPECT_THROW(memory_rows({.model = "llama_70b", .batch = 83465, .seq = 9999320, .ranks = 64}, gpus),
               std::invalid_argument)
      << "more than fits into 64 bits would look small";
}

TEST(TrainingPlan, SaysTheLargestBatchThatFits) {
  TrainStepSpec spec{.model = "gpt2_124m", .batch = 1, .seq = 1024};
  const auto needed = [&](int batch) {
    spec.batch = batch;
    return static_cast<double>(footprint(spec)) + library_bytes(spec);
  };
  for (const int batch : {1, 2, 63, 64, 200}) {
    EXPECT_EQ(largest_batch(spec, needed(batch)), batch);
    EXPECT_EQ(largest_batch(spec, needed(batch) - 1), batch - 1);
  }
  const auto text = memory_text(spec, {{"h100", needed(64)}}, true);
  EXPECT_NE(text.find("h100 64"), std::string::npos) << text;
}

/// A row of docs/training_step.md for ranks with tensor parallelism in groups of eight.
TEST(TrainingPlan, SaysWhatAModelTakesWhereEightRanksComputeItTogether) {
  std::string row;
  for (const int ranks : {8, 16, 64, 256}) {
    const TrainStepSpec spec{.model = "llama_70b",
                             .batch = 1,
                             .seq = 4096,
                             .ranks = ranks,
                             .shard = ranks == 8 ? Shard::none : Shard::weights,
                             .tp = 8};
    row += fmt::format("{:.0f} ", static_cast<double>(plan(step_shape(spec), 2, 4, 0).bytes) / 1e9);
  }
  EXPECT_EQ(row, "180 103 44 29 ");
}

TEST(TrainingPart, HasEveryElementOfTheWholeModelOnceOrOnAllRanks) {
  for (const char* const model : {"tiny", "gpt2_tiny", "encoder_tiny"}) {
    const auto whole = preset(model).model;
    const auto tensors = parameter_tensors(whole, no_adapters, Trains::all);
    std::vector<int> taken(tensors.back().end());
    const int ranks = 2;
    const auto part = part_of(whole, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const auto& mine : flat_layout(part, no_adapters, Trains::all, 1, true).tensors) {
        const auto& t = *std::find_if(tensors.begin(), tensors.end(), [&](const auto& other) {
          return other.layer == mine.layer && other.owner == mine.owner && other.kind == mine.kind;
        });
        std::size_t next = 0;
        for (const auto& s : stretches(part, mine, ranks, rank)) {
          EXPECT_EQ(s.begin, next) << text(t);
          next += s.count;
          for (std::size_t i = 0; i < s.count; ++i) ++taken[t.offset + s.whole(i)];
        }
        EXPECT_EQ(next, mine.size()) << text(t);
        EXPECT_EQ(mine.size(), t.size() / (mine.replicated() ? 1 : ranks)) << text(t);
      }
    }
    for (const auto& t : tensors) {
      for (auto i = t.offset; i < t.end(); ++i) ASSERT_EQ(taken[i], t.replicated() ? ranks : 1) << text(t);
    }
  }
}

TEST(TrainingPart, PutsWhatAllRanksHaveBehindWhatTheyCut) {
  const auto layout = flat_layout(part_of(preset("gpt2_tiny").model, 4), no_adapters, Trains::all, 64, true);
  ASSERT_EQ(layout.units.size(), 5u);
  for (const auto& t : layout.tensors) EXPECT_EQ(t.unit == 4, t.replicated()) << text(t);
}

TEST(TrainingPlan, CutsSlicesThatDoNotOverlapAndAddUp) {
  const auto p = preset("tiny");
  for (const auto retain : {Retain::all, Retain::rebuild, Retain::inputs}) {
    const StepShape shape{.model = p.model, .lora = p.lora, .batch = 3, .seq = 5, .retain = retain};
    const auto planned = plan(shape, 2, 4, 1000);
    std::size_t end = 0;
    for (const auto& slice : planned.slices) {
      EXPECT_EQ(slice.offset % Arena::alignment, 0u) << slice.name;
      EXPECT_EQ(slice.offset, (end + Arena::alignment - 1) / Arena::alignment * Arena::alignment) << slice.name;
      end = slice.offset + slice.bytes;
    }
    EXPECT_EQ(planned.slices.back().name, "workspace");
    EXPECT_EQ(planned.slices.back().bytes, 1000u);
    EXPECT_EQ(planned.bytes, (end + Arena::alignment - 1) / Arena::alignment * Arena::alignment);
  }
}

TEST(TrainingPlan, RefusesTypesThatNoBackendHas) {
  EXPECT_THROW(plan(qwen2_7b_step(2, Retain::all), 2, 8, 0), std::invalid_argument);
}

}  // namespace
}  // namespace shakedown::training::training_shape_test
