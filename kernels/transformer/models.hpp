// The catalogue of models, whose rows are those of models.yaml.
#pragma once

#include "kernels/transformer/shape.hpp"

namespace shakedown::training {

struct ModelRow {
  std::string_view name;
  Preset preset;
};

}  // namespace shakedown::training
