#include "thresholds/culprits/software.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "thresholds/culprits/evidence.hpp"

namespace shakedown {
namespace {

/// Returns the fallbacks of a benchmark, by rank. An empty text means that the rank used none.
std::set<std::string> fallbacks_of(const Benchmark& benchmark) {
  std::set<std::string> all;
  for (const auto& text : rank_texts(benchmark, std::string(fallback_fact))) all.insert(text.value_or(""));
  return all;
}

bool is_fallback(const Benchmark& benchmark) {
  const auto all = fallbacks_of(benchmark);
  return std::any_of(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
}

Benchmarks chosen(const Benchmarks& benchmarks, bool (*wanted)(const Benchmark&)) {
  Benchmarks some = benchmarks;
  std::erase_if(some, [&](const auto& entry) { return !wanted(entry.second); });
  return some;
}

Evidence evidence_of(const Finding& f) {
  Evidence evidence{f.key, f.metric, f.judgement, f.value, std::nullopt, std::nullopt, std::nullopt};
  if (const auto compared = f.compared()) {
    evidence.expected = compared->limit.value;
    evidence.percent = 100 * compared->limit.shortfall(compared->value);
  }
  return evidence;
}

/// The findings that one missing or slow piece of software explains.
struct Explained {
  std::vector<Evidence> evidence;
  bool fails = false;
};

Diagnosis suspect(const std::string& what, Explained explained, const Context& context) {
  Diagnosis d;
  d.causes = {Cause::software};
  d.fails = explained.fails;
  d.place_count = context.ranks.size();
  d.detail = what + ": the software is slow or missing here, not a GPU, a link or NCCL";
  const auto cudnn = context.versions.find("cudnn");
  const bool has_cudnn = cudnn != context.versions.end() && cudnn->second;
  d.next = (has_cudnn ? "replace cuDNN " + *cudnn->second + " by a newer one" : "install cuDNN and build with it") +
           ", then: " + measure_command(explained.evidence.front().key, context.world_size);
  add_evidence(d, std::move(explained.evidence));
  return d;
}

}  // namespace

Benchmarks without_fallbacks(const Benchmarks& benchmarks) {
  return chosen(benchmarks, [](const Benchmark& benchmark) { return !is_fallback(benchmark); });
}

Benchmarks of_equal_software(const Benchmarks& benchmarks) {
  return chosen(benchmarks, [](const Benchmark& benchmark) { return fallbacks_of(benchmark).size() < 2; });
}

std::vector<Finding> findings_about(const Benchmarks& without_fallback, const Benchmarks& all,
                                    const std::vector<Finding>& findings) {
  std::vector<Finding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some),
               [&](const Finding& f) { return without_fallback.contains(f.key) || !all.contains(f.key); });
  return some;
}

std::vector<Diagnosis> with_software(std::vector<Diagnosis> suspects, const Benchmarks& benchmarks,
                                     const std::vector<Finding>& findings) {
  std::map<std::string, Explained> by_software;
  const Context* context = nullptr;
  for (const Finding& f : findings) {
    const auto found = benchmarks.find(f.key);
    if (found == benchmarks.end() || f.good() || !f.counts()) continue;
    const bool missing = f.code == Code::software_missing;
    if (!missing && !is_fallback(found->second)) continue;
    const auto fallbacks = fallbacks_of(found->second);
    Explained& explained = by_software[missing ? f.detail : *fallbacks.rbegin()];
    explained.fails = explained.fails || bad(f);
    explained.evidence.push_back(evidence_of(f));
    context = found->second.context;
  }
  std::vector<Diagnosis> added;
  for (auto& [what, explained] : by_software) added.push_back(suspect(what, std::move(explained), *context));
  for (Diagnosis& d : added) {
    const auto place = std::find_if(suspects.begin(), suspects.end(), [&](const Diagnosis& other) {
      return d.fails ? !other.fails || other.causes.front() != Cause::wrong_data : !other.fails;
    });
    suspects.insert(place, std::move(d));
  }
  return suspects;
}

}  // namespace shakedown
