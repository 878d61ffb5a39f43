// Judges results by a few rules for tests, and finds a finding in the verdict.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"

namespace shakedown::judged_rules {

using testing_support::profile;
using testing_support::ResultsBuilder;

inline const std::string gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";
inline const std::string allreduce = "allreduce/dtype:f32/bytes:1073741824";
inline const std::string p2p = "p2p/op:read/engine:ce/src:0/dst:1/bytes:1073741824";

inline const std::string gemm_rule =
    "  - {benchmark: \"" + gemm + "\", metric: tflops, every: rank, min: 620, source: s";
inline const std::string allreduce_rule =
    "  - {benchmark: \"" + allreduce + "\", metric: busbw_gb_per_s, every: run, min: 330, source: s";
inline const std::string p2p_rule =
    "  - {benchmark: \"p2p/op:read/engine:ce/src:*/dst:*/bytes:1073741824\", metric: copy_gb_per_s, every: rank, min: "
    "366, "
    "source: s}\n";

inline Verdict judged(const ResultsBuilder& builder, const std::string& rules, const JudgeOptions& options = {}) {
  return judge({builder.results()}, profile(rules), options);
}

inline Finding find(const Verdict& verdict, const std::string& key) {
  const auto& all = verdict.findings;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Finding& f) { return f.key == key; });
  EXPECT_NE(found, all.end()) << key << " is not in the verdict";
  return found == all.end() ? Finding{} : *found;
}

inline bool has(const Verdict& verdict, const std::string& key) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) { return f.key == key; });
}

inline void expect_state(const Verdict& verdict, State state, int exit_code) {
  EXPECT_EQ(name(verdict.state), name(state)) << verdict_line(verdict);
  EXPECT_EQ(verdict.exit_code, exit_code);
}

}  // namespace shakedown::judged_rules
