// Which interface NCCL would use, and what is said of hosts that cannot be reached over it.
#include "fixtures/reach.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/archive.hpp"
#include "fixtures/shared_folder.hpp"
#include "fixtures/socket.hpp"
#include "fixtures/world.hpp"
#include "node/host_inventory.hpp"
#include "tests/made_up_host.hpp"
#include "thresholds/results.hpp"

namespace shakedown {
namespace {

using std::chrono::milliseconds;

const std::vector<Interface> usual{
    {"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}, {"eth0", "10.0.0.1"}, {"eth1", "10.1.0.1"}, {"ib0", "10.2.0.1"}};

std::string chosen(const std::vector<Interface>& interfaces, const std::optional<std::string>& setting = {}) {
  const auto found = nccl_interface(interfaces, setting);
  return found ? found->name : "";
}

TEST(NcclInterface, IsInfinibandBeforeEthernetBeforeDockerBeforeLoopback) {
  EXPECT_EQ(chosen(usual), "ib0");
  EXPECT_EQ(chosen({usual.begin(), usual.begin() + 4}), "eth0");
  EXPECT_EQ(chosen({usual.begin(), usual.begin() + 2}), "docker0");
  EXPECT_EQ(chosen({usual.begin(), usual.begin() + 1}), "lo");
  EXPECT_EQ(chosen({}), "");
}

TEST(NcclInterface, FollowsTheSetting) {
  EXPECT_EQ(chosen(usual, "eth"), "eth0");
  EXPECT_EQ(chosen(usual, "=eth1"), "eth1");
  EXPECT_EQ(chosen(usual, "=eth"), "") << "an exact name";
  EXPECT_EQ(chosen(usual, "^lo,docker,ib"), "eth0");
  EXPECT_EQ(chosen(usual, "^=lo,docker0,eth0"), "eth1");
  EXPECT_EQ(chosen(usual, "bond"), "");
}

TEST(ConnectToAll, SaysNothingOfWhoListens) {
  int port = 0;
  const auto listener = listen_anywhere(port);
  const auto failures = connect_to_all({"lo", "127.0.0.1"}, {{"a", {"lo", "127.0.0.1"}, port}}, milliseconds(500));
  EXPECT_EQ(failures, std::vector<std::string>{""});
}

TEST(ConnectToAll, SaysWhoRefuses) {
  int port = 0;
  { const auto gone = listen_anywhere(port); }
  const auto failures = connect_to_all({"lo", "127.0.0.1"}, {{"a", {"lo", "127.0.0.1"}, port}}, milliseconds(500));
  EXPECT_EQ(failures, std::vector<std::string>{"refused"});
}

TEST(ConnectToAll, SaysWhoDoesNotAnswerWithinSeconds) {
  // A listener whose queue is full: the system drops what comes, as a firewall would.
  int port = 0;
  const auto listener = listen_anywhere(port);
  listen(listener.get(), 0);
  std::vector<Socket> queue;
  for (int i = 0; i < 4; ++i) {
    queue.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    sockaddr_in to{};
    socklen_t size = sizeof to;
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&to), &size);
    connect(queue.back().get(), reinterpret_cast<const sockaddr*>(&to), size);
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Endpoint> others(5, Endpoint{"a", {"lo", "127.0.0.1"}, port});
  const auto failures = connect_to_all({"lo", "127.0.0.1"}, others, milliseconds(1000));
  for (const auto& failure : failures) EXPECT_EQ(failure, "timed out after 1 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4)) << "all at once, not one by one";
}

TEST(ReachAllHosts, FindsNobodyMissingAlone) {
  const auto world = make_world([](bool) {});
  auto facts = reach_all_hosts(*world, std::nullopt);
  EXPECT_EQ(facts["hosts_unreachable"].number, 0);
  EXPECT_TRUE(facts["interface"].text);
  facts = reach_all_hosts(*world, "nosuch");
  EXPECT_EQ(facts["hosts_unreachable"].number, 1) << "not even itself";
  EXPECT_EQ(facts["hosts_unreachable"].text, "no interface is named by NCCL_SOCKET_IFNAME=nosuch");

  // Here because MPI starts once in a process.
  const MadeUpHost host;
  auto shared = inspect_shared_folder(*world, host.root());
  for (const auto* name : {"files_missing", "files_differing", "appends_lost", "locks_broken"}) {
    EXPECT_EQ(shared[name].number, 0) << name << shared[name].text.value_or("");
  }
  EXPECT_GT(*shared["write_gb_per_s"].number, 0);
  EXPECT_GT(*shared["read_gb_per_s"].number, 0);
  const auto left = std::filesystem::directory_iterator(host.root());
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "nothing but sys is left";
  EXPECT_THROW(inspect_shared_folder(*world, "/nonexistent"), InputError);
}

/// A world of one rank whose test looks around whenever all ranks meet.
class WatchedWorld final : public GroupOfOne<World> {
 public:
  explicit WatchedWorld(std::function<void()> look) : GroupOfOne("node"), look_(std::move(look)) {}
  void barrier() override { look_(); }
  double max(double mine) override { return mine; }
  void min(std::span<double>) override {}
  double clock() const override { return 0; }
  std::string library() const override { return ""; }
  void abort(int) noexcept override {}

 private:
  std::function<void()> look_;
};

TEST(SharedFolder, IsForThisUserAloneAndFollowsNoLink) {
  namespace fs = std::filesystem;
  const MadeUpHost host;
  const auto victim = host.root() / "victim";
  host.write("victim", "precious");
  int files = 0;
  WatchedWorld world([&] {
    for (const auto& entry : fs::recursive_directory_iterator(host.root())) {
      const auto name = entry.path().string();
      if (name.find("/shakedown-") == std::string::npos || entry.is_symlink()) continue;
      EXPECT_EQ(entry.status().permissions() & fs::perms(077), fs::perms::none) << name;
      if (name.size() < 6 || name.compare(name.size() - 6, 6, "file.0") != 0) continue;
      ++files;
      std::error_code there;
      for (const auto* next : {"appends", "lock", "rate.0"}) {
        fs::create_symlink(victim, name.substr(0, name.size() - 6) + next, there);
      }
    }
  });
  inspect_shared_folder(world, host.root());
  EXPECT_GT(files, 0);
  std::ifstream in(victim);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(text, "precious\n");
}

TEST(FactExchange, GivesBackWhatItTook) {
  const Facts facts{{"number", {0.1, "because"}},
                    {"text", {std::nullopt, "a:b\n\x1f"}},
                    {"empty", {std::nullopt, ""}},
                    {"unknown", {}}};
  const auto back = unpacked<Facts>(packed(facts), "rank 1");
  ASSERT_EQ(back.size(), 4u);
  EXPECT_EQ(back.at("number").number, 0.1);
  EXPECT_EQ(back.at("number").text, "because");
  EXPECT_EQ(back.at("text").text, "a:b\n\x1f");
  EXPECT_EQ(back.at("empty").text, "");
  EXPECT_FALSE(back.at("unknown").text || back.at("unknown").number);
  HostInventory inventory;
  inventory.host = facts;
  inventory.gpus = {facts, {}};
  inventory.links = {{facts}, {}};
  inventory.topology = {
      {{"GPU0", "0000:10:00.0", 18}, {"mlx5_0", std::nullopt, 0}}, {{"X", "SYS"}, {"SYS", "X"}}, {"0", "?"}};
  const auto whole = unpacked<HostInventory>(packed(inventory), "rank 1");
  EXPECT_EQ(whole.gpus.size(), 2u);
  EXPECT_EQ(whole.links.at(0).size(), 1u);
  EXPECT_EQ(whole.topology.devices.at(0).nvlinks, 18);
  EXPECT_FALSE(whole.topology.devices.at(1).pci);
  EXPECT_EQ(whole.topology.links.at(1).at(0), "SYS");
  EXPECT_EQ(whole.topology.numa.at(1), "?");
}

}  // namespace
}  // namespace shakedown
