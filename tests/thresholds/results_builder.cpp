#include "tests/thresholds/results_builder.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "thresholds/catalogue/metrics.hpp"

namespace shakedown::testing_support {

namespace {

template <class Column, class T>
Column& of(Column& ranks, std::size_t count, T nothing) {
  if (ranks.empty()) ranks.assign(count, nothing);
  return ranks;
}

nlohmann::ordered_json row_of(const std::string& key, int repetition) {
  return {{"name", key + "/manual_time"},
          {"family_index", 0},
          {"per_family_instance_index", 0},
          {"run_name", key + "/manual_time"},
          {"run_type", "iteration"},
          {"repetitions", 1},
          {"repetition_index", repetition},
          {"threads", 1},
          {"iterations", 100},
          {"real_time", 1.5},
          {"cpu_time", 1.5},
          {"time_unit", "ms"}};
}

}  // namespace

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "shakedown-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

Folder::~Folder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

const std::vector<Profile>& shipped_profiles() {
  static const auto profiles = load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds");
  return profiles;
}

std::vector<Results> stored_run_with(const std::string& key, const std::string& fact, double value) {
  auto results =
      read_results(std::vector<std::filesystem::path>{SHAKEDOWN_SOURCE_DIR "/ci/baselines/h200-sxm/2ranks/1"});
  for (Results& file : results) {
    for (Row& row : file.rows) {
      if (row.key != key) continue;
      auto& values = row.by_rank.at(fact);
      const auto last = std::make_reverse_iterator(values.end()), first = std::make_reverse_iterator(values.begin());
      *std::find_if(last, first, [](const auto& one) { return one.has_value(); }) = value;
    }
  }
  return results;
}

std::filesystem::path Folder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name) << text;
  return path_ / name;
}

ResultsBuilder::ResultsBuilder(int ranks, int hosts, const std::string& device) {
  context.suite = {"0.1.0", "abc1234", "Release", false};
  context.run_id = "run-1";
  context.started = "2026-11-21T05:00:00Z";
  context.complete = true;
  context.backend = Backend::cuda;
  context.tier = Tier::quick;
  context.world_size = ranks;
  context.hosts = hosts;
  const int per_host = (ranks + hosts - 1) / hosts;
  for (int rank = 0; rank < ranks; ++rank) {
    const int local = rank % per_host;
    context.ranks.push_back({rank, "node" + std::to_string(rank / per_host), local, device,
                             "GPU-" + std::to_string(1000 + rank), std::nullopt,
                             "0000:" + std::to_string(10 + local) + ":00.0", 300000000000, 0, "0-7"});
  }
  for (int host = 0; host < hosts; ++host) {
    const int here = std::min(per_host, ranks - host * per_host);
    context.inventory.push_back({"node" + std::to_string(host), here, here, std::nullopt, std::nullopt});
  }
  context.versions = {{"driver", "580.159"}, {"nccl", "2.28.3"}, {"cudnn", std::nullopt}};
  context.nccl.nvls = "off";
}

ResultsBuilder::ResultsBuilder(const ResultsBuilder&) = default;
ResultsBuilder::ResultsBuilder(ResultsBuilder&&) noexcept = default;
ResultsBuilder& ResultsBuilder::operator=(const ResultsBuilder&) = default;
ResultsBuilder& ResultsBuilder::operator=(ResultsBuilder&&) noexcept = default;
ResultsBuilder::~ResultsBuilder() = default;

ResultsBuilder ResultsBuilder::host(int ranks, int hosts) {
  ResultsBuilder builder(ranks, hosts, "Some CPU");
  builder.context.backend = Backend::host;
  builder.context.nccl = {};
  for (auto& rank : builder.context.ranks) rank.uuid = rank.pci = std::nullopt;
  for (auto& facts : builder.context.inventory) facts.pci_gpus = facts.visible_gpus = 0;
  return builder;
}

ResultsBuilder& ResultsBuilder::add(const std::string& key, const std::string& metric, double value, Values by_rank,
                                    const std::map<std::string, double>& more) {
  if (by_rank.empty()) by_rank.assign(context.ranks.size(), value);
  nlohmann::ordered_json row = row_of(key, repetition_of(key));
  row["samples"] = 10;
  row["cv"] = 0.001;
  row[metric] = value;
  for (const auto& [name, number] : more) row[name] = number;
  const bool large = key_number(key, "bytes").value_or(0) >= 1 << 20 && row.contains("busbw_gb_per_s");
  if (const auto seconds =
          seconds_of(key, large ? "busbw_gb_per_s" : metric, large ? row["busbw_gb_per_s"] : row[metric])) {
    row["real_time"] = *seconds * 1e3;
    for (const char* other : {"latency_us", "busbw_gb_per_s"}) {
      if (!row.contains(other) || !seconds_of(key, other, 1) || (metric == other && !large)) continue;
      row[other] = other == std::string("latency_us") ? *seconds / *seconds_of(key, other, 1)
                                                      : *seconds_of(key, other, *seconds);
      if (large && metric == other && other == std::string("latency_us"))
        by_rank.assign(context.ranks.size(), row[other].get<double>());
    }
  }
  rows.push_back(row);
  data_[key].emplace_back().by_rank = {{metric, std::move(by_rank)}};
  return *this;
}

ResultsBuilder& ResultsBuilder::repeated(int times) {
  const std::string key = key_of(rows.back()["name"].get<std::string>());
  for (int i = 1; i < times; ++i) {
    rows.push_back(nlohmann::ordered_json(rows.back()));
    rows.back()["repetition_index"] = repetition_of(key);
    data_[key].push_back(RankData(data_[key].back()));
  }
  return *this;
}

ResultsBuilder& ResultsBuilder::seconds(const Values& values) {
  const std::string key = key_of(rows.back()["name"].get<std::string>());
  for (auto& [metric, ranks] : last().by_rank) {
    double slowest = 0;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto rate = values[rank] ? seconds_of(key, metric, *values[rank]) : std::nullopt;  // its own inverse
      if (!rate) continue;
      ranks[rank] = rate;
      if (*values[rank] <= slowest) continue;
      slowest = *values[rank];
      rows.back()[metric] = *rate;
      rows.back()["real_time"] = slowest * 1e3;
      if (rows.back().contains("latency_us")) rows.back()["latency_us"] = slowest * 1e6;
    }
  }
  return by_rank("seconds", values);
}

ResultsBuilder& ResultsBuilder::by_rank(const std::string& name, Values values) {
  nlohmann::ordered_json& row = rows.back();
  if (name == "capacity_gb" && row.contains("hbm_gb_per_s") && values.front())
    row["real_time"] = 2e3 * *values.front() / row["hbm_gb_per_s"].get<double>();
  if (name == "capacity_gb" && row.contains("loaded_gb_per_s") && values.front())  // moving inversions
    row["real_time"] = 6e3 * *values.front() / row["loaded_gb_per_s"].get<double>();
  last().by_rank[name] = std::move(values);
  return *this;
}

RankData& ResultsBuilder::last() { return data_[key_of(rows.back()["name"].get<std::string>())].back(); }

ResultsBuilder& ResultsBuilder::throttle(std::size_t rank, const Throttle& reasons) {
  for (const auto& [reason, part] : reasons) of(last().throttle[reason], context.ranks.size(), 0.0)[rank] = part;
  return *this;
}

ResultsBuilder& ResultsBuilder::errors(std::size_t rank, const ErrorCounts& errors, int rows_of_reading) {
  for (const auto& [counter, count] : errors)
    of(last().errors[counter], context.ranks.size(), std::uint64_t{0})[rank] = count;
  last().errors_rows = rows_of_reading;
  return *this;
}

ResultsBuilder& ResultsBuilder::add_facts(const std::string& key, const ByRank& numbers, const TextByRank& texts) {
  nlohmann::ordered_json row = row_of(key, repetition_of(key));
  row["iterations"] = 1;
  rows.push_back(row);
  RankData& data = data_[key].emplace_back();
  data.by_rank = numbers;
  data.text_by_rank = texts;
  return *this;
}

ResultsBuilder& ResultsBuilder::add_error(const std::string& key, const std::string& message,
                                          const std::vector<int>& wrong_ranks, const ByRank& numbers) {
  nlohmann::ordered_json row = row_of(key, repetition_of(key));
  row["error_occurred"] = true;
  row["error_message"] = message;
  row["real_time"] = 0.0;
  rows.push_back(row);
  RankData& data = data_[key].emplace_back();
  data.wrong_ranks = wrong_ranks;
  data.by_rank = numbers;
  return *this;
}

ResultsBuilder& ResultsBuilder::add_waiver(const std::string& key, const std::string& reason, Lack lack) {
  return add_error(key, waiver_text(reason, lack));
}

std::string ResultsBuilder::text() const {
  const nlohmann::ordered_json document = {{"context", {{"library_build_type", "debug"}}}, {"benchmarks", rows}};
  return write_results(document.dump(), context, data_);
}

Results ResultsBuilder::results(const std::string& name) const {
  const Folder folder;
  Results read = read_results(folder.write(name, text()));
  read.file = name;
  return read;
}

int ResultsBuilder::repetition_of(const std::string& key) const {
  const auto found = data_.find(key);
  return found == data_.end() ? 0 : static_cast<int>(found->second.size());
}

std::optional<double> ResultsBuilder::seconds_of(const std::string& key, const std::string& metric,
                                                 double value) const {
  const Metric* known = find_metric(Key(key), metric);
  Scale scale;
  scale.ranks = context.world_size;
  return known == nullptr ? std::nullopt : implied_seconds(*known, Key(key), value, scale);
}

std::vector<Profile> profile(const std::string& rules, const std::string& more) {
  const Folder folder;
  return load_profiles(
      folder.write("test.yaml",
                   "schema: 2\nprofile: test\nmatch: {backend: cuda, device: \"NVIDIA H200\"}\n"
                   "peak: {bf16_tflops: 989.4, hbm_gb_per_s: 4800, nvlink_gb_per_s: 450, source: s}\n" +
                       more + "rules:\n" + rules));
}

}  // namespace shakedown::testing_support
