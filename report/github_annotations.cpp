#include "report/github_annotations.hpp"

#include <map>

#include "base/text.hpp"
#include "report/words.hpp"
#include "thresholds/catalogue/key_names.hpp"
#include "thresholds/judge/headline.hpp"

namespace shakedown {
namespace {

constexpr std::size_t max_of_level = 10;

// GitHub ends a property at a comma or a colon, and a message at the end of the line.
std::string encoded(const std::string& text, const char* others) {
  std::string out;
  for (const char c : one_line(text)) {
    const bool is_special = c == '%' || std::string_view(others).find(c) != std::string_view::npos;
    out += !is_special ? std::string(1, c) : c == '%' ? "%25" : c == ',' ? "%2C" : "%3A";
  }
  return out;
}

class Annotations {
 public:
  void add(const char* level, const std::string& title, const std::string& message) {
    if (++count_[level] > max_of_level) return;
    text_ += std::string("::") + level + " title=" + encoded(title, ",:") + "::" + encoded(message, "") + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::map<std::string, std::size_t> count_;
  std::string text_;
};

}  // namespace

std::string github_annotations(const Verdict& verdict) {
  Annotations annotations;
  annotations.add(verdict.exit_code == 0 ? "notice" : "error", "Shakedown " + std::string(name(verdict.state)),
                  text_and_next(headline_of(verdict)));
  const std::string first = text(headline_of(verdict).fault);
  for (const Diagnosis& d : verdict.culprits) {
    const std::string fault = text(summary_of(d));
    if (fault != first) annotations.add(d.fails ? "error" : "notice", causes_text(d), fault);
  }
  for (const Finding* const f : unexplained_findings(verdict)) {
    const std::string name = name_text(f->key);
    annotations.add(f->counts() ? "error" : "warning", name.empty() ? joined_words(f->key, f->metric) : name,
                    summary_text(*f));
  }
  return annotations.text();
}

}  // namespace shakedown
