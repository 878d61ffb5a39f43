#include "launch/demo.hpp"

#include <cstdio>
#include <map>

#include "base/text.hpp"
#include "launch/options.hpp"
#include "report/judge_apart.hpp"
#include "report/terminal.hpp"
#include "thresholds/rehearsal/fleet.hpp"

namespace shakedown {
namespace {

/// Returns the faults that --fault can plant, in the notation of the generator of fleets.
const std::map<std::string, std::string>& faults() {
  static const std::map<std::string, std::string> all{
      {"slow-hbm", "hbm:0.12"}, {"slow-gpu", "gpu:0.08"}, {"slow-link", "link:0.3"}, {"none", ""}};
  return all;
}

/// Returns results of a simulated host with 8 H200s. The names of host, serial numbers, run and fault contain "demo",
/// so that these results are not mistaken for those of a real machine.
std::vector<Results> demo_results(const std::string& fault) {
  const rehearsal::Shape shape{.hosts = 1, .gpus = 8};
  rehearsal::Order order;
  order.shape = shape;
  order.noise = rehearsal::read_noise(shipped_profiles() / "rehearsal/noise/calm.yaml");
  if (const auto& text = faults().at(fault); !text.empty()) {
    order.faults = rehearsal::placed(rehearsal::parse_faults(text), shape, order.seed);
  }
  auto all = rehearsal::Fleet(order).results();
  for (Results& results : all) {
    results.context.run_id = "demo";
    results.context.fault = "demo: " + fault;
    for (auto& rank : results.context.ranks) {
      rank.host = "demo";
      rank.serial = "demo-" + std::to_string(rank.rank);
    }
    for (auto& host : results.context.inventory) host.host = "demo";
    for (Row& row : results.rows) {
      if (!row.text_by_rank.contains("serial")) continue;
      auto& serials = row.text_by_rank.at("serial");
      for (std::size_t rank = 0; rank < serials.size(); ++rank) serials[rank] = "demo-" + std::to_string(rank);
    }
  }
  return all;
}

}  // namespace

int demo(const Arguments& given) {
  Arguments arguments = given;
  const auto folder = given.out.value_or("shakedown-demo");
  if (path_exists(folder) && line_of(folder / "run_id") != "demo") {
    throw InputError("--out: " + folder.string() + " exists and is not a demo; name another folder");
  }
  rehearsal::write(demo_results(given.fault), folder);
  replace_file(folder / "run_id", "demo\n");
  arguments.results = {folder};
  arguments.judge.allow_faults = true;
  for (const auto& [flag, file] : {std::pair{"--html", "page.html"}, {"--verdict", "verdict.json"}}) {
    arguments.outputs.emplace(flag, folder / file);
  }
  refuse_outputs_over_results(arguments.outputs);
  const Judged judged = judge_apart(arguments);
  const int code = write_all_outputs(arguments.outputs, judged, "shakedown", exit_code(judged.verdict, arguments));
  const std::string text = terminal_text(judged.verdict, style_of(arguments));
  // The headline of a FAIL and the verdict stay the last two lines.
  auto end = text.rfind('\n', text.size() - 2) + 1;
  if (!is_good(judged.verdict.state)) end = text.rfind('\n', end - 2) + 1;
  const std::string again = " --results=" + folder.string() + " --allow-faults\n";
  std::printf(
      "%sdemo: no machine was measured; a generator made these results of 8 H200s (--fault=%s); the page is %s\n"
      "  shakedown report%s  shakedown nodes%s%s",
      text.substr(0, end).c_str(), given.fault.c_str(), arguments.outputs.at("--html").c_str(), again.c_str(),
      again.c_str(), text.substr(end).c_str());
  return code;
}

}  // namespace shakedown
