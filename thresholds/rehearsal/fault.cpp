#include "thresholds/rehearsal/fault.hpp"

#include <fmt/format.h>

#include "base/files.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"

namespace shakedown::rehearsal {

namespace {

constexpr double one_of_18_links = 1.0 / 18;

bool has_no_part(Weakness what) {
  return what == Weakness::lane || what == Weakness::data || what == Weakness::xid || what >= Weakness::dead_host;
}

Fault parse_fault(std::string_view text) {
  const bool is_of_rows = text.find('/') != std::string_view::npos;
  const auto colon = text.rfind(':');
  const auto what = is_of_rows ? std::optional(Weakness::rows) : named<Weakness>(text.substr(0, colon));
  if (!what) {
    throw InputError(fmt::format("fault \"{}\": is unknown; take one of {}", text, joined(words(Weakness{}))));
  }
  Fault fault{*what, *what == Weakness::lane ? one_of_18_links : 0};
  if (is_of_rows) fault.rows = text.substr(0, colon);
  if (colon == std::string_view::npos && has_no_part(*what)) return fault;
  fault.part = whole_number<double>(colon == std::string_view::npos ? "" : text.substr(colon + 1)).value_or(0);
  if (!(fault.part > 0 && fault.part < 1)) {
    throw InputError(fmt::format(
        "fault \"{}\": lacks the fraction of the rate that is lost; write a number above 0 and below 1, as in {}:0.05",
        text, name(*what)));
  }
  return fault;
}

}  // namespace

bool Fault::is_of_gpu() const { return what <= Weakness::nic; }

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const auto plus = text.find('+');
    faults.push_back(parse_fault(text.substr(0, plus)));
    text = plus == std::string_view::npos ? std::string_view() : text.substr(plus + 1);
  }
  return faults;
}

}  // namespace shakedown::rehearsal
