#include "kernels/transformer/buffers.hpp"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "base/files.hpp"
#include "base/text.hpp"

namespace shakedown::training {

template <Trains trains>
StepShape step_shape(const StepSpec<trains>& spec) {
  if (spec.batch < 1 || spec.seq < 1 || spec.accumulation < 1 || spec.ranks < 1) {
    throw std::invalid_argument("a training step needs at least one rank, sequence, token and micro-batch");
  }
  if (spec.tp < 1 || spec.ranks % spec.tp != 0) {
    throw std::invalid_argument(fmt::format(
        "tp:{} does not divide the {} ranks: start a multiple of it, or leave it out", spec.tp, spec.ranks));
  }
  const auto [model, lora] = preset(spec.model);
  StepShape shape{.model = model,
                  .lora = trains == Trains::all ? no_adapters : lora,
                  .trains = trains,
                  .batch = static_cast<std::size_t>(spec.batch),
                  .seq = static_cast<std::size_t>(spec.seq),
                  .accumulation = static_cast<std::size_t>(spec.accumulation),
                  .ranks = spec.ranks / spec.tp,
                  .retain = spec.retain,
                  .loss_chunk = spec.logit_rows,
                  .sums = spec.sums,
                  .bucket = (spec.bucket + sizeof(float) - 1) / sizeof(float),
                  .shard = spec.shard,
                  .masters = spec.masters,
                  .state = spec.state,
                  .rank = spec.rank / spec.tp,
                  .tensor = spec.tp,
                  .tensor_rank = spec.rank % spec.tp};
  shape.quantized = spec.dtype == DType::fp8_e4m3;
  // Each chunk reads, adds to and writes the whole gradient of the head, so chunks are large.
  if (trains == Trains::all) shape.loss_chunk = 8192;
  check(shape);
  return shape;
}
template StepShape step_shape(const LoraStepSpec&);
template StepShape step_shape(const TrainStepSpec&);

/// Checks the constraints of sharding.
void check_shares(const StepShape& s) {
  if (!s.sharded()) return;
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("shard:{} {}", name(s.shard), why));
  };
  if (s.trains == Trains::adapters) refuse("is for whole models: train one (train_step)");
  if (s.ranks < 2) refuse("needs at least two ranks: start more, or leave it out");
  if (pieces(s.layout(), s.ranks, s.ranks - 1).empty()) {
    refuse(fmt::format("leaves the last of {} ranks without parameters of this model: start fewer", s.ranks));
  }
}

/// Checks the constraints of a state in bf16.
void check_masters(const StepShape& s) {
  if (!s.in_bf16()) return;
  const auto refuse = [](const std::string& why) { throw std::invalid_argument("masters:bf16 " + why); };
  if (s.trains == Trains::adapters) refuse("is for whole models: train one (train_step)");
  if (s.shard == Shard::optimizer) refuse("has no masters that ranks could share: choose shard:weights or shard:none");
  if (s.quantized) refuse("has no products in fp8: choose f32 masters, or bf16 products");
  if (s.tensor > 1) refuse(fmt::format("cannot be combined with tp:{}: leave one of the two out", s.tensor));
}

void check(const StepShape& s) {
  const auto m = s.part();  // this call throws if the model cannot be divided
  if (s.tensor > 1 && s.trains == Trains::adapters) {
    throw std::invalid_argument(fmt::format("tp:{} is for whole models: train one (train_step)", s.tensor));
  }
  if (s.tokens() % static_cast<std::size_t>(s.tensor) != 0) {
    throw std::invalid_argument(
        fmt::format("tp:{} does not divide the {} tokens of a micro-batch: choose a seq that it "
                    "divides",
                    s.tensor, s.tokens()));
  }
  check_shares(s);
  check_masters(s);
  if (s.state == StateMemory::host && s.trains == Trains::adapters) {
    throw std::invalid_argument("state:host is for whole models: train one (train_step)");
  }
  // Keeps all byte counts below the limit of 64 bits.
  constexpr std::size_t max_tokens = std::size_t{1} << 31;
  if (s.batch > max_tokens / s.seq / s.accumulation) {
    throw std::invalid_argument(
        fmt::format("{} x {} x {} tokens of a step are more than 2^31: choose fewer", s.accumulation, s.batch, s.seq));
  }
  if (m.positions == Positions::learned && s.seq > m.context) {
    throw std::invalid_argument(
        fmt::format("the model has {} positions, and sequences of {} tokens do not fit: choose "
                    "seq:{} or less",
                    m.context, s.seq, m.context));
  }
  if (s.quantized && s.trains == Trains::adapters && s.path != AdapterPath::augmented) {
    throw std::invalid_argument("products in fp8 include the adapters: choose AdapterPath::augmented");
  }
  if (m.norms_before()) return;
  if (s.trains == Trains::adapters) {
    throw std::invalid_argument(
        "adapters are for models with norms before attention and MLP: train the whole model (train_step)");
  }
  if (s.retain == Retain::rebuild) {
    throw std::invalid_argument(
        "retain:rebuild is for models with norms before attention and MLP: choose retain:all or retain:inputs");
  }
}

Plan plan(const StepShape& shape, std::size_t element, std::size_t master, std::size_t workspace_bytes) {
  Arena host;
  auto plan = dry_run(element, master, [&]<class Element, class Master>(Arena& arena) {
    static_cast<void>(Buffers<Element, Master>(arena, host, shape, workspace_bytes));
  });
  plan.host_bytes = host.bytes();
  return plan;
}

template <Trains trains>
Plan planned(const StepSpec<trains>& s) {
  const auto element = s.dtype == DType::fp8_e4m3 ? size_of(DType::bf16) : size_of(s.dtype);
  return plan(step_shape(s), element, std::max<std::size_t>(element, 4), 0);
}
template Plan planned(const LoraStepSpec&);
template Plan planned(const TrainStepSpec&);

}  // namespace shakedown::training

namespace shakedown {

template <training::Trains trains>
StepSpec<trains> with(StepSpec<trains> s, const std::string& part) {
  const auto colon = part.find(':');
  const auto key = part.substr(0, colon), value = colon == std::string::npos ? "" : part.substr(colon + 1);
  const auto number = [&](auto& to) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to);
    if (error == std::errc() && end == value.data() + value.size() && to > 0) return;
    throw InputError(part + ": '" + value + "' is not a number above 0");
  };
  const auto word = [&]<class Enum>(Enum& to, std::initializer_list<Enum> all) {
    std::vector<std::string_view> known;
    for (const auto each : all) {
      if (name(each) == value) return void(to = each);
      known.push_back(name(each));
    }
    throw InputError(part + ": '" + value + "' is not one of " + joined(known));
  };
  using training::Data, training::Retain, training::Shard, training::StateMemory;
  if (key == "batch") {
    number(s.batch);
  } else if (key == "seq") {
    number(s.seq);
  } else if (key == "accumulation") {
    number(s.accumulation);
  } else if (key == "bucket") {
    number(s.bucket);
  } else if (key == "tp") {
    number(s.tp);
  } else if (key == "retain") {
    word(s.retain, {Retain::all, Retain::rebuild, Retain::inputs});
  } else if (key == "sums") {
    word(s.sums, {DType::f32, DType::bf16});
  } else if (key == "data") {
    word(s.data, {Data::same, Data::rank});
  } else if (key == "shard") {
    word(s.shard, {Shard::none, Shard::optimizer, Shard::weights});
  } else if (key == "masters") {
    word(s.masters, {DType::f32, DType::bf16});
  } else if (key == "state") {
    word(s.state, {StateMemory::device, StateMemory::host});
  } else {
    throw InputError(part + ": '" + key +
                     "' is not one of batch, seq, accumulation, retain, sums, bucket, shard, masters, state, data and "
                     "tp, as in batch:64");
  }
  return s;
}
template LoraStepSpec with(LoraStepSpec, const std::string&);
template TrainStepSpec with(TrainStepSpec, const std::string&);

template <training::Trains trains>
Cost cost(const StepSpec<trains>& s) {
  const auto shape = training::step_shape(s);
  return {tokens(s) * training::token_flops(shape.model, shape.lora, shape.seq, trains).total(), 0};
}
template Cost cost(const LoraStepSpec&);
template Cost cost(const TrainStepSpec&);

template <training::Trains trains>
std::size_t footprint(const StepSpec<trains>& s) {
  return training::planned(s).bytes;
}
template std::size_t footprint(const LoraStepSpec&);
template std::size_t footprint(const TrainStepSpec&);

}  // namespace shakedown
