// The ledger: events in files, the state of each node, the way of each GPU, and the course of each figure.
#include "thresholds/ledger/ledger.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <thread>

#include "tests/thresholds/results_builder.hpp"
#include "thresholds/judge/judge.hpp"
#include "thresholds/ledger/courses.hpp"
#include "thresholds/ledger/outages.hpp"
#include "thresholds/ledger/states.hpp"
#include "thresholds/rehearsal/fleet.hpp"
#include "thresholds/rules/applicability.hpp"
#include "thresholds/rules/site.hpp"

namespace shakedown::ledger_test {
namespace {

namespace fs = std::filesystem;

using testing_support::Folder;

const fs::path source = SHAKEDOWN_SOURCE_DIR;
const std::string hbm = "hbm/op:copy/engine:sm/bytes:4294967296", gemm = "gemm/dtype:bf16/m:8192/n:8192/k:8192";

std::string day(int number) { return fmt::format("2026-{:02}-{:02}T06:00:00Z", 1 + number / 28, 1 + number % 28); }

LedgerEvent event(EventKind kind, int at, const std::string& node = "node7") {
  LedgerEvent made;
  made.kind = kind;
  made.node = node;
  made.time = day(at);
  made.id = "id" + std::to_string(at);
  return made;
}

/// A run of two GPUs that measured HBM and GEMM.
LedgerEvent run(int at, NodeState outcome = NodeState::good) {
  LedgerEvent made = event(EventKind::run, at);
  made.outcome = outcome;
  made.verdict = outcome == NodeState::good ? State::pass : outcome == NodeState::bad ? State::fail : State::incomplete;
  made.whole = true;
  made.gpus = {{0, "s0", "GPU-0", "H200"}, {1, "s1", "GPU-1", "H200"}};
  made.families = {"gemm", "hbm", "preflight"};
  made.figures.by_gpu = {{FigureName(hbm + " hbm_gb_per_s"), {4200, 4200}}, {FigureName(gemm + " tflops"), {700, 700}}};
  if (outcome != NodeState::bad) return made;
  made.failed = {"hbm/op:copy"};
  made.gpus[1].accused = true;
  return made;
}

LedgerEvent without(LedgerEvent made, const std::string& family) {
  made.whole = false;
  std::erase_if(made.figures.by_gpu, [&](const auto& figure) { return figure.first.key().family() == family; });
  return made;
}

std::string state(const std::vector<LedgerEvent>& events) {
  return std::string(name(node_records(events).front().state));
}

TEST(ANode, OfTheRosterWithoutARunIsNeverTested) {
  EXPECT_EQ(name(node_records({}, {"node7"}).front().state), "never tested");
  EXPECT_EQ(state({run(0, NodeState::undecided)}), "never tested");
  EXPECT_EQ(state({without(run(0), "gemm")}), "never tested") << "a part is not the whole";
}

TEST(ANode, ThatFailedIsBadUntilTwoGoodRunsMeasuredWhatFailed) {
  const LedgerEvent bad = run(1, NodeState::bad);
  EXPECT_EQ(state({run(0)}), "good");
  EXPECT_EQ(state({run(0), bad}), "bad");
  EXPECT_EQ(state({run(0), bad, run(2)}), "bad");
  EXPECT_EQ(state({run(0), bad, run(2), run(3)}), "good");
  EXPECT_EQ(state({run(0), bad, run(2), run(3, NodeState::undecided), run(4)}), "good");
  EXPECT_EQ(state({run(0), bad, without(run(2), "hbm"), without(run(3), "hbm")}), "bad") << "HBM was not measured";
  EXPECT_EQ(state({run(0), bad, without(run(2), "gemm"), without(run(3), "gemm")}), "good") << "HBM alone had failed";
  EXPECT_EQ(state({bad, run(2), run(3, NodeState::bad), run(4)}), "bad") << "the count starts again";
}

TEST(ANode, WithGpusIsNotProvenByItsProcessors) {
  LedgerEvent host_only = run(2);
  host_only.verdict = State::host_only;
  EXPECT_EQ(state({run(0, NodeState::bad), run(1), host_only}), "bad");
  for (LedgerGpu& gpu : host_only.gpus) gpu.serial = gpu.uuid = std::nullopt;
  EXPECT_EQ(state({host_only}), "good") << "a node without GPUs";
}

TEST(ARepair, OfALostGpuNamesTheNewOneAlone) {
  LedgerEvent bad = run(0, NodeState::bad);
  bad.gpus = {{0, "s1", "GPU-1", "H200"}};  // s0 was lost, and the other one has its number
  const std::vector<LedgerEvent> events{bad, event(EventKind::repaired, 1), run(2)};
  const auto nodes = node_records(events);
  ASSERT_EQ(nodes.front().repairs.front().replaced.size(), 1u);
  EXPECT_EQ(nodes.front().repairs.front().replaced[0].before, "");
  EXPECT_EQ(nodes.front().repairs.front().replaced[0].after, "s0");
}

TEST(ANode, IsDrainedRepairedProvenAndReturned) {
  std::vector<LedgerEvent> events{run(0, NodeState::bad), event(EventKind::drained, 1)};
  EXPECT_EQ(state(events), "drained");
  events.push_back(event(EventKind::repaired, 2));
  EXPECT_EQ(state(events), "repaired");
  events.push_back(run(3));
  EXPECT_EQ(state(events), "repaired");
  events.push_back(run(4));
  EXPECT_EQ(state(events), "proven again");
  events.push_back(event(EventKind::returned, 5));
  EXPECT_EQ(state(events), "good");
}

TEST(ANode, ThatReturnsWithoutItsProofIsStillBad) {
  const std::vector<LedgerEvent> events{run(0, NodeState::bad), event(EventKind::drained, 1), run(2),
                                        event(EventKind::returned, 3)};
  EXPECT_EQ(state(events), "bad");
}

TEST(ANode, WhoseRunsPrecedeTheRepairIsNotProvenByThem) {
  EXPECT_EQ(state({run(0, NodeState::bad), run(1), event(EventKind::repaired, 2), run(3)}), "repaired");
}

TEST(ARepair, HasTheRunsBeforeAndAfterAndTheNewSerialNumber) {
  LedgerEvent first = run(3), second = run(4);
  for (LedgerEvent* const proof : {&first, &second}) proof->gpus[1] = {1, "s9", "GPU-9", "H200"};
  const std::vector<LedgerEvent> events{run(0, NodeState::bad), event(EventKind::repaired, 2), first, second, run(5)};
  const auto nodes = node_records(events);
  ASSERT_EQ(nodes.front().repairs.size(), 1u);
  const Repair& repair = nodes.front().repairs.front();
  EXPECT_EQ(repair.before->id, "id0");
  ASSERT_EQ(repair.after.size(), 2u);
  EXPECT_EQ(repair.after[0]->id + repair.after[1]->id, "id3id4");
  ASSERT_EQ(repair.replaced.size(), 1u);
  EXPECT_EQ(repair.replaced[0].before + " " + repair.replaced[0].after, "s1 s9");
}

TEST(AGpu, IsFollowedToAnotherNodeByItsSerialNumber) {
  LedgerEvent later = run(2);
  later.node = "node8";
  later.gpus = {{0, "s1", "GPU-1", "H200"}, {1, "s5", "GPU-5", "H200"}};
  const std::vector<LedgerEvent> events{run(0), run(1, NodeState::bad), later};
  const auto gpus = gpu_records(events);
  ASSERT_EQ(gpus.size(), 3u);
  EXPECT_EQ(gpus[1].id, "s1");
  ASSERT_EQ(gpus[1].places.size(), 2u);
  EXPECT_EQ(gpus[1].places[1].node, "node8");
  EXPECT_EQ(gpus[1].places[1].slot, 0);
  ASSERT_EQ(gpus[1].accusations.size(), 1u);
  EXPECT_EQ(gpus[1].accusations[0]->id, "id1");
  const auto courses = courses_of(events, [](const auto& unit, auto&, auto&, auto&) { return unit == "s1"; });
  ASSERT_EQ(courses.size(), 2u);
  EXPECT_EQ(courses[0].values.size(), 3u);
}

TEST(AnOutage, IsProvenUntilTheLastFailedRunAndEndsWithTheGoodOneAfterIt) {
  const std::vector<LedgerEvent> events{run(0), run(1, NodeState::bad), run(2, NodeState::bad), run(4), run(5)};
  const auto outages = outages_of(events);
  ASSERT_EQ(outages.size(), 1u) << "one GPU of two was at fault";
  EXPECT_EQ(outages[0].gpu + " " + outages[0].node + " " + outages[0].device, "s1 node7 H200");
  EXPECT_EQ(outages[0].runs.size(), 2u);
  EXPECT_DOUBLE_EQ(outages[0].proven_hours(), 24);
  ASSERT_NE(outages[0].end, nullptr);
  EXPECT_EQ(outages[0].end->id, "id4");
  EXPECT_DOUBLE_EQ(outages[0].hours(day(20)), 72);
}

TEST(AnOutage, IsNotEndedByARunThatDidNotMeasureWhatFailedOrDecidedNothing) {
  const std::vector<LedgerEvent> events{run(1, NodeState::bad), without(run(2), "hbm"), run(3, NodeState::undecided)};
  const auto outages = outages_of(events);
  ASSERT_EQ(outages.size(), 1u);
  EXPECT_EQ(outages[0].end, nullptr);
  EXPECT_DOUBLE_EQ(outages[0].hours(day(4)), 72);
  EXPECT_DOUBLE_EQ(outages[0].proven_hours(), 0);
}

TEST(AnOutage, EndsWhereTheGpuIsGoodInAnotherNodeOrAnotherGpuHasItsPlace) {
  LedgerEvent moved = run(2), replaced = run(3);
  moved.node = "node8";
  moved.gpus = {{0, "s1", "GPU-1", "H200"}};
  replaced.gpus[1] = {1, "s9", "GPU-9", "H200"};
  for (const LedgerEvent& end : {moved, replaced}) {
    const std::vector<LedgerEvent> events{run(1, NodeState::bad), end};
    const auto outages = outages_of(events);
    ASSERT_EQ(outages.size(), 1u);
    EXPECT_EQ(outages[0].end, &events[1]) << end.node;
  }
}

TEST(AnOutage, IsNotEndedByTheProcessorsByFewerGpusOrByAPartIfItIsUnknownWhatFailed) {
  LedgerEvent processors = run(2), fewer = run(2), unknown = run(1, NodeState::bad);
  processors.verdict = State::host_only;
  fewer.gpus = {fewer.gpus[0]};
  unknown.failed.clear();
  for (const auto& [bad, good] :
       {std::pair(run(1, NodeState::bad), processors), std::pair(run(1, NodeState::bad), fewer),
        std::pair(unknown, without(run(2), "gemm"))}) {
    const std::vector<LedgerEvent> events{bad, good};
    const auto outages = outages_of(events);
    ASSERT_EQ(outages.size(), 1u);
    EXPECT_EQ(outages[0].end, nullptr);
  }
}

TEST(AnOutage, OfANodeIsOneOfEachOfItsGpus) {
  LedgerEvent bad = run(1, NodeState::bad);
  bad.gpus[1].accused = false;
  const std::vector<LedgerEvent> events{bad, run(2), run(3, NodeState::bad)};
  const auto outages = outages_of(events);
  ASSERT_EQ(outages.size(), 3u) << "two of the node, and a new one of the GPU";
  EXPECT_EQ(outages[0].gpu + outages[1].gpu + outages[2].gpu, "s0s1s1");
  EXPECT_EQ(outages[2].end, nullptr);
}

/// A generated run of one machine with eight GPUs, judged, as an event.
LedgerEvent generated(std::uint64_t seed, int launch, const std::vector<rehearsal::Fault>& faults = {}) {
  static const rehearsal::Noise noise = rehearsal::read_noise(source / "thresholds/rehearsal/noise/calm.yaml");
  static const auto profiles = load_profiles(source / "thresholds");
  rehearsal::Order order;
  order.shape.hosts = 1;
  order.shape.gpus = 8;
  order.noise = noise;
  order.seed = seed;
  order.launch = static_cast<std::uint64_t>(launch);
  order.faults = faults;
  auto files = rehearsal::Fleet(order).results();
  for (Results& file : files) {
    file.context.started = day(launch);
    file.context.run_id = "run" + std::to_string(launch);
  }
  const Measured measured(std::move(files));
  const Profile* const ours = select_profile(measured.files, profiles).profile;
  return events_of(judge(measured, References({on_site(*ours, nullptr, measured)}), {}), &measured, "folder").front();
}

const auto every = [](const auto&, const auto&, const Key&, const auto&) { return true; };

TEST(AnEvent, OfARunHasOutcomeGpusFiguresAndWhatFailed) {
  const LedgerEvent good = generated(5, 0);
  EXPECT_EQ(name(good.outcome), "good") << good.reason;
  EXPECT_TRUE(good.whole);
  EXPECT_EQ(good.gpus.size(), 8u);
  EXPECT_EQ(good.tier, "quick");
  EXPECT_GT(good.figures.by_gpu.size(), 30u);
  EXPECT_GT(good.figures.shared.size(), 10u);
  EXPECT_TRUE(good.failed.empty());
  const LedgerEvent bad = generated(5, 0, {{rehearsal::Weakness::hbm, 0.1, 0, 3}});
  EXPECT_EQ(name(bad.outcome), "bad");
  EXPECT_TRUE(bad.gpus[3].accused);
  EXPECT_FALSE(bad.gpus[2].accused);
  ASSERT_FALSE(bad.failed.empty());
  for (const std::string& key : bad.failed) EXPECT_TRUE(has_measured(good, Key(key))) << key;
  EXPECT_FALSE(has_measured(without(good, "hbm"), Key("hbm/op:copy")));
}

TEST(Courses, OfHealthyRunsHaveNoChange) {
  for (std::uint64_t seed = 300; seed < 304; ++seed) {
    std::vector<LedgerEvent> events;
    for (int launch = 0; launch < 10; ++launch) events.push_back(generated(seed, launch));
    const auto courses = courses_of(events, every);
    EXPECT_GT(courses.size(), 300u);
    for (const Course& course : courses)
      EXPECT_TRUE(course.changes.empty()) << seed << " " << course.unit << " " << course.key;
  }
}

TEST(Courses, ShowWhereTheMemoryOfOneGpuBecameSlower) {
  std::vector<LedgerEvent> events;
  for (int launch = 0; launch < 10; ++launch) {
    events.push_back(generated(400, launch, {{rehearsal::Weakness::hbm, launch < 6 ? 0.0 : 0.06, 0, 3}}));
    events.back().node = launch < 8 ? "node1" : "node2";
    events.back().software["driver"] = launch < 6 ? "570.1" : "580.2";
    if (launch >= 6) events.back().outcome = NodeState::good;  // whatever the limits say
  }
  std::size_t found = 0;
  for (const Course& course : courses_of(events, every)) {
    if (course.unit != events[0].gpus[3].id()) continue;
    for (const ChangePoint& change : course.changes) {
      EXPECT_TRUE(course.key.family() == "hbm" || course.key.family() == "memtest") << course.key;
      EXPECT_NEAR(static_cast<double>(change.at), 6, 1) << course.key;
      EXPECT_EQ(name(change.change.trend), "worse");
      EXPECT_NEAR(*change.change.percent, -6, 2);
      if (change.at != 6) continue;
      EXPECT_EQ(change.software, std::vector<std::string>{"driver 570.1 -> 580.2"});
      ++found;
    }
  }
  EXPECT_GE(found, 3u);
}

TEST(ALedger, ReturnsWhatWasAddedByTime) {
  const Folder folder;
  const LedgerEvent good = generated(5, 3);
  LedgerEvent note = event(EventKind::drained, 4, "node-a7.example");
  note.reason = "fan \"2\"";
  add_event(folder.path(), note);
  add_event(folder.path(), good);
  add_event(folder.path(), good);  // the same run again
  Ledger ledger = read_ledger(folder.path());
  ASSERT_EQ(ledger.events.size(), 2u);
  EXPECT_TRUE(ledger.unreadable.empty());
  EXPECT_EQ(json_text(ledger.events[0], 1), json_text(good, 1));
  EXPECT_TRUE(ledger.events[0].figures.by_gpu.empty()) << "not needed yet";
  EXPECT_EQ(json_text(ledger.events[1], 1), json_text(note, 1));
  read_figures(folder.path(), ledger, [](const LedgerEvent&) { return true; });
  EXPECT_EQ(json_text(ledger.events[0].figures, 1), json_text(good.figures, 1));
}

TEST(ALedger, HasTheFiguresOfANodeThatFailed) {
  const Folder folder;
  for (const auto& one : {run(0, NodeState::bad), run(1), run(2)}) add_event(folder.path(), one);
  EXPECT_EQ(state(read_ledger(folder.path()).events), "good");
}

TEST(ALedger, KeepsAnEventAsItWasStored) {
  const Folder folder;
  LedgerEvent twice = run(0);
  add_event(folder.path(), twice);
  twice.outcome = NodeState::bad;
  add_event(folder.path(), twice);
  EXPECT_EQ(name(read_ledger(folder.path()).events.front().outcome), "good");
}

TEST(ALedger, NamesWhatIsNoEventAndReadsTheRest) {
  const Folder folder;
  add_event(folder.path(), run(0));
  folder.write("20260101T060000Z-node-a9-run-x.json", "{\"schema\":1,\"event\":\"run\"");
  folder.write("20260101T060000Z-node8-run-x.json", "{\"schema\":2}\n");
  folder.write("20260101T060000Z-node8-run-y.json.123.tmp", "{\"sch");
  const Ledger ledger = read_ledger(folder.path());
  EXPECT_EQ(ledger.events.size(), 1u);
  ASSERT_EQ(ledger.unreadable.size(), 2u);
  EXPECT_EQ(ledger.unreadable[0].node, "node-a9");
  EXPECT_NE(ledger.unreadable[0].why.find("node-a9-run-x.json: is not JSON"), std::string::npos);
  EXPECT_NE(ledger.unreadable[1].why.find("schema: is 2"), std::string::npos);
}

TEST(ALedger, TakesManyWritersAndOneReaderAtOnce) {
  const Folder folder;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < 50; ++i) {
        LedgerEvent one = run(i);
        one.node = "node" + std::to_string(writer);
        add_event(folder.path(), one);
      }
    });
  }
  std::size_t last = 0;
  while (last < 200) {
    const Ledger ledger = read_ledger(folder.path());
    ASSERT_TRUE(ledger.unreadable.empty()) << "a reader saw a part of an event";
    ASSERT_GE(ledger.events.size(), last);
    last = ledger.events.size();
  }
  for (std::thread& writer : writers) writer.join();
}

TEST(ALedger, OfTenThousandRunsIsReadInSeconds) {
  const Folder folder;
  const LedgerEvent one = generated(5, 0);
  add_event(folder.path(), one);
  const fs::path file = folder.path() / file_of(one);
  for (int i = 1; i < 10000; ++i) fs::create_hard_link(file, folder.path() / (std::to_string(i) + ".json"));
  const std::clock_t began = std::clock();  // of this process: other programs do not count
  const Ledger ledger = read_ledger(folder.path());
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  EXPECT_EQ(ledger.events.size(), 10000u);
  std::printf("10,000 events of %ju bytes: %.2f s\n", fs::file_size(file), seconds);
  EXPECT_LT(seconds, 4);
}

}  // namespace
}  // namespace shakedown::ledger_test
