// Finds the cause of slow copies between GPUs: the ports of a GPU, its kernels, one direction of its ports, or a single
// link. Each slow copy gets one explanation. The functions are pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "thresholds/culprits/evidence.hpp"

namespace shakedown {

class SlowCopies {
 public:
  /// Assigns slow copies to GPUs that explain them (of_gpu). The evidence must outlive the object.
  explicit SlowCopies(const RunEvidence&);

  /// Returns, by rank, the copies that a GPU explains: all copies to and from it are slow, or all copies by its kernels
  /// are.
  const std::map<int, std::vector<Evidence>>& of_gpu() const { return of_gpu_; }

  /// True if a link inside a host is slow and no GPU explains it.
  bool has_open(const std::string& host) const;
  /// Marks all links inside a host as explained.
  void explain(const std::string& host);

  /// Returns suspects for the slow copies that are not explained yet.
  std::vector<Diagnosis> suspects();

 private:
  struct Share;
  Share share(int rank, bool as_source) const;
  bool open(const Unit& link) const;
  void explain(const Unit& link, std::vector<Evidence>&);
  void explain_copies(int rank, bool out, bool in, std::vector<Evidence>&);
  double percent(const Unit& link) const;
  double most_of_gpu(int rank, bool as_source) const;
  void judge_ports(const std::vector<int>& ranks);
  void judge_kernels();
  void judge_side(int rank, bool out, std::vector<Diagnosis>&);
  void judge_link(const Unit&, std::vector<Diagnosis>&);

  const RunEvidence& evidence_;
  std::set<Unit> explained_;
  std::map<int, std::vector<Evidence>> of_gpu_;
};

}  // namespace shakedown
