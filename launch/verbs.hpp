// The verbs of shakedown: a table, and the help that it gives.
#pragma once

#include <cstddef>
#include <string>

#include "launch/words.hpp"
#include "report/arguments.hpp"
#include "report/reason.hpp"

namespace shakedown {

struct Call {
  Words words;  // the words after the verb
  Arguments arguments;
  const ReasonChannel& channel;
};

struct Verb {
  std::string name;   // such as "baseline create"
  std::string usage;  // usage text after the name of the verb
  std::string help;
  enum { words, flags, arguments } reads;  // parsed by the verb itself, by the flag table, or by Arguments
  int (*run)(const Call&);
  std::ptrdiff_t operands = 0;  // number of words before and between the flags that are not flags

  std::string taker() const;    // name of the verb in the flag table
  std::ptrdiff_t size() const;  // number of words in the name
};

/// Returns the verb with which the words begin; nullptr if they begin with none.
const Verb* verb_of(const Words&);

/// Throws InputError with the verbs that exist.
[[noreturn]] void refuse_verb(const Words&);

/// Prints the help of all verbs that begin with these words, or that of the program if there are none.
int show_help(Words);

}  // namespace shakedown
