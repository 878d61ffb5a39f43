// Whether the judge named what was planted in a tree, and nobody else.
#pragma once

#include <string>

#include "tests/fabric/tree.hpp"

namespace shakedown::fabric {

struct Outcome {
  bool named = true, innocent = false;
  std::string text;  // what it said
};

Outcome judge(const Tree&);

}  // namespace shakedown::fabric
