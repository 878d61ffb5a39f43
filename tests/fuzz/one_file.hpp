// The readers need files: writes each input to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/files.hpp"
#include "tests/thresholds/results_builder.hpp"

namespace shakedown::fuzz {

/// Returns the one file of this process, with this content.
inline std::filesystem::path file_with(const std::uint8_t* data, std::size_t size, const std::string& name) {
  static const testing_support::Folder folder;
  return folder.write(name, std::string(reinterpret_cast<const char*>(data), size));
}

/// Reads an input. The reader may accept it or throw InputError; any other exception ends the program.
template <class Read>
int try_to(Read read) {
  try {
    read();
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}

}  // namespace shakedown::fuzz
