// The parts of the page, each markup of what it is given.
#pragma once

#include <optional>
#include <string>

#include "report/judged.hpp"
#include "thresholds/judge/nodes.hpp"
#include "thresholds/units/peers.hpp"

namespace shakedown {

/// What all parts look at, made once.
struct Page {
  explicit Page(const Judged&);

  const Judged& judged;
  const Verdict& verdict;
  NodeList nodes;
  const Profile* profile = nullptr;  // that the run was judged by
  const Context* context = nullptr;  // of the launch with the most ranks; null: nothing but a verdict
  UnitTable peers;                   // empty without results
};

/// So many GPUs, hosts or findings are shown one by one; of more the worst.
inline constexpr std::size_t max_gpus = 50, max_matrices = 8, max_findings = 3000;

std::string first_screen(const Page&);
std::string culprits_section(const Page&);
std::string figures(const Page&);
std::string rounds_section(const Page&);
std::string fleet_section(const Page&);
std::string findings_section(const Page&);
std::string scaling_section(const Page&);
std::string facts_section(const Page&);
std::string reproduce_section(const Page&);

/// A whole page with this title and this markup in its body.
std::string html_page(const std::string& title, const std::string& body);

/// "<section id=...><h2>title</h2>body</section>", with the words of `about` below the title; empty without a body.
std::string section(const std::string& id, const std::string& title, const std::string& about, const std::string& body);

/// With a capital in front.
std::string sentence(std::string text);

/// A part that is folded until somebody asks; empty without a body. `title` is text, `body` markup.
std::string folded(const std::string& title, const std::string& body);

/// "<td>text</td>", with the name of its column for narrow screens.
std::string cell(const std::string& text, const std::string& column = "");
/// The name of a measurement for people, with its key below in small.
std::string name_cell(const Key&, const std::string& metric);
std::string heads(const std::vector<std::string>& columns);

}  // namespace shakedown
