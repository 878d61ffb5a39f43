// The readers take files: each input is written to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/files.hpp"
#include "tests/thresholds/results_builder.hpp"

namespace shakedown::fuzz {

/// The one file of this process, with this content.
inline std::filesystem::path file_with(const std::uint8_t* data, std::size_t size, const std::string& name) {
  static const testing_support::Folder folder;
  return folder.write(name, std::string(reinterpret_cast<const char*>(data), size));
}

/// Whatever is read is refused in the reader's own words, or taken; anything else that is thrown ends the program.
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
