#include "launch/scaling.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/files.hpp"
#include "base/held_folder.hpp"
#include "base/shown_path.hpp"
#include "base/text.hpp"
#include "launch/hosts.hpp"
#include "launch/measure.hpp"
#include "launch/words.hpp"
#include "report/arguments.hpp"
#include "thresholds/catalogue/metrics.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

/// Returns the families in which all ranks work together. Only their results depend on the number of nodes.
Words those_that_scale(const Words& families) {
  Words found;
  std::copy_if(families.begin(), families.end(), std::back_inserter(found), [](const auto& family) {
    const auto all = metrics();
    return family == "allreduce" || std::any_of(all.begin(), all.end(), [&](const Metric& m) {
             return m.least_scaling && m.shared && m.is_of(family);
           });
  });
  return found;
}

class FewerNodes {
 public:
  FewerNodes(const AcceptOptions& options, const Launch& all, Programs programs, const RunFolder& run, Signals& signals)
      : options_(options), all_(all), programs_(std::move(programs)), run_(run), signals_(signals), lost_(all.absent) {}

  void measure(int nodes) {
    const auto own = RunFolder::take(
        run_.path() / scaling_folder / (std::to_string(nodes) + (nodes == 1 ? "node" : "nodes")), run_.id());
    const auto launch = launch_on(static_cast<std::size_t>(nodes));
    if (!launch) return end(own.path(), lost_);
    say("scaling: " + joined(programs_.families) + " on " + plural(nodes, "node") + " of " +
        std::to_string(all_.hosts.size()) + ": " + joined(launch->hosts));
    Screen screen(programs_.families);
    const auto together = measure_together(options_, *launch, programs_, own.path(), run_.id(), signals_, screen);
    // If a program does not fail and has no result, its family cannot be measured on this number of nodes.
    if (!together.something_is_missing) return;
    if (!together.died) measure_missing(*launch, own.path(), screen);
    if (missing_in(own.path(), programs_.families).empty()) return;
    auto gone = promised_hosts(*launch, together.lost);
    const auto others = silent(launch->hosts, gone);
    gone.insert(gone.end(), others.begin(), others.end());
    if (gone.empty()) return together.died ? measure_missing(*launch, own.path(), screen) : void();
    end(own.path(), gone);
    lost_.insert(lost_.end(), gone.begin(), gone.end());
  }

 private:
  /// Returns the launch on the first `nodes` of the remaining hosts; nullopt if fewer hosts remain.
  std::optional<Launch> launch_on(std::size_t nodes) {
    for (;;) {
      auto chosen = hosts_without(all_.hosts, lost_);
      if (chosen.size() < nodes) return std::nullopt;
      chosen.resize(nodes);
      std::string why;
      const auto others = hosts_without(all_.hosts, chosen);
      auto launch = launch_that_answers(options_, process_environment(), signals_, others, why);
      const auto silent = launch ? hosts_without(launch->absent, others) : chosen;
      lost_.insert(lost_.end(), silent.begin(), silent.end());
      if (!silent.empty()) continue;
      launch->hosts = chosen;
      launch->host_count = static_cast<int>(nodes);
      launch->ranks.reset();  // the expected number of ranks is that of all nodes
      launch->absent.clear();
      return launch;
    }
  }

  /// Returns the hosts that no longer answer. `gone` has hosts that are known to be lost and are not asked.
  Words silent(const Words& hosts, const Words& gone) {
    if (gone.size() == hosts.size()) return {};
    auto left_out = hosts_without(all_.hosts, hosts);
    left_out.insert(left_out.end(), gone.begin(), gone.end());
    std::string why;
    const auto left = launch_that_answers(options_, process_environment(), signals_, left_out, why);
    return hosts_without(left ? left->absent : hosts, left_out);
  }

  void measure_missing(const Launch& launch, const fs::path& folder, Screen& screen) {
    for (const auto& family : missing_in(folder, programs_.families)) {
      measure_family(options_, launch, programs_, folder, run_.id(), family, signals_, screen);
    }
  }

  static void end(const fs::path& folder, const Words& gone) {
    say("scaling: " + shown(folder).filename().string() + ": without " + joined(gone) + ", which ends this launch");
    RunFile(folder / "lost", RunFile::Mode::replace).write(joined(gone, "\n") + "\n");
  }

  const AcceptOptions& options_;
  const Launch& all_;
  const Programs programs_;
  const RunFolder& run_;
  Signals& signals_;
  Words lost_;
};

}  // namespace

std::vector<int> fewer_nodes(const AcceptOptions& options, const Launch& all, const Programs& programs) {
  if (those_that_scale(programs.families).empty()) {
    throw InputError("--scaling compares AllReduce and training steps: name one of them in --families");
  }
  const int count = static_cast<int>(all.hosts.size());
  if (all.hosts.empty() && !all.discovery.empty()) {
    throw CannotRun("--scaling chooses the nodes of each launch, but SHAKEDOWN_LAUNCH fixes them: unset it");
  }
  if (count < 2) {
    throw InputError("--scaling compares numbers of nodes, but there is one: ci/scaling compares the GPUs of a node");
  }
  std::vector<int> sizes = *options.scaling;
  if (!sizes.empty() && sizes.back() > count) {
    throw InputError("--scaling: " + std::to_string(sizes.back()) + " nodes were requested, but there are " +
                     std::to_string(count) + ": name fewer, or allocate more");
  }
  for (int nodes = 1; options.scaling->empty() && nodes < count; nodes *= 2) sizes.push_back(nodes);
  if (sizes.front() != 1) sizes.insert(sizes.begin(), 1);
  std::erase(sizes, count);
  return sizes;
}

void measure_on_fewer_nodes(const AcceptOptions& options, const Launch& all, const Programs& programs,
                            const RunFolder& run, Signals& signals) {
  Programs few = programs;
  few.families = those_that_scale(programs.families);
  if (missing_in(run.path(), few.families).size() == few.families.size()) {
    return say("scaling: no comparable benchmark was measured on all nodes");
  }
  // The launch on all nodes tunes algorithms, and the launches on fewer nodes use its choices.
  setenv("SHAKEDOWN_CHOICES", choices_beside(run.path()).c_str(), 0);
  FewerNodes launches(options, all, few, run, signals);
  for (const int nodes : fewer_nodes(options, all, programs)) launches.measure(nodes);
}

}  // namespace shakedown
