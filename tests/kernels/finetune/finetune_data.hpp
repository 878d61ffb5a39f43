// Files that the libraries of Hugging Face have made: tests/peers/huggingface_cases.py.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"

namespace shakedown::finetune {

inline std::filesystem::path stored(const char* name) {
  return std::filesystem::path(SHAKEDOWN_SOURCE_DIR) / "tests/data/finetune" / name;
}

inline std::vector<nlohmann::json> stored_lines(const char* name) {
  std::ifstream in(stored(name));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace shakedown::finetune
