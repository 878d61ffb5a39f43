#include "kernels/transformer/models.hpp"

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/nearest_word.hpp"
#include "base/text.hpp"
#include "models_table.hpp"

namespace shakedown::training {

Preset preset(std::string_view name) {
  std::vector<std::string> names;
  for (const ModelRow& row : models_table) {
    if (row.name == name) return row.preset;
    names.emplace_back(row.name);
  }
  throw std::invalid_argument("there is no model \"" + std::string(name) + "\"" + did_you_mean(name, names) +
                              ": choose " + joined(names));
}

}  // namespace shakedown::training
