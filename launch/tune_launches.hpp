// The launches of `shakedown tune`: what the ranks measure with a setting, and the figures of each launch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time_limits.hpp"
#include "launch/agreement.hpp"
#include "launch/options.hpp"
#include "launch/rank_program.hpp"
#include "launch/run_folder.hpp"
#include "launch/words.hpp"
#include "thresholds/history/tuning.hpp"
#include "thresholds/results/results.hpp"

namespace shakedown {

/// The rows of one family, which a launch measures with these flags.
struct TuneWorkload {
  std::string family;
  Tier tier = Tier::quick;
  Words flags;
  std::vector<TunedRow> rows;
};

/// Returns AllReduces of these sizes in bytes.
TuneWorkload workload_of_sizes(const std::vector<std::uint64_t>& sizes);

/// Returns other collectives, such as "alltoall", of these sizes in bytes.
TuneWorkload workload_of_collectives(const Words& operations, const std::vector<std::uint64_t>& sizes);

/// Returns a short training step of GPT-2: on GPUs with 124 million parameters, else of a tiny one. It has the same
/// losses and products with each setting, and its ranks add up their gradients.
TuneWorkload workload_of_step(Backend);

/// The values of a launch, or why there are none.
struct LaunchFigures {
  std::map<TunedRow, double> values;
  std::string missing;
  std::optional<Context> context;
  double seconds = 0;
};

/// Starts the ranks with a setting.
class TuneLaunches {
 public:
  /// Errors: CannotRun if hosts do not answer.
  TuneLaunches(const AcceptOptions&, const RunFolder&, const Words& families, Signals&);

  /// Runs one launch with these variables. Errors: CannotRun after a signal.
  LaunchFigures measure(const Words& variables, const TuneWorkload&);
  /// Sets the seconds of a launch with the defaults. The time limit of later launches is a multiple of it.
  void set_usual_seconds(const TuneWorkload& workload, double seconds) { usual_s_[workload.family] = seconds; }

 private:
  Seconds limit(const std::string& family) const;
  void run_program(AcceptOptions, const TuneWorkload&, LaunchFigures&);

  const AcceptOptions& options_;
  const Programs programs_;
  const RunFolder& run_;
  Signals& signals_;
  const Launch launch_;
  std::map<std::string, double> usual_s_;
  int launches_ = 0;
};

}  // namespace shakedown
