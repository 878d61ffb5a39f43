// Tests site files: refusals, and their effect on the judgement of a cluster.
#include "thresholds/rules/site.hpp"

#include <gtest/gtest.h>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/rules/fabric_rates.hpp"

namespace shakedown::site_test {
namespace {

using testing_support::Folder;
using testing_support::profile;
using testing_support::ResultsBuilder;
using testing_support::Values;

const std::string head = "schema: 2\nsite: here\n";

Site site(const std::string& text) {
  static const Folder folder;
  return read_site(folder.write("site.yaml", head + text));
}

std::string refusal(const std::string& text) {
  try {
    site(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Site, TheExampleHasAllParts) {
  const auto example = read_site(SHAKEDOWN_SOURCE_DIR "/tests/data/site.yaml");
  EXPECT_EQ(example.name, "example");
  EXPECT_EQ(example.include, "h200-sxm");
  EXPECT_EQ(example.roster.size(), 4U);
  ASSERT_TRUE(example.fabric);
  EXPECT_EQ(example.fabric->host_gb_per_s(), 400);
  EXPECT_EQ(example.topology.at("node2"), "leaf2");
  EXPECT_EQ(example.storage.at("read_gb_per_s"), 10);
  EXPECT_EQ(example.unjudged, std::vector<std::string>{"storage"});
  const auto shipped = profiles_of(&example, load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds"));
  ASSERT_EQ(shipped.size(), 1U);
  const Measured nothing{ResultsBuilder().add("hbm/op:copy", "hbm_gb_per_s", 4000).results()};
  const auto extended = on_site(shipped.front(), &example, nothing);
  EXPECT_EQ(extended.rules.size(), shipped.front().rules.size() + 3) << "one of its own, two of storage";
  EXPECT_EQ(extended.peak.at("nic_gbit"), 400);
  EXPECT_EQ(extended.excused, std::vector<std::string>{"storage"});
  EXPECT_EQ(example.racks.at("node3"), "r2");
}

TEST(Site, ARosterMayHaveRanges) {
  const Folder folder;
  const auto roster = [&](const std::string& list) {
    return read_site(folder.write("site.yaml", "schema: 2\nsite: here\nroster: [" + list + "]\n")).roster;
  };
  EXPECT_EQ(roster("'node[08-10]', login"), (std::vector<std::string>{"node08", "node09", "node10", "login"}));
  EXPECT_THROW(roster("'node[1-3]', Node2"), InputError) << "one host twice";
}

TEST(Site, HoldsAContract) {
  const Folder folder;
  const auto judged = [&](const std::string& row, double value) {
    const auto site = read_site(folder.write("site.yaml", head + "contract: [" + row + "]\n"));
    const Measured measured{ResultsBuilder().add("hbm/op:copy", "hbm_gb_per_s", value).results()};
    const auto shipped =
        profile("  - {benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank, min: 3000, source: s}\n");
    return judge(measured, std::vector{on_site(shipped.front(), &site, measured)}, {});
  };
  const std::string row =
      "{benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank, reference: 4000, within: 5, source: page 3}";
  const auto good = judged(row, 3801), bad = judged(row, 3790);
  EXPECT_EQ(std::ranges::count_if(good.findings, [](const Finding& f) { return !f.good() && f.limit; }), 0);
  const auto missed = std::ranges::find_if(bad.findings, [](const Finding& f) { return !f.good() && f.limit; });
  ASSERT_NE(missed, bad.findings.end());
  EXPECT_EQ(missed->limit->value, 3800);
  EXPECT_EQ(missed->source, "contract: page 3");
  EXPECT_THROW(judged("{benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank, min: 4000, source: s}", 1),
               InputError);
}

TEST(Site, NamesRails) {
  EXPECT_EQ(site("rails: ['mlx5_[9-10]', mlx5_0/2]\n").rails,
            (std::vector<std::string>{"mlx5_0/2", "mlx5_10/1", "mlx5_9/1"}));
  EXPECT_NE(refusal("rails: [mlx5_0, mlx5_0/1]\n").find("rail \"mlx5_0/1\" "), std::string::npos);
  const auto fabric = "fabric: {nics: 2, nic_gbit: 400, source: order}\n";
  EXPECT_NE(refusal(fabric + std::string("rails: [mlx5_0]\n")).find("2 nics"), std::string::npos);
  EXPECT_EQ(refusal(fabric + std::string("rails: [mlx5_0, mlx5_1]\n")), "accepted");
}

TEST(Site, FloorsOfStorageHoldInTheSharedFolder) {
  const Folder folder;
  const auto site = read_site(
      folder.write("site.yaml", "schema: 2\nsite: here\nstorage: {write_gb_per_s: 5, source: the contract}\n"));
  const auto judged = [&](double written) {
    ResultsBuilder builder(8, 2);
    builder.add_facts("preflight/of:folder", {{"write_gb_per_s", Values{9, {}, {}, {}, written, {}, {}, {}}}}, {});
    const Measured measured{builder.results()};
    const auto profile = testing_support::profile(
        "  - {benchmark: \"preflight/of:folder\", metric: write_gb_per_s, every: host, min: 0.1, source: s}\n");
    auto verdict = judge(measured, std::vector{on_site(profile.front(), &site, measured)}, {});
    std::erase_if(verdict.findings, [](const Finding& f) { return f.metric != "write_gb_per_s" || f.good(); });
    return verdict.findings;
  };
  EXPECT_TRUE(judged(6).empty());
  const auto slow = judged(3);
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow.front().limit->value, 5);
  EXPECT_EQ(slow.front().source, "the contract");
  EXPECT_EQ(slow.front().worst->host, "node1");
}

TEST(Site, IsRefusedWithPlaceAndReason) {
  struct Case {
    std::string text, why;
  };
  for (const auto& [text, why] :
       std::vector<Case>{{"fabrik: {}\n", "site.yaml:3:1: unknown key"},
                         {"order: {gpus: 8}\n", "order without \"source\""},
                         {"order: {source: s}\n", "order without an item"},
                         {"order: {gpus: 0, source: s}\n", "gpus must be above 0"},
                         {"order: {gpu: 8, source: s}\n", "unknown key \"gpu\""},
                         {"fabric: {nics: 8, source: s}\n", "fabric without \"nic_gbit\""},
                         {"fabric: {nics: 8, nic_gbit: 400}\n", "fabric without \"source\""},
                         {"fabric: {nics: 0, nic_gbit: 400, source: s}\n", "nics must be at least 1"},
                         {"fabric: {nics: 8, nic_gbit: 50000, source: s}\n", "in Gb/s, such as 400"},
                         {"fabric: {nics: 8, nic_gbit: .nan, source: s}\n", "site.yaml:3:"},
                         {"roster: [a, a]\n", "host \"a\" is listed twice"},
                         {"roster: []\n", "no host"},
                         {"roster: [a, b]\ntopology: {a: l1}\n", "host \"b\" of the roster has no leaf"},
                         {"roster: [a]\ntopology: {a: l1, c: l1}\n", "host \"c\" is not in the roster"},
                         {"topology: {a: l1, a: l2}\n", "duplicate key"},
                         {"roster: [a, b]\nracks: {a: r1}\n", "host \"b\" of the roster has no rack"},
                         {"roster: [a]\nracks: {a: r1, c: r1}\n", "host \"c\" is not in the roster"},
                         {"storage: {source: s}\n", "storage without a floor"},
                         {"storage: {read_gb_per_s: -1, source: s}\n", "must be above 0"},
                         {"unjudged: [gemm, gemm]\n", "is listed twice"}}) {
    const auto said = refusal(text);
    EXPECT_NE(said.find(why), std::string::npos) << text << said;
  }
  static const Folder folder;
  const auto file = folder.write("old.yaml", "schema: 1\nsite: here\n");
  EXPECT_THROW(read_site(file), InputError);
  EXPECT_THROW(read_site(folder.path() / "nowhere.yaml"), InputError);
}

TEST(Site, OwnLimitsAreReadAsStrictlyAsThoseOfAProfile) {
  const Measured nothing{ResultsBuilder().add("hbm/op:copy", "hbm_gb_per_s", 4000).results()};
  const auto base =
      profile("  - {benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank, min: 3000, source: s}\n");
  const auto with = [&](const std::string& rule) {
    const auto own = site("rules:\n  - " + rule + "\n");
    return on_site(base.front(), &own, nothing);
  };
  EXPECT_EQ(with("{benchmark: \"p2p/op:x\", metric: copy_gb_per_s, every: rank, min: 1, source: s}").rules.size(), 2U);
  EXPECT_THROW(with("{benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank, min: 4000, ranks: 8, source: s}"),
               InputError)
      << "it judges a part of what the profile judges";
  EXPECT_THROW(with("{benchmark: \"hbm/op:add\", metric: hbm_gb_per_s, every: rank, min: 9000, source: s}"), InputError)
      << "above what physics allows";
}

TEST(Site, ARuleReplacesAShippedOneAndTheFindingNamesIt) {
  ResultsBuilder copies(8, 1);
  copies.add("hbm/op:copy", "hbm_gb_per_s", 3500);
  const Measured measured{copies.results()};
  const std::string shipped =
      "  - {benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank, min: 4000, source: data sheet}\n";
  const auto judged = [&](const std::string& rule) {
    const auto own = site("rules:\n  - {" + rule + "}\n");
    auto verdict = judge(measured, std::vector{on_site(profile(shipped).front(), &own, measured)}, {});
    std::erase_if(verdict.findings, [](const Finding& f) { return f.key != "hbm/op:copy"; });
    return verdict.findings;
  };
  const std::string subject = "benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank";
  // Another severity does not keep the shipped rule in force.
  for (const auto* severity : {"", ", severity: warn"}) {
    const auto findings = judged(subject + ", min: 3400, source: the first delivery" + severity);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings.front().status, Status::pass);
    EXPECT_EQ(findings.front().source, "the first delivery");
    EXPECT_NE(findings.front().detail.find("data sheet"), std::string::npos) << findings.front().detail;
  }
  const auto stricter = judged(subject + ", min: 3600, source: s");
  ASSERT_EQ(stricter.size(), 1U);
  EXPECT_EQ(stricter.front().status, Status::fail);
  EXPECT_EQ(stricter.front().limit->value, 3600);
  EXPECT_EQ(judged(subject + ", tier: full, severity: warn, min: 3400, source: s").size(), 1U)
      << "a rule for another tier replaces nothing";
  const auto two =
      site("rules:\n  - {" + subject + ", min: 3400, source: a}\n  - {" + subject + ", max: 5, source: b}\n");
  EXPECT_THROW(on_site(profile(shipped).front(), &two, measured), InputError) << "two of its own";
}

TEST(Site, OfAnUnknownProfileIsRefused) {
  const auto own = site("include: h300\n");
  EXPECT_THROW(profiles_of(&own, load_profiles(SHAKEDOWN_SOURCE_DIR "/thresholds")), InputError);
}

// Published healthy clusters are within the limits and above the floors.
TEST(FabricRates, HoldForPublishedHealthyClusters) {
  struct Published {
    double hosts, ranks, host_gb_per_s, one_host, busbw;
    const char* source;
  };
  for (const auto& [hosts, ranks, network, one_host, busbw, source] : {
           Published{2, 16, 200, 235.0, 192, "A100, ring, 8 x 200G: NVIDIA/nccl issues 812, 1576"},
           Published{2, 16, 400, 478.9, 475, "H200, 8 x NDR: NVIDIA/nccl-tests issue 272"},
       }) {
    const double expected = std::min(allreduce_limit({hosts, ranks, network}), one_host);
    EXPECT_LE(busbw, allreduce_limit({hosts, ranks, network}) * 1.02) << source;
    EXPECT_GE(busbw, allreduce_part * expected) << source;
  }
  EXPECT_NEAR(allreduce_limit({2, 16, 400}), 750, 1);
  EXPECT_NEAR(allreduce_limit({8, 64, 400}), 450, 1);
  EXPECT_NEAR(alltoall_limit({2, 16, 400}), 50 * 15.0 / 8, 0.01);
}

const std::string gib = "bytes:1073741824";

/// Two hosts with eight GPUs each, as they are measured.
ResultsBuilder cluster(double world, double alltoall = 80, double pair = 47, int hosts = 2, double pair_sum = 380) {
  ResultsBuilder made(8 * hosts, hosts);
  made.add("hbm/op:copy", "hbm_gb_per_s", 4000);
  made.add("allreduce/dtype:f32/" + gib, "busbw_gb_per_s", world).repeated();
  made.add("allreduce/dtype:f32/" + gib + "/scope:node", "busbw_gb_per_s", 400);
  made.add("collectives/op:alltoall/dtype:f32/" + gib, "busbw_gb_per_s", alltoall).repeated();
  testing_support::Values partners;
  for (int rank = 0; rank < 8 * hosts; ++rank) partners.emplace_back(rank % 16 < 8 ? rank + 8 : rank - 8);
  for (int round = 0; round < 3; ++round) {
    made.add("pairs/op:sendrecv/scope:any/round:" + std::to_string(round) + "/" + gib, "busbw_gb_per_s", pair);
    made.by_rank("partner", partners);
  }
  made.add("pairs/op:allreduce/scope:any/round:0/" + gib, "busbw_gb_per_s", pair_sum);
  made.by_rank("partner", partners);
  return made;
}

const std::string rules =
    "  - {benchmark: \"hbm/op:copy\", metric: hbm_gb_per_s, every: rank, min: 3000, source: s}\n"
    "  - {benchmark: \"allreduce/dtype:f32/bytes:1073741824\", metric: busbw_gb_per_s, every: run, min: 370, ranks: 8, "
    "hosts: 1, source: s}\n";

Verdict judged(const ResultsBuilder& results, const std::string& site_text) {
  const Measured measured{results.results()};
  const auto own = site_text.empty() ? std::nullopt : std::optional(site(site_text));
  auto profiles = profile(rules);
  for (auto& one : profiles) one = on_site(one, own ? &*own : nullptr, measured);
  return judge(measured, profiles, {});
}

const std::string ndr = "fabric: {nics: 8, nic_gbit: 400, source: \"order\"}\n";

std::string text_of(const Verdict& verdict) {
  std::string text = verdict_line(verdict) + "\n";
  for (const auto& finding : verdict.findings) {
    if (finding.good()) continue;
    text += finding.key.text() + ": " + std::string(name(finding.status)) + " " + finding.detail + "\n";
  }
  return text;
}

TEST(Cluster, OfTwoHealthyHostsPassesWithASiteFile) {
  const auto verdict = judged(cluster(380), ndr);
  EXPECT_EQ(verdict.state, State::pass) << text_of(verdict);
}

TEST(Cluster, WithoutAReferenceBetweenHostsHasNone) {
  const auto verdict = judged(cluster(380), "");
  EXPECT_EQ(verdict.state, State::no_reference) << text_of(verdict);
}

TEST(Cluster, MissesFloorsThatFollowFromTheNetworkAndFromOneHost) {
  // With two hosts one reaches 400 GB/s, and the floor is 0.72 of it.
  for (const auto& results : {cluster(250), cluster(380, 60), cluster(380, 80, 40), cluster(380, 80, 47, 2, 280)}) {
    const auto verdict = judged(results, ndr);
    EXPECT_EQ(verdict.state, State::fail) << text_of(verdict);
  }
  // With half the network rate, half of the value is healthy.
  const auto half = "fabric: {nics: 4, nic_gbit: 400, source: s}\n";
  const auto healthy = cluster(300, 40, 23.5, 2, 300);
  EXPECT_EQ(judged(healthy, half).state, State::pass) << text_of(judged(healthy, half));
}

TEST(Cluster, FasterThanItsNetworkIsInvalid) {
  // The limit in GB/s: 8 rails of 50 GB/s, times 2 x 15/16 for AllReduce on 16 ranks.
  EXPECT_NE(text_of(judged(cluster(380, 80, 47, 2, 760), ndr)).find("invalid"), std::string::npos);
  EXPECT_EQ(text_of(judged(cluster(380, 80, 47, 2, 740), ndr)).find("invalid"), std::string::npos);
  EXPECT_EQ(judged(cluster(380, 80, 60), ndr).state, State::fail);
  const auto said = text_of(judged(cluster(380, 80, 60), ndr));
  EXPECT_NE(said.find("invalid"), std::string::npos) << said;
}

TEST(Cluster, TheLimitsOfOneHostHoldInsideEachHost) {
  auto slow = cluster(380);
  slow.add("allreduce/dtype:f32/" + gib + "/scope:node", "busbw_gb_per_s", 300);
  slow.add("allreduce/dtype:f32/" + gib + "/scope:node", "busbw_gb_per_s", 300);
  const auto said = text_of(judged(slow, ndr));
  EXPECT_NE(said.find("scope:node: fail"), std::string::npos) << said;
}

TEST(Cluster, NicsThatAllCameUpSlowerThanOrderedFail) {
  for (const double gbit : {400.0, 200.0}) {
    auto read = cluster(380);
    const auto all = [&](double value) { return testing_support::Values(read.context.ranks.size(), value); };
    read.add_facts("preflight/of:host", {{"ib_ports", all(8)}, {"ib_rate_gbit", all(gbit)}}, {});
    const auto verdict = judged(read, ndr);
    const bool fails = text_of(verdict).find("preflight/of:host: fail") != std::string::npos;
    EXPECT_EQ(fails, gbit < 400) << text_of(verdict);
  }
}

TEST(Cluster, RatesThatPreflightReadStandForASiteFile) {
  auto read = cluster(380);
  const auto all = [&](double value) { return testing_support::Values(read.context.ranks.size(), value); };
  read.add_facts("preflight/of:host", {{"ib_ports", all(8)}, {"ib_rate_gbit", all(400)}}, {});
  const Measured measured{read.results()};
  const auto extended = on_site(profile(rules).front(), nullptr, measured);
  const auto derived = std::count_if(extended.rules.begin(), extended.rules.end(),
                                     [](const Rule& rule) { return rule.source.find("derived") == 0; });
  EXPECT_EQ(derived, 6) << "AllReduce, AllToAll, three rounds of pairs and their AllReduce";
}

}  // namespace
}  // namespace shakedown::site_test
