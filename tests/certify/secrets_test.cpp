// Tests that an archive contains none of 64 planted secrets, and everything that a reader needs.
#include "certify/secrets.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.hpp"

namespace shakedown::secrets_test {
namespace {

struct Planted {
  const char* line;
  const char* secret;
};

// Each entry is a line of a log and its secret.
const std::vector<Planted> planted{
    // Well-known formats without a name.
    {"fatal: ghp_16C7e42F292c6912E7710c838347Ae178B4a is wrong", "16C7e42F"},
    {"using github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789", "mnopqrst"},
    {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "dozjgNry"},
    {"glpat-aBcDeFgHiJkLmNoPqRsT", "aBcDeF"},
    {"xoxb-123456789012-abcdefghijkl", "abcdefghijkl"},
    {"AKIAIOSFODNN7EXAMPLE", "IOSFODNN"},
    {"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "bPxRfi"},
    {"AIzaSyA1234567890abcdefghijklmnopqrstuv", "Sy"},
    {"hf_abcdefghijklmnopqrstuvwxyz", "abcdefgh"},
    {"sk-abcdefghijklmnopqrst", "abcdefgh"},
    {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "0123456789abcdef0"},
    {"npm_abcdefghijklmnopqrst", "abcdefgh"},
    // Variables.
    {"SLURM_JWT=hidden", "hidden"},
    {"MYSQL_PWD=hidden", "hidden"},
    {"NCCL_TOPO_FILE_PW=hidden", "hidden"},
    {"OMPI_MCA_btl_auth=hidden", "hidden"},
    {"ompi_mca_btl_auth=hidden", "hidden"},
    {"NCCL_SOCKET_IFNAME=me:hidden@eth0", "hidden"},
    {"export FAVOURITE=hidden", "hidden"},
    {"declare -x FAVOURITE=\"hidden words\"", "hidden"},
    {"AWS_SECRET_ACCESS_KEY=hidden", "hidden"},
    {"aws_secret_access_key = hidden", "hidden"},
    {"AWS_SESSION_TOKEN=hidden", "hidden"},
    {"PGPASSWORD=hidden", "hidden"},
    {"DB_PASSWORD='hidden words' after", "hidden"},
    {"HF_TOKEN=\"hidden words\"", "words"},
    {"REDISCLI_AUTH=hidden", "hidden"},
    {"AccountKey=hidden;EndpointSuffix=core.windows.net", "hidden"},
    {"PIN=1234", "1234"},
    {"SHAKEDOWN_SECRET=0123456789abcdef", "0123"},
    {"MY_PRIVATE_KEY=hidden", "hidden"},
    {"X_SIGNATURE=hidden", "hidden"},
    // Headers.
    {"Authorization: Bearer hidden", "hidden"},
    {"Proxy-Authorization: Basic aGlkZGVu", "aGlkZGVu"},
    {"curl -H 'X-Api-Key: hidden' https://host/x", "hidden"},
    {"> X-Api-Key: hidden", "hidden"},
    {"Cookie: a=b; session=hidden", "hidden"},
    {"Set-Cookie: session=hidden; Path=/", "hidden"},
    {"{\"authorization\": \"Bearer hidden\"}", "hidden"},
    {"sent bearer hidden to the server", "hidden"},
    // Command lines.
    {"sshpass -p hidden ssh node7", "hidden"},
    {"sshpass -phidden ssh node7", "hidden"},
    {"docker login -u me -p hidden registry", "hidden"},
    {"echo hidden | docker login --password-stdin", "hidden"},
    {"passwd hidden", "hidden"},
    {"echo root:hidden | chpasswd", "hidden"},
    {"mysql -u me -phidden", "hidden"},
    {"curl --user me:hidden http://host", "hidden"},
    {"redis-cli -a hidden", "hidden"},
    {"kubectl --token hidden get pods", "hidden"},
    {"x --password hidden after", "hidden"},
    {"aws configure set aws_secret_access_key hidden", "hidden"},
    {"bench_hbm --benchmark_context=owner=hidden", "hidden"},
    {"[\"x\", \"--password\", \"hidden\"]", "hidden"},
    {"machine host login me password hidden", "hidden"},
    {"the password is hidden", "hidden"},
    // Addresses.
    {"http://me:hid/den@host/x", "den"},
    {"postgres://me:hidden@hidden@host:5432/db", "hidden"},
    {"https://hidden@host/x.git", "hidden"},
    {"https://host/x?token=hidden&sig=hidden", "hidden"},
    {"proxy=http://me:hidden@proxy:3128", "hidden"},
    // Secrets on the next line, and blocks.
    {"Password:\n  hidden\nafter", "hidden"},
    {"--api-key\nhidden", "hidden"},
    {"-----BEGIN OPENSSH PRIVATE KEY-----\nhidden\nhidden\n-----END OPENSSH PRIVATE KEY-----\nafter", "hidden"},
};

TEST(Secrets, OfAllPlantedOnesNoneIsLeft) {
  ASSERT_EQ(planted.size(), 64u);
  int left = 0;
  for (const auto& [line, secret] : planted) {
    ASSERT_NE(std::string(line).find(secret), std::string::npos) << line;
    const auto clean = without_secrets(std::string("before\n") + line);
    EXPECT_EQ(clean.find(secret), std::string::npos) << clean << (++left, "");
    EXPECT_EQ(clean.rfind("before\n", 0), 0u);
  }
  EXPECT_EQ(left, 0);
}

TEST(Secrets, OfAllPlantedOnesNoneIsLeftInTheStringsOfJson) {
  for (const auto& [line, secret] : planted) {
    const auto clean = json_without_secrets(nlohmann::json{{"argv", {"x", line, "y"}}, {"n", 1}}.dump());
    EXPECT_EQ(clean.find(secret), std::string::npos) << clean;
    EXPECT_TRUE(nlohmann::json::accept(clean)) << clean;
  }
  EXPECT_EQ(json_without_secrets(R"({"password": "hidden", "argv": ["--token", "hidden", "x"], "a": "b"})"),
            R"({"password": "***", "argv": ["--token", "***", "x"], "a": "b"})");
}

TEST(Secrets, AreMaskedAndWhatIsAroundThemStays) {
  EXPECT_EQ(without_secrets("a --password hidden b\nDB_PASSWORD='hidden words' after"),
            "a --password***\nDB_PASSWORD=***");
  EXPECT_EQ(without_secrets("{\"MY_TOKEN\": \"hidden\", \"a\": 1}"), "{\"MY_TOKEN***");
  EXPECT_EQ(without_secrets("fetch http://me:hidden@host/x?y=z failed"), "fetch http://***@host/x?*** failed");
  EXPECT_EQ(without_secrets("Password:\n  hidden\nafter"), "Password:\n***\nafter");
}

TEST(Secrets, ThatAreShortAreMaskedToo) {
  for (const std::string line : {"export DOOR_CODE=4711", "LOCKCODE=12ab", "GATE=on", "sent sk-a1b2c",
                                 "hf_1234x is wrong", "curl --user me:x http://host", "DB_PASSWORD=x", "-p x"}) {
    EXPECT_NE(without_secrets(line).find("***"), std::string::npos) << line;
  }
  for (const std::string line : {"M=4096 K=12 ms=0.5", "sk-learn", "limit=12ms", "RANK=3", "NCCL_NTHREADS=512"}) {
    EXPECT_EQ(without_secrets(line), line);
  }
}

TEST(Secrets, OrdinaryLinesStayAsTheyAre) {
  for (const std::string line :
       {"[3/6] preflight/of:binding, 0 s so far, 4 left (about 0.1 s)",
        "shakedown: timeout: allreduce/dtype:f32/bytes:8 (sample) not done after 300 s: rank 2 (nodeb) did not "
        "advance, 3 "
        "ranks wait; raise --timeout=S if this machine is only slow",
        "shakedown-lost: node7 node8",
        "shakedown: SHAKEDOWN_SECRET is not set, so other programs on the network could join the ranks; set it",
        "rank 0 (vm GPU-cb5d2883-b270-fcfd-8d74-2aed37787534): 0000:1b:00.0 has 18036 tokens/s, \"tokens_per_s\": "
        "18036",
        "bench_all --tier=quick --timeout=300 --families=preflight,gemm --expect=ranks=8,hosts=2 "
        "--run-id=20261125T182109Z-94983b --benchmark_filter=gemm/dtype:bf16/.*k:4096$",
        "vm:1448:1448 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "vm:1448:1448 [0] NCCL INFO Connected to proxy localRank 0 -> connection 0x7f75e0000d20",
        "vm:1:1 [0] NCCL INFO AllReduce: 134217728 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}",
        "n1:9:9 [3] NCCL INFO ncclCommInitRank comm 0x55d0c0 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1b000 - Init "
        "START",
        "n1:9:9 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.7<0>",
        "n1:9:9 [3] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.8<43215> failed : Software "
        "caused "
        "connection abort",
        "n1:9:9 [3] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
        "NCCL version 2.28.3+cuda13.0",
        "NCCL_DEBUG=INFO NCCL_IB_HCA=mlx5_0:1,mlx5_1:1 OMPI_MCA_pml=ob1 LD_LIBRARY_PATH=/usr/lib64:/opt/cuda/lib64",
        "[vm:24116] 1 more process has sent help message help-errmgr-base.txt / failed-daemon-launch",
        "mpirun noticed that process rank 1 with PID 4711 on node u2 exited on signal 11 (Segmentation fault).",
        "  Please verify your allocation and authorities.",
        "  Process name: [[17531,1],13]",
        "  Exit code:    3",
        "srun: error: Unable to create step for job 7: Required node not available (down, drained or reserved)",
        "srun: error: node-a1: task 1: Segmentation fault (core dumped)",
        "u3: Permission denied (publickey,password).",
        "ssh: connect to host u3 port 22: Connection refused",
        "Xid (PCI:0000:1b:00): 79, pid=1234, name=bench_gemm, GPU has fallen off the bus."}) {
    EXPECT_EQ(without_secrets(line + "\nnext"), line + "\nnext");
  }
}

TEST(Secrets, AreInNoStoredResultSoThatItStaysAsItIs) {
  const std::filesystem::path source = SHAKEDOWN_SOURCE_DIR;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source / "tests/data/h200-sxm-4ranks-full/1")) {
    const auto text = read_file(entry);
    EXPECT_TRUE(json_without_secrets(text) == text) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 5);
}

}  // namespace
}  // namespace shakedown::secrets_test
