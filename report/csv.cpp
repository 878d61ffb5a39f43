#include "report/csv.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/text.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

}  // namespace

std::string csv_row(const std::vector<std::string>& cells) {
  std::vector<std::string> quoted;
  for (const std::string& text : cells) quoted.push_back(cell(one_line(text)));
  return joined(quoted, ",") + "\n";
}

std::string csv_text(const Verdict& verdict) {
  std::string out = csv_row({"key", "name", "metric", "value", "unit", "limit_name", "limit", "status", "judgement",
                             "code", "rank", "host", "uuid", "serial", "pci", "detail"});
  out += csv_row({"verdict", "", "", "", "", "", "", lower(name(verdict.state)), "", "", "", "", "", "", "",
                  text(headline_of(verdict))});
  for (const Finding& f : verdict.findings) {
    const Culprit worst = f.worst.value_or(Culprit{});
    out += csv_row(
        {f.key, name_text(f.key), f.metric, number(f.value), f.unit, std::string(f.limit ? name(f.limit->kind) : ""),
         number(f.limit ? std::optional(f.limit->value) : std::nullopt), status_text(f), std::string(name(f.judgement)),
         std::string(name(f.code)), worst.rank ? std::to_string(*worst.rank) : "", worst.host, worst.uuid.value_or(""),
         worst.serial.value_or(""), worst.pci.value_or(""), f.detail});
  }
  for (const Unjudged& u : verdict.unjudged) {
    out += csv_row({u.key, name_text(u.key), u.metric, number(u.value), unit_of(u.metric), "", "", "unjudged", "", "",
                    "", "", "", "", "", u.detail});
  }
  return out;
}

}  // namespace shakedown
