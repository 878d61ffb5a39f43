// A row of a result document while it is being made, and what rows are made with: columns by rank, and parts of keys.
#pragma once

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace shakedown::fleet {

using Json = nlohmann::ordered_json;
using Values = std::vector<double>;  // by rank; NaN stands for null
using Texts = std::vector<std::optional<std::string>>;

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Of the known ones.
double median(Values);
double largest(const Values&, double sign = 1);
/// What is faster than can be is mirrored.
double below(double value, double ceiling);

double number(const Json&);
Values numbers(const Json& array);
/// Of a key such as "p2p/op:read/src:1/dst:2" the value of a part, and the key with another one.
std::optional<double> part(const std::string& key, const std::string& name);
std::string with_part(const std::string& key, const std::string& name, int value);
/// Of the name of a row.
std::string key_of(const std::string& name);
bool starts(const std::string& text, const std::string& with);
bool has(const std::string& text, const std::string& some);

struct Row {
  std::string key;
  Json head;
  std::map<std::string, Values> by_rank = {}, throttle = {}, errors = {};
  std::map<std::string, Texts> texts = {};

  /// As it stands in the document.
  std::string text() const;
};

}  // namespace shakedown::fleet
