// Tests the events of ranks: their lines, their way to the front door, and that nothing else of ranks is understood.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "base/files.hpp"
#include "launch/event_channel.hpp"

namespace shakedown::events_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

Event row(int number, const std::string& key = "gemm/a:1") {
  return {.kind = Event::Kind::row, .key = key, .row = number, .rows = 1'000'000, .seconds = 20.5};
}

Event note(const std::string& text) { return {.kind = Event::Kind::note, .text = text}; }

TEST(Event, IsOneLineOfJsonAndBack) {
  EXPECT_EQ(event_line(row(12)), R"({"event":"row","key":"gemm/a:1","row":12,"rows":1000000,"seconds":20.5})"
                                 "\n");
  const Event lost{.kind = Event::Kind::lost, .hosts = {"nodea", "nodeb"}, .text = "two\nlines \"quoted\" \xff"};
  const auto line = event_line(lost);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  const auto read = event_in(line);
  ASSERT_TRUE(read) << line;
  EXPECT_EQ(read->hosts, lost.hosts);
  EXPECT_EQ(read->text.rfind("two lines \"quoted\"", 0), 0U) << "in one line: " << read->text;
  EXPECT_EQ(event_in(R"({"event": "refused", "why": "gpu_in_use", "text": "no"})")->why, Event::Refusal::gpu_in_use);
}

TEST(Event, StaysBelowTheLongestLine) {
  auto longest = note(std::string(1'000'000, 'x'));
  longest.hosts = Words(5000, "a-host-with-a-long-name.cluster");
  const auto read = event_in(event_line(longest));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->hosts.empty()) << "all are named, or none";
}

TEST(Event, IsNoOtherText) {
  for (const std::string line : {"",
                                 "{",
                                 "{\"event\"",
                                 R"({"event":"row"})",
                                 R"({"event":"row","key":"gemm","row":0,"rows":2})",
                                 R"({"event":"row","key":"gemm","row":3,"rows":2})",
                                 R"({"event":"row","key":"","row":1,"rows":2})",
                                 R"({"event":"row","key":"gemm","row":1.5,"rows":2})",
                                 R"({"event":"row","key":"gemm","row":-1,"rows":2})",
                                 R"({"event":"row","key":7,"row":1,"rows":2})",
                                 R"({"event":"row","key":"g","row":1,"rows":99999999999})",
                                 R"({"event":"plan","key":"gemm","rows":2})",
                                 R"({"event":"plan","key":"gemm","rows":2,"seconds":-1})",
                                 R"({"event":"plan","key":"gemm","rows":2,"seconds":1e300})",
                                 R"({"event":"plan","rows":2,"seconds":1})",
                                 R"({"event":"nosuch","text":"x"})",
                                 R"({"event":"note","text":["x"]})",
                                 R"({"event":"lost","hosts":"a"})",
                                 R"({"event":"lost","hosts":[1]})",
                                 R"({"event":"refused","why":"nosuch"})",
                                 R"({"event":7})",
                                 R"(["event"])",
                                 R"({"text":"x","event":"note"})",
                                 R"(x{"event":"note","text":"x"})",
                                 R"({"event":"note","text":"x"} x)",
                                 "[12/120] gemm/dtype:bf16, 3 s so far, 108 left (about 20.5 s)",
                                 "shakedown: timeout: gemm"}) {
    EXPECT_FALSE(event_in(line)) << line;
  }
}

/// Returns the events of a stream that arrives in pieces of this size.
std::vector<Event> events_of(const std::string& stream, std::size_t piece) {
  EventLines lines;
  std::vector<Event> events;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    lines.take(std::string_view(stream).substr(at, piece), [&](const Event& event) { events.push_back(event); });
  }
  return events;
}

TEST(EventLines, AreFoundWhateverIsBetweenThem) {
  const auto first = event_line(row(1)), second = event_line(row(2)), last = event_line(row(3));
  const auto stream = "garbage\n" + first + std::string(200'000, 'x') + "\n" + second.substr(0, 20) + "\n" + second +
                      std::string("\0\0\n", 3) + first.substr(0, 30) + second + "\r\n\n" + last + first.substr(0, 40);
  for (const std::size_t piece : {1UL, 7UL, 4096UL, stream.size()}) {
    const auto events = events_of(stream, piece);
    ASSERT_EQ(events.size(), 3U) << piece
                                 << ": a line that was cut off is none, and neither is one merged with another";
    EXPECT_EQ(events[0].row, 1);
    EXPECT_EQ(events[1].row, 2);
    EXPECT_EQ(events[2].row, 3);
  }
}

/// Returns a line that is random, or an event with some bytes changed.
std::string fuzzed_line(std::mt19937_64& random) {
  const auto up_to = [&](std::size_t most) { return static_cast<std::size_t>(random() % (most + 1)); };
  static const Words parts{"{",       "}",        "[",           "]",         ":",           ",",  "\"event\"",
                           "\"row\"", "\"plan\"", "\"key\"",     "\"a\"",     "1",           "-1", "1e999",
                           "null",    "true",     "\"rows\"",    "\"hosts\"", "\"\\u0000\"", "\\", "\"lost\"",
                           "\xff",    "\"text\"", "\"seconds\"", "\"why\"",   "{\"event\":", "0.5"};
  std::string line;
  if (up_to(1) == 0) {
    for (auto left = up_to(20); left > 0; --left) line += parts[up_to(parts.size() - 1)];
    return line;
  }
  Event event{.kind = static_cast<Event::Kind>(up_to(4)),
              .key = "gemm/a:1",
              .row = 3,
              .rows = 9,
              .seconds = 4.5,
              .hosts = {"a", "b"},
              .text = "a text"};
  line = event_line(event);
  line.pop_back();
  for (auto left = up_to(3); left > 0 && !line.empty(); --left) {
    const auto at = up_to(line.size() - 1);
    if (up_to(3) == 0)
      line.erase(at, up_to(10));
    else if (up_to(3) == 0)
      line.insert(at, parts[up_to(parts.size() - 1)]);
    else
      line[at] = static_cast<char>(random());
  }
  return line;
}

// SHAKEDOWN_FUZZED_LINES sets the number of lines: ten million take a minute or two.
TEST(EventLines, OfTheFuzzerEndNothing) {
  const char* const wanted = std::getenv("SHAKEDOWN_FUZZED_LINES");
  const long count = wanted == nullptr ? 100'000 : std::atol(wanted);
  std::mt19937_64 random(46);
  EventLines lines;
  long heard = 0, marks = 0;
  const auto hear = [&](const Event& event) {
    ++heard;
    marks += event.key == "mark" ? 1 : 0;
    const auto again = event_in(event_line(event));
    ASSERT_TRUE(again) << "what is an event once is one for ever: " << event_line(event);
    ASSERT_EQ(event_line(*again), event_line(event));
    for (const auto& text : {event.key, event.text}) ASSERT_EQ(text.find('\n'), std::string::npos);
  };
  long sent = 0;
  for (long i = 0; i < count; ++i) {
    lines.take(fuzzed_line(random), hear);
    if (i % 1000 == 999) {
      lines.take("\n" + event_line(row(1, "mark")), hear);
      ++sent;
    } else if (i % 10 != 0) {
      lines.take("\n", hear);
    }
  }
  EXPECT_EQ(marks, sent) << "events between the other lines are heard";
  EXPECT_GT(heard, count / 20);
  RecordProperty("heard", static_cast<int>(heard));
}

/// Reads the channel until a condition holds, or for ten seconds.
template <class Condition>
bool reads_until(EventChannel& channel, std::vector<Event>& events, const Condition& holds) {
  const auto deadline = Clock::now() + 10s;
  while (!holds() && Clock::now() < deadline) {
    channel.read([&](const Event& event) { events.push_back(event); });
    std::this_thread::sleep_for(5ms);
  }
  return holds();
}

/// The address without the socket, which some launchers do not pass on.
std::string by_tcp(const EventChannel& channel) {
  auto address = event_address(channel.address()).value();
  address.descriptor = -1;
  return address.text();
}

class EventsOverTcp : public testing::Test {
 protected:
  EventChannel channel{true};
  std::vector<Event> events;
};

TEST_F(EventsOverTcp, ArriveInOrder) {
  EXPECT_EQ(channel.why_not(), "");
  std::jthread rank([address = by_tcp(channel)] {
    EventSender sender(address.c_str());
    sender.send(note("first"));
    for (int i = 1; i <= 100; ++i) sender.send(row(i));
    sender.send({.kind = Event::Kind::lost, .hosts = {"nodeb"}, .text = "last"});
  });
  ASSERT_TRUE(reads_until(channel, events, [&] { return !events.empty() && events.back().text == "last"; }));
  EXPECT_EQ(events.front().text, "first");
  EXPECT_EQ(events.back().hosts, Words{"nodeb"});
  EXPECT_TRUE(channel.was_heard());
}

TEST_F(EventsOverTcp, ArriveThoughTheFrontDoorIsBusyWhenARankEnds) {
  EventSender(by_tcp(channel).c_str()).send({.kind = Event::Kind::lost, .text = "unread until now"});
  EXPECT_TRUE(reads_until(channel, events, [&] { return !events.empty(); }));
  std::this_thread::sleep_for(100ms);
  channel.read([&](const Event& event) { events.push_back(event); });
  EXPECT_EQ(events.size(), 1U) << "though the rank has called at each address";
}

// While the queue of the channel is full, the kernel drops what follows the first segment, or resets the connection.
TEST_F(EventsOverTcp, AreOneSegmentUntilTheChannelAccepts) {
  int port = 0;
  const auto listener = listen_at("127.0.0.2", port);
  const EventAddress address{-1, 0, std::string(64, '0'), {"127.0.0.2:" + std::to_string(port)}};
  const std::string text(4000, 'x');
  for (const std::size_t hosts : {2, 900}) {
    Event event{.kind = Event::Kind::lost, .hosts = Words(hosts, "node7"), .text = text};
    EventSender(address.text().c_str()).send(event);
    ASSERT_TRUE(readable(listener, 10s));
    const auto socket = accept_from(listener);
    std::string all(8192, '\0');
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(recv(socket.get(), all.data(), all.size(), 0), 0)));
    EXPECT_LE(all.size(), sizeof(Hello) + max_text_of_segment);
    const auto read = event_in(all.substr(std::min(all.size(), sizeof(Hello))));
    ASSERT_TRUE(read) << all.size();
    EXPECT_EQ(read->hosts, hosts == 2 ? event.hosts : Words());
    EXPECT_GT(read->text.size(), 800U);
  }
}

TEST_F(EventsOverTcp, OfSeveralRanksArriveFromEach) {
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([address = by_tcp(channel)] { EventSender(address.c_str()).send(note("the job ends")); });
  }
  EXPECT_TRUE(reads_until(channel, events, [&] { return events.size() == 8; }));
}

/// Connects to the channel with the address alone, or with the address and a Hello.
Socket stranger(const EventAddress& address) {
  const auto& place = address.addresses.back();
  return connect_to(place.substr(0, place.rfind(':')), std::stoi(place.substr(place.rfind(':') + 1)));
}

TEST_F(EventsOverTcp, OfStrangersAndOfTheirReplaysAreNotHeard) {
  const auto address = event_address(channel.address()).value();
  Hello hello;
  hello.from = hello.to = 0;
  const auto of_rank = sealed(hello, address.key), of_stranger = sealed(hello, std::string(64, '0'));
  const auto speaks = [&](const Hello& first, const std::string& text) {
    auto socket = stranger(address);
    EXPECT_TRUE(socket.is_open() && send_all(socket, first));
    const auto line = event_line(note(text));
    ::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL);
    return socket;
  };
  const auto rank = speaks(of_rank, "of the rank");
  ASSERT_TRUE(reads_until(channel, events, [&] { return events.size() == 1; }));
  const auto replay = speaks(of_rank, "of a replay"), other = speaks(of_stranger, "of a stranger");
  const auto silent = stranger(address);
  const auto until = Clock::now() + 300ms;
  reads_until(channel, events, [&] { return Clock::now() > until; });
  EXPECT_EQ(events.size(), 1U) << events.back().text;
}

TEST_F(EventsOverTcp, OfAFloodEndNothingAndTakeNoLongerThanATurn) {
  std::atomic<bool> is_over = false;
  std::jthread flood([&, address = event_address(channel.address()).value()] {
    Hello hello;
    hello.from = hello.to = 0;
    const auto socket = enter(address.addresses, hello, address.key, 5s);
    std::string text(1 << 16, 'x');
    for (std::size_t i = 0; i < text.size(); i += 512) event_line(note("flood")).copy(&text[i], 40);
    while (!is_over) ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
  });
  Clock::duration longest{};
  std::jthread rank([&, address = by_tcp(channel)] {
    EventSender sender(address.c_str());
    std::this_thread::sleep_for(300ms);
    sender.send(note("of the rank"));
  });
  const auto deadline = Clock::now() + 10s;
  bool is_heard = false;
  while (!is_heard && Clock::now() < deadline) {
    const auto began = Clock::now();
    channel.read([&](const Event& event) { is_heard = is_heard || event.text == "of the rank"; });
    longest = std::max(longest, Clock::now() - began);
  }
  is_over = true;
  EXPECT_TRUE(is_heard);
  EXPECT_LT(longest, 2s);
}

TEST(EventChannel, OfAProgramThatInheritsItNeedsNoNetwork) {
  EventChannel channel(false);
  const auto address = event_address(channel.address()).value();
  EXPECT_EQ(address.key, "");
  EXPECT_EQ(address.descriptor, EventChannel::descriptor_in_job);
  const auto here = EventAddress{dup(channel.descriptor()), address.inode, "", {}};
  EventSender sender(here.text().c_str());
  sender.send(row(7));
  std::vector<Event> events;
  channel.read([&](const Event& event) { events.push_back(event); });
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events.front().row, 7);
}

TEST(EventSender, WritesToNoDescriptorOfAnotherProgram) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  const Descriptor ours(ends[0]), theirs(ends[1]);
  for (const auto& address : {EventAddress{theirs.get(), 1, "", {}}.text(), std::string("no address"), std::string()}) {
    EventSender(address.c_str()).send(note("hello"));
  }
  EventSender(nullptr).send(note("hello"));
  char byte = 0;
  EXPECT_LT(recv(ours.get(), &byte, 1, MSG_DONTWAIT), 0) << "the inode is that of another socket";
}

TEST(EventSender, DoesNotWaitForAFrontDoorThatDoesNotRead) {
  EventChannel channel(false);
  auto address = event_address(channel.address()).value();
  address.descriptor = dup(channel.descriptor());
  EventSender sender(address.text().c_str());
  const auto began = Clock::now();
  for (int i = 1; i <= 20'000; ++i) sender.send(row(i));
  EXPECT_LT(Clock::now() - began, 2s) << "rows";
  sender.send(note("the end"));
  EXPECT_LT(Clock::now() - began, 5s) << "a note waits a second";
  std::vector<Event> events;
  for (int turn = 0; turn < 100; ++turn) channel.read([&](const Event& event) { events.push_back(event); });
  EXPECT_GT(events.size(), 100U) << "lines are whole";
  sender.send(row(20'001));
  channel.read([&](const Event& event) { events.push_back(event); });
  EXPECT_EQ(events.back().row, 20'001) << "after the pause";
}

TEST(EventSender, GivesUpWhereNobodyAnswers) {
  int port = 0;
  const auto listener = listen_at("127.0.0.1", port);  // accepts, and sends nothing
  const EventAddress address{-1, 0, std::string(64, 'a'), {"127.0.0.1:" + std::to_string(port)}};
  EventSender sender(address.text().c_str());
  const auto began = Clock::now();
  for (int i = 1; i <= 10; ++i) sender.send(row(i));
  EXPECT_LT(Clock::now() - began, 15s) << "three times";
}

// --- no sentence of ours is matched ---

namespace fs = std::filesystem;
const fs::path source = SHAKEDOWN_SOURCE_DIR;
// Their rows are sentences of other programs, each with a stored sample (start_samples.txt).
const Words tables{"start_faults.cpp", "launcher_words.cpp"};

bool is_table(const fs::path& file) { return std::find(tables.begin(), tables.end(), file.filename()) != tables.end(); }

std::vector<fs::path> sources_in(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(source / folder)) {
    const auto kind = entry.path().extension();
    if (kind == ".cpp" || kind == ".hpp" || kind == ".cu" || kind == ".cuh") files.push_back(entry.path());
  }
  return files;
}

/// Returns the searches of this code for text of several words.
Words searches_for_sentences(const std::string& code) {
  static const std::regex search(
      R"re((find|rfind|starts_with|ends_with|contains|compare|regex)\w*\(\s*"[^"\n]*[a-z]{2}(: |[;,.]? [a-z])[^"\n]*")re"
      R"re(|[!=]= "[^"\n]*[a-z]{2}(: |[;,.]? [a-z])[^"\n]*"|string_view \w+ = "[^"\n]*[a-z]{2}: ")re");
  Words found;
  for (std::sregex_iterator match(code.begin(), code.end(), search); match != std::sregex_iterator(); ++match) {
    found.push_back(match->str());
  }
  return found;
}

TEST(Sentences, AreSearchedForInTheTablesOfOtherProgramsOnly) {
  for (const std::string search :
       {R"(line.find(" is in use by another measurement: "))", R"(starts_with("shakedown: x"))",
        R"(if (line == "no result"))", R"(string_view start = "shakedown-lost: ";)"}) {
    EXPECT_EQ(searches_for_sentences(search).size(), 1U) << search;
  }
  EXPECT_TRUE(searches_for_sentences(R"(line.find(' '); text.rfind("exit", 0); say("a b" + find(x));)").empty());
  for (const auto& file : sources_in("launch")) {
    if (is_table(file)) continue;
    for (const auto& search : searches_for_sentences(read_file(file))) ADD_FAILURE() << file << ": " << search;
  }
}

TEST(Sentences, OfTheTablesAreNotOurs) {
  std::string ours;
  for (const auto* folder : {"base", "node", "kernels", "fixtures", "bench", "thresholds"}) {
    for (const auto& file : sources_in(folder)) ours += read_file(file);
  }
  ours += read_file(source / "ci/with_cuda");
  static const std::regex literal(R"re("([^"\n]*)")re"), gap(R"re(\*|\{\w+\})re");
  int parts = 0;
  for (const auto& table : tables) {
    const auto code = read_file(source / "launch" / table);
    for (std::sregex_iterator match(code.begin(), code.end(), literal); match != std::sregex_iterator(); ++match) {
      const auto text = (*match)[1].str();
      if (text.find("/") != std::string::npos && text.ends_with("hpp")) continue;
      for (std::sregex_token_iterator part(text.begin(), text.end(), gap, -1); part != std::sregex_token_iterator();
           ++part) {
        constexpr std::size_t min_characters = 14;
        const auto words = part->str();
        if (words.size() < min_characters || words.find(' ', 1) >= words.size() - 1) continue;  // no sentence
        ++parts;
        EXPECT_EQ(ours.find(words), std::string::npos) << table << ": " << words;
      }
    }
  }
  EXPECT_GT(parts, 80);
}

}  // namespace
}  // namespace shakedown::events_test
