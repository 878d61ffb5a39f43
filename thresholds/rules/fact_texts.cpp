#include "thresholds/rules/fact_texts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/text.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {

bool is_at_least(std::string_view version, std::string_view least) {
  const auto next = [](std::string_view& text) {
    const auto dot = std::min(text.find('.'), text.size());
    const double number = std::atof(std::string(text.substr(0, dot)).c_str());
    text.remove_prefix(std::min(dot + 1, text.size()));
    return number;
  };
  while (!least.empty()) {
    const double have = next(version), want = next(least);
    if (have != want) return have > want;
  }
  return true;
}

std::vector<std::optional<std::string>> values_as_texts(const Benchmark& benchmark, const std::string& metric) {
  const auto numbers = rank_values(benchmark, metric);
  if (numbers.empty()) return rank_texts(benchmark, metric);
  const bool is_memory = unit_of(metric) == "GB";
  std::vector<double> known;
  for (const auto& number : numbers) {
    if (number) known.push_back(*number);
  }
  std::sort(known.begin(), known.end());
  const double middle = known.empty() ? 0 : known[known.size() / 2];
  std::vector<std::optional<std::string>> texts(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i]) continue;
    const bool near = is_memory && std::abs(*numbers[i] - middle) <= 0.01 * std::abs(middle);
    texts[i] = number_text(near ? middle : *numbers[i]);
  }
  return texts;
}

std::vector<std::string> different_texts(const Benchmark& benchmark, const std::string& metric,
                                         const std::vector<int>& ranks) {
  const auto texts = rank_texts(benchmark, metric);
  std::vector<std::string> different;
  for (const int rank : ranks) {
    if (texts.empty() || !texts[static_cast<std::size_t>(rank)]) continue;
    const std::string& text = *texts[static_cast<std::size_t>(rank)];
    if (std::find(different.begin(), different.end(), text) == different.end()) different.push_back(text);
  }
  return different;
}

}  // namespace shakedown
