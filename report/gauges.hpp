// Gauges in the text format of Prometheus.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shakedown {

using Labels = std::vector<std::pair<const char*, std::string>>;

/// Collects the samples of each gauge under one HELP and TYPE. Writes each series once, because a duplicate makes the
/// whole file invalid.
class Gauges {
 public:
  void add(const std::string& name, const char* help, const Labels& labels, double value);
  std::string text() const;

 private:
  struct Gauge {
    const char* help = "";
    std::string samples;
    std::set<std::string> seen;
  };
  std::map<std::string, Gauge> gauges_;
};

}  // namespace shakedown
