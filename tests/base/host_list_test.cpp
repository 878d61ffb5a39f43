// Host lists as schedulers write them.
#include "base/host_list.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"

namespace shakedown::host_list_test {
namespace {

using Hosts = std::vector<std::string>;

TEST(HostList, NamesEveryHostOfItsRanges) {
  EXPECT_EQ(expand_hosts("node1"), Hosts{"node1"});
  EXPECT_EQ(expand_hosts("node-a[1-3,7],login"), (Hosts{"node-a1", "node-a2", "node-a3", "node-a7", "login"}));
  EXPECT_EQ(expand_hosts(" node1 , node[2-3]"), (Hosts{"node1", "node2", "node3"})) << "blanks around names";
  EXPECT_EQ(expand_hosts("n[08-10]"), (Hosts{"n08", "n09", "n10"})) << "the first end says how many digits";
  EXPECT_EQ(expand_hosts("r[1-2]n[1-2].x"), (Hosts{"r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"}));
}

TEST(HostList, ThatIsNoneIsRefusedAndSaysWhy) {
  for (const char* list : {"", "a,,b", "n[", "n[1-2", "n]", "n[]", "n[3-1]", "n[1-x]", "n[1-2]]", "n[-1]",
                           "n[1-900000]", "n[1-1000]m[1-1000]", "n[99999999999999999999]"}) {
    EXPECT_THROW(expand_hosts(list), InputError) << list;
  }
}

TEST(HostList, IsWrittenInRangesThatNameTheSameHosts) {
  EXPECT_EQ(host_ranges({"node-a2", "node-a1", "node-a3", "node-a7", "login", "node-a2"}), "login,node-a[1-3,7]");
  EXPECT_EQ(host_ranges({"n09", "n10", "n08"}), "n10,n[08-09]") << "n[08-10] would do: a zero says how many digits";
  EXPECT_EQ(host_ranges({"n9", "n10", "n11"}), "n[9,10-11]");
  EXPECT_EQ(host_ranges({"gpu-3.rack"}), "gpu-3.rack");
  EXPECT_EQ(host_ranges({}), "");
  for (const Hosts& hosts : {Hosts{"a1", "a2", "b"}, Hosts{"n0", "n00", "n1"}, Hosts{"x99", "x100", "x098"}}) {
    Hosts again = expand_hosts(host_ranges(hosts)), sorted = hosts;
    std::sort(again.begin(), again.end());
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(again, sorted) << host_ranges(hosts);
  }
}

// Returns "name slots" for each host; "name -" if the file gives no number.
Hosts hosts_in(const std::string& text) {
  Hosts all;
  for (const auto& host : hosts_of_file(text, "hosts")) {
    all.push_back(host.name + " " + (host.slots ? std::to_string(*host.slots) : "-"));
  }
  return all;
}

std::string refusal_of(const std::string& text) {
  try {
    hosts_of_file(text, "dir/hosts");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(HostFile, TakesEveryFormThatMpiAndSchedulersWrite) {
  EXPECT_EQ(hosts_in("# all of them\n\na\nb 8\n  c slots=4  # new\nd:2\nfe80::1\n"),
            (Hosts{"a -", "b 8", "c 4", "d 2", "fe80::1 -"}));
  EXPECT_EQ(hosts_in("node[1-2,07] slots=8\nx[1-2]:3,y:4,z\nlogin:*\n"),
            (Hosts{"node1 8", "node2 8", "node07 8", "x1 3", "x2 3", "y 4", "z -", "login -"}));
  EXPECT_EQ(hosts_in("a slots=4 max_slots=8\nb max-slots=2\nc slots = 6 user=me\nd cpu=1\ne count=1\n"),
            (Hosts{"a 4", "b -", "c 6", "d 1", "e 1"}));
  EXPECT_EQ(hosts_in("node1 8 all.q@node1 UNDEFINED\n"), Hosts{"node1 8"}) << "Grid Engine";
  EXPECT_EQ(hosts_in("a\nb\na\n"), (Hosts{"a -", "b -", "a -"})) << "once for each time that it is named";
  EXPECT_EQ(hosts_in("a:2 slots=3\r\n"), Hosts{"a 3"});
  EXPECT_EQ(hosts_in("# nothing\n"), Hosts{});
}

TEST(HostFile, IsRefusedWithFileAndLineAndWhatToWrite) {
  const std::string write = "; write \"host\", \"host 8\", \"host slots=8\" or \"host:8\"";
  const auto no_number = [&](const std::string& place, const std::string& word) {
    return "dir/hosts:" + place + ": \"" + word + "\" is not a number of ranks" + write;
  };
  EXPECT_EQ(refusal_of("a\n#\nb many\n"), no_number("3:1", "many"));
  EXPECT_EQ(refusal_of("a 0\n"), no_number("1:1", "0"));
  EXPECT_EQ(refusal_of("a slots=8x\n"), no_number("1:1", "slots=8x"));
  EXPECT_EQ(refusal_of("a slots\n"), no_number("1:1", "slots"));
  EXPECT_EQ(refusal_of("\na:0\n"), no_number("2:1", "a:0"));
  EXPECT_EQ(refusal_of("a:99999999999\n"), no_number("1:1", "a:99999999999"));
  EXPECT_EQ(refusal_of("a 8 x\n"), "dir/hosts:1:1: \"x\" is not understood" + write);
  EXPECT_EQ(refusal_of("a 8 x y\n"), refusal_of("a 8 x\n"));
  EXPECT_TRUE(refusal_of("a slot=8\n").starts_with("dir/hosts:1:1: \"slot=8\" "));
  EXPECT_EQ(refusal_of("a\nn[1-\n"), "dir/hosts:2:1: host list \"n[1-\": a bracket is not closed");
  EXPECT_TRUE(refusal_of("a\n:8\n").starts_with("dir/hosts:2:1: host list \"\": "));
}

TEST(HostNames, AreComparedWithoutCaseAndWithoutTheDomainThatOneLacks) {
  EXPECT_TRUE(same_host("node7", "node7.cluster.local"));
  EXPECT_TRUE(same_host("VM", "vm"));
  EXPECT_TRUE(same_host("Node7.Cluster.local", "node7"));
  EXPECT_FALSE(same_host("node7.a", "node7.b"));
  EXPECT_FALSE(same_host("node7", "node70"));
}

}  // namespace
}  // namespace shakedown::host_list_test
