// Errors of input that all ranks share.
#pragma once

#include <string>

#include "base/files.hpp"
#include "base/group.hpp"

namespace shakedown {

/// Runs an action on all ranks. Throws the first InputError of any rank on all of them. Collective.
template <class Action>
void together(Group& group, const Action& action) {
  const auto answers = group.gather(input_error_of(action));
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].empty()) continue;
    throw InputError((answers.size() > 1 ? "rank " + std::to_string(rank) + ": " : "") + answers[rank]);
  }
}

}  // namespace shakedown
