// Lists of hosts as schedulers write them.
#include "base/host_list.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"

namespace shakedown::host_list_test {
namespace {

using Hosts = std::vector<std::string>;

TEST(HostList, NamesEveryHostOfItsRanges) {
  EXPECT_EQ(expand_hosts("node1"), Hosts{"node1"});
  EXPECT_EQ(expand_hosts("node-a[1-3,7],login"), (Hosts{"node-a1", "node-a2", "node-a3", "node-a7", "login"}));
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

TEST(HostNames, AreComparedWithoutCaseAndWithoutTheDomainThatOneLacks) {
  EXPECT_TRUE(same_host("node7", "node7.cluster.local"));
  EXPECT_TRUE(same_host("VM", "vm"));
  EXPECT_TRUE(same_host("Node7.Cluster.local", "node7"));
  EXPECT_FALSE(same_host("node7.a", "node7.b"));
  EXPECT_FALSE(same_host("node7", "node70"));
}

}  // namespace
}  // namespace shakedown::host_list_test
