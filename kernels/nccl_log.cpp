#include "kernels/nccl_log.hpp"

#include <algorithm>
#include <istream>
#include <optional>
#include <regex>

namespace shakedown {

namespace {

std::optional<NcclLink> link_in(const std::string& line) {
  static const std::regex form(
      "Channel [0-9/]+ : ([0-9]{1,8})\\[[^]]*\\] -> ([0-9]{1,8})\\[[^]]*\\].* via ([A-Za-z0-9/_-]+)");
  std::smatch found;
  if (!std::regex_search(line, found, form)) return std::nullopt;
  return NcclLink{std::stoi(found[1]), std::stoi(found[2]), found[3]};
}

std::optional<std::string> algorithm_in(const std::string& line) {
  static const std::regex form("Bytes -> Algo ([A-Z0-9_]+) proto ([A-Z0-9]+) channel");
  std::smatch found;
  if (!std::regex_search(line, found, form)) return std::nullopt;
  return found[1].str() + "/" + found[2].str();
}

}  // namespace

NcclLog read_nccl_log(std::istream& in) {
  NcclLog log;
  for (std::string line; std::getline(in, line);) {
    if (const auto link = link_in(line)) {
      if (std::find(log.links.begin(), log.links.end(), *link) == log.links.end()) log.links.push_back(*link);
    } else if (const auto algorithm = algorithm_in(line)) {
      log.algorithm = *algorithm;
    }
  }
  return log;
}

std::string problem_of_network(const std::set<std::string>& transports) {
  if (transports.empty()) {
    return "NCCL does not report its transports; unset NCCL_DEBUG, or set it to INFO with NCCL_DEBUG_FILE";
  }
  for (const auto& transport : transports) {
    if (!transport.starts_with("NET/")) return "NCCL used " + transport + ", so this row does not measure the network";
  }
  return "";
}

}  // namespace shakedown
