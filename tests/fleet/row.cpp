#include "tests/fleet/row.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace shakedown::fleet {

namespace {

void append(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "null";
    return;
  }
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 9).ptr;
  out.append(text, end);
}

}  // namespace

double median(Values values) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  if (values.empty()) return unknown;
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double largest(const Values& values, double sign) {
  double most = -HUGE_VAL;
  for (const double v : values) most = std::isnan(v) ? most : std::max(most, sign * v);
  return sign * most;
}

double below(double value, double ceiling) { return value > ceiling ? ceiling * ceiling / value : value; }

double number(const Json& value) { return value.is_number() ? value.get<double>() : unknown; }
Values numbers(const Json& array) {
  Values values;
  for (const auto& value : array) values.push_back(number(value));
  return values;
}

/// The number after "name:" in a key.
std::optional<double> part(const std::string& key, const std::string& name) {
  const auto at = key.find("/" + name + ":");
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(key.c_str() + at + name.size() + 2, nullptr);
}

std::string with_part(const std::string& key, const std::string& name, int value) {
  const auto at = key.find("/" + name + ":") + name.size() + 2;
  return key.substr(0, at) + std::to_string(value) + key.substr(std::min(key.find('/', at), key.size()));
}

std::string key_of(const std::string& name) {
  return name.substr(0, std::min(name.find("/iterations:"), name.find("/manual_time")));
}

bool starts(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }
bool has(const std::string& text, const std::string& some) { return text.find(some) != std::string::npos; }

std::string Row::text() const {
  std::string out = head.dump();
  out.pop_back();
  const char* comma = nullptr;
  for (const auto& [member, columns] : {std::pair{"by_rank", &by_rank}, {"throttle", &throttle}, {"errors", &errors}}) {
    if (columns->empty()) continue;
    out += ",\"" + std::string(member) + "\":{";
    comma = "";
    for (const auto& [name, values] : *columns) {
      out += comma + Json(name).dump() + ":[";
      for (std::size_t r = 0; r < values.size(); ++r) {
        if (r > 0) out += ',';
        append(out, values[r]);
      }
      out += ']';
      comma = ",";
    }
    out += '}';
  }
  comma = ",\"text_by_rank\":{";
  for (const auto& [name, values] : texts) {
    out += comma + Json(name).dump() + ":[";
    for (std::size_t r = 0; r < values.size(); ++r) {
      out += (r > 0 ? "," : "") + (values[r] ? Json(*values[r]).dump() : std::string("null"));
    }
    out += ']';
    comma = ",";
  }
  if (!texts.empty()) out += '}';
  return out + '}';
}

}  // namespace shakedown::fleet
