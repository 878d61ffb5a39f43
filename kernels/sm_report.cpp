#include "kernels/sm_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shakedown {

namespace {

/// Returns the number of products in an event rate of which at least one is found with a probability of 95 %.
const double products_for_95_percent = -std::log(0.05);

bool is_used(const SmRecord& record) { return record.products > 0; }
bool is_wrong(const SmRecord& record) { return record.wrong_products > 0; }

std::string text_of(const SmRecord& record, std::size_t sm, const SmWords& words) {
  return fmt::format("{} {} has {} wrong words in {} of {} {}; the first is {}", words.sm, sm, record.wrong_words,
                     record.wrong_products, record.products, words.products, words.first(record));
}

}  // namespace

std::optional<std::size_t> wrong_sm(std::span<const SmRecord> records) {
  const auto used = std::ranges::count_if(records, is_used), wrong = std::ranges::count_if(records, is_wrong);
  if (wrong == 0 || (used > 1 && 2 * wrong >= used)) return std::nullopt;
  const auto worst = std::ranges::max_element(records, {}, &SmRecord::wrong_products);
  return static_cast<std::size_t>(worst - records.begin());
}

Check check_of(std::span<const SmRecord> records, std::size_t sms, unsigned long long products, const SmWords& words) {
  Check check;
  std::size_t used = 0, complete = 0, wrong = 0;
  const SmRecord* first = nullptr;
  for (const auto& record : records) {
    check.compared += record.products;
    check.mismatched += record.wrong_products;
    used += is_used(record) ? 1 : 0;
    complete += record.products == products ? 1 : 0;
    wrong += is_wrong(record) ? 1 : 0;
    if (is_wrong(record) && first == nullptr) first = &record;
  }
  if (const auto worst = wrong_sm(records)) {
    check.first = text_of(records[*worst], *worst, words);
    if (wrong > 1) check.first += fmt::format("; {} of {} have wrong {}", wrong, used, words.products);
  } else if (first != nullptr) {
    check.first = fmt::format("{} of {} {}s differ from the exact result, so no {} is named; {}", wrong, used, words.sm,
                              words.sm, text_of(*first, static_cast<std::size_t>(first - records.data()), words));
  } else if (used != sms || complete != sms) {
    ++check.mismatched;
    check.first = fmt::format("{} of {} {}s have compared {} {} each, expected all: the others were skipped", complete,
                              sms, words.sm, products, words.products);
  }
  return check;
}

Metrics metrics_of(std::span<const SmRecord> records, std::size_t sms, unsigned long long products) {
  double compared = 0;
  for (const auto& record : records) compared += static_cast<double>(record.products);
  const double each = static_cast<double>(products), all = each * static_cast<double>(sms);
  Metrics metrics{{"sms", static_cast<double>(std::ranges::count_if(records, is_used))}, {"products", compared}};
  if (all > 0) {
    metrics.emplace_back("share_checked", compared / all);
    metrics.emplace_back("least_rate_found", std::min(1.0, products_for_95_percent / each));
  }
  if (const auto sm = wrong_sm(records)) metrics.emplace_back("wrong_sm", static_cast<double>(*sm));
  return metrics;
}

}  // namespace shakedown
