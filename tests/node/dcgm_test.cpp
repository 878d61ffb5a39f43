// The results of DCGM for a host, from reports of its versions 2, 3 and 4, and the program that runs it.
#include "node/dcgm.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

namespace shakedown {
namespace {

using std::chrono::duration;
using std::chrono::seconds;

/// Returns four GPUs. NVML and DCGM number them alike unless serial numbers say otherwise.
std::vector<Facts> gpus(bool serials = false) {
  std::vector<Facts> all;
  for (int gpu = 0; gpu < 4; ++gpu) {
    all.push_back({{"uuid", text_fact("GPU-" + std::to_string(gpu))},
                   {"serial", text_fact(serials ? std::optional("165" + std::to_string(gpu)) : std::nullopt)}});
  }
  return all;
}

CommandOutput printed(const std::string& text, int code = 0) { return {true, false, code, text}; }

std::string of_version_2(const std::string& deployment, const std::string& pcie) {
  return R"({"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [
    {"name": "Persistence Mode", "results": [)" +
         deployment + R"(]}]}, {"category": "Integration", "tests": [{"name": "PCIe", "results": [)" + pcie +
         R"(]}]}]}, "version": "2.4.7"})";
}

std::string of_version_4(const std::string& results, const std::string& summary = R"({"status": "Pass"})") {
  return R"({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", "results": [)" +
         results + R"(], "test_summary": )" + summary +
         R"(}]}]}, "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": [
    {"device_id": "2335", "entity_id": 0, "serial_num": "1653"}, {"device_id": "2335", "entity_id": 1, "serial_num": "1652"},
    {"device_id": "2335", "entity_id": 2, "serial_num": "1651"}, {"device_id": "2335", "entity_id": 3, "serial_num": "1650"}]}],
    "metadata": {"version": "4.6.0", "Driver Version Detected": "580.159.03"}})";
}

std::string gpu_passes(const std::string& from_to) {
  std::string all;
  for (const char gpu : from_to) {
    all += std::string(all.empty() ? "" : ", ") + R"({"entity_group": "GPU", "entity_group_id": 1, "entity_id": )" +
           gpu + R"(, "status": "Pass"})";
  }
  return all;
}

constexpr const char* gpu_2_fails =
    R"({"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2, "status": "Fail", "warnings": [{"error_category": 10,
    "error_id": 44, "error_severity": 2, "warning": "GPU 2 had uncorrectable memory errors and row remapping failed."}]})";

const std::set<std::size_t> all_have_ranks{0, 1, 2, 3};

TEST(Dcgm, WithoutAFailureHasNothingToSay) {
  for (const auto& [text, level] :
       {std::pair{of_version_2(R"({"status": "Pass"})", R"({"gpu_ids": "0", "status": "PASS"})"), 1},
        {of_version_4(gpu_passes("0123")), 3}}) {
    const auto report = read_dcgm(printed(text), level);
    EXPECT_EQ(report.trouble, "");
    auto host = dcgm_host_facts(report, gpus(), all_have_ranks);
    EXPECT_EQ(host["dcgm_answers"].number, 1);
    EXPECT_EQ(host["dcgm_failed"].number, 0);
    EXPECT_EQ(dcgm_gpu_facts(report, gpus(), 0)["dcgm_failed"].number, 0);
  }
  EXPECT_EQ(dcgm_host_facts(read_dcgm(printed(of_version_4(gpu_passes("0123"))), 1), gpus(), {})["dcgm_version"].text,
            "4.6.0");
}

TEST(Dcgm, NamesTheGpuOfAFailureInItsOwnWords) {
  const auto report = read_dcgm(printed(of_version_4(gpu_passes("01") + ", " + gpu_2_fails + ", " + gpu_passes("3"),
                                                     R"({"status": "Fail", "warnings": [{"warning": "of all"}]})"),
                                        226),
                                2);
  ASSERT_EQ(report.trouble, "");
  auto two = dcgm_gpu_facts(report, gpus(), 2);
  EXPECT_EQ(two["dcgm_failed"].number, 1);
  EXPECT_EQ(two["dcgm_failed"].text, "GPU 2, memory: GPU 2 had uncorrectable memory errors and row remapping failed");
  EXPECT_EQ(dcgm_gpu_facts(report, gpus(), 1)["dcgm_failed"].number, 0);
  EXPECT_EQ(dcgm_host_facts(report, gpus(), all_have_ranks)["dcgm_failed"].number, 0) << "it is at its GPU";
  // Serial numbers identify the GPU if NVML numbers them differently. A GPU without a rank is reported for the host.
  EXPECT_EQ(dcgm_gpu_facts(report, gpus(true), 1)["dcgm_failed"].number, 1);
  EXPECT_EQ(dcgm_gpu_facts(report, gpus(true), 2)["dcgm_failed"].number, 0);
  EXPECT_EQ(dcgm_host_facts(report, gpus(true), {0, 2, 3})["dcgm_failed"].text,
            "GPU 2 GPU-1, memory: GPU 2 had uncorrectable memory errors and row remapping failed");
}

TEST(Dcgm, OfOlderVersionsIsReadAsWell) {
  const auto second = read_dcgm(
      printed(of_version_2(R"({"status": "Fail", "warnings": "Persistence mode for GPU 1 is currently disabled."})",
                           R"({"gpu_ids": "3", "status": "FAIL", "warnings": "GPU 3 is at x8."})"),
              1),
      2);
  EXPECT_EQ(dcgm_host_facts(second, gpus(), all_have_ranks)["dcgm_failed"].text,
            "Persistence Mode: Persistence mode for GPU 1 is currently disabled");
  EXPECT_EQ(dcgm_gpu_facts(second, gpus(), 3)["dcgm_failed"].text, "GPU 3, PCIe: GPU 3 is at x8");
  // In version 3 the number next to several warnings belongs to the last one only.
  const std::string one = R"({"warnings": "no persistence", "error_id": 41})",
                    two = R"({"warnings": "nor here", "error_id": 41})";
  const auto third = [](const std::string& warnings) {
    return read_dcgm(printed(of_version_2(R"({"status": "Fail", "gpu_id": 1, "warnings": [)" + warnings + "]}",
                                          R"({"gpu_id": "0", "status": "Warn", "warnings": [{"warning": "slow"}]})"),
                             1),
                     2);
  };
  EXPECT_EQ(dcgm_gpu_facts(third(one), gpus(), 1)["dcgm_failed"].text, "GPU 1, Persistence Mode: no persistence");
  EXPECT_EQ(dcgm_host_facts(third(one + ", " + two), gpus(), all_have_ranks)["dcgm_failed"].text,
            "Persistence Mode: no persistence; nor here");
  EXPECT_EQ(dcgm_gpu_facts(third(one), gpus(), 0)["dcgm_warned"].text, "GPU 0, PCIe: slow");
}

TEST(Dcgm, ThatFailsWithoutADeviceFailsTheHost) {
  const auto report =
      read_dcgm(printed(of_version_4(gpu_passes("0123"),
                                     R"({"status": "Fail", "warnings": [{"warning": "The NVSwitch is at fault."}]})"),
                        226),
                1);
  EXPECT_EQ(dcgm_host_facts(report, gpus(), all_have_ranks)["dcgm_failed"].text, "memory: The NVSwitch is at fault");
  const auto unknown =
      read_dcgm(printed(of_version_4(R"({"entity_group": "CPU", "entity_id": 0, "status": "Undecided"})")), 1);
  EXPECT_EQ(dcgm_host_facts(unknown, gpus(), all_have_ranks)["dcgm_failed"].text, "memory: status undecided");
}

TEST(Dcgm, ThatSkipsAGpuHasNotTestedIt) {
  const auto report = read_dcgm(
      printed(of_version_4(gpu_passes("012") + R"(, {"entity_group": "GPU", "entity_id": 3, "status": "Skip"})")), 2);
  auto facts = dcgm_gpu_facts(report, gpus(), 3);
  EXPECT_FALSE(facts["dcgm_failed"].number);
  EXPECT_EQ(facts["dcgm_failed"].text, "DCGM skipped memory on this GPU");
  EXPECT_EQ(dcgm_gpu_facts(report, gpus(), 0)["dcgm_failed"].number, 0);
  const auto only_software = read_dcgm(
      printed(R"({"DCGM Diagnostic": {"test_categories": [
        {"category": "Deployment", "tests": [{"name": "software", "results": [)" +
              gpu_passes("01") + R"(]}]}, {"category": "Hardware", "tests": [{"name": "memory", "results": [)" +
              gpu_passes("0") + R"(, {"entity_group": "GPU", "entity_id": 1, "status": "Skip"}]}]}]}})"),
      2);
  EXPECT_EQ(dcgm_gpu_facts(only_software, gpus(), 1)["dcgm_failed"].text, facts["dcgm_failed"].text);
}

TEST(Dcgm, WarnsIfDcgmTakesAFailureForASetting) {
  const auto failing = [](const std::string& severities) {
    std::string warnings;
    for (const char severity : severities) {
      warnings += std::string(warnings.empty() ? "" : ", ") + R"({"error_id": 29, "error_severity": )" + severity +
                  R"(, "warning": "Persistence mode is off."})";
    }
    return read_dcgm(
        printed(of_version_4(gpu_passes("012") +
                             R"(, {"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": [)" + warnings +
                             "]}"),
                226),
        1);
  };
  auto setting = dcgm_gpu_facts(failing("5"), gpus(), 3);
  EXPECT_EQ(setting["dcgm_answers"].number, 1);
  EXPECT_EQ(setting["dcgm_failed"].number, 0);
  EXPECT_EQ(setting["dcgm_warned"].text, "GPU 3, memory: Persistence mode is off");
  EXPECT_EQ(dcgm_gpu_facts(failing("52"), gpus(), 3)["dcgm_failed"].number, 1) << "2 is a fault of the GPU";
}

TEST(Dcgm, WithoutAWholeReportSaysWhyInOneLine) {
  const auto whole = of_version_4(gpu_passes("0123"));
  const auto trouble = [](const CommandOutput& output, int level = 1) { return read_dcgm(output, level).trouble; };
  EXPECT_EQ(trouble({}), "dcgmi is not installed here");
  EXPECT_NE(trouble({true, true, 143, whole}).find("--timeout=S"), std::string::npos);
  EXPECT_EQ(trouble(printed("")), "dcgmi diag -r 1: printed nothing");
  EXPECT_EQ(trouble(printed("Error: unable to establish a connection to the specified host: localhost\nError: Unable "
                            "to connect to host engine.\n",
                            255)),
            "dcgmi diag -r 1: Error: unable to establish a connection to the specified host: localhost; is "
            "nv-hostengine running?");
  for (std::size_t size = 1; size + 1 < whole.size(); size += 97) {
    EXPECT_EQ(trouble(printed(whole.substr(0, size))), "dcgmi diag -r 1: its report is incomplete");
  }
  EXPECT_EQ(trouble(printed("{}")), "dcgmi diag -r 1: it ran no test");
  EXPECT_EQ(trouble(printed(R"({"DCGM Diagnostic": [1, {"tests": 7}], "metadata": 3, "GPU Device Serials": 4})")),
            trouble(printed("{}")));
  EXPECT_EQ(
      trouble(printed(
          R"({"DCGM Diagnostic": {"runtime_error": "Error: Unable to complete diagnostic.\nNo GPUs.", "version": "4.6.0"}})",
          205)),
      "dcgmi diag -r 1: Error: Unable to complete diagnostic. No GPUs");
  EXPECT_TRUE(trouble(printed(of_version_2(R"({"status": "Pass"})", R"({"status": "Skip"})")), 2)
                  .starts_with("dcgmi diag -r 2: "));
  EXPECT_TRUE(trouble(printed(whole, 3)).ends_with(" exit code 3"));
  EXPECT_FALSE(dcgm_gpu_facts(read_dcgm({}, 1), gpus(), 0)["dcgm_failed"].number);
  EXPECT_EQ(dcgm_gpu_facts(read_dcgm({}, 1), gpus(), 0)["dcgm_answers"].number, 0);
}

TEST(Command, GivesWhatItPrintedAndHowItEnded) {
  const auto said = output_of({"sh", "-c", "echo out; echo err >&2; exit 7"}, seconds(60));
  EXPECT_TRUE(said.started);
  EXPECT_EQ(said.text, "out\nerr\n");
  EXPECT_EQ(said.code, 7);
  EXPECT_EQ(output_of({"sh", "-c", "kill -9 $$"}, seconds(60)).code, 137);
  EXPECT_EQ(output_of({"cat"}, seconds(60)).text, "") << "no input";
  EXPECT_FALSE(output_of({"there-is-no-such-program"}, seconds(60)).started);
}

TEST(Command, IsToldWhenItsTimeIsOverAndThenEnded) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);  // as a rank does
  const auto told = output_of({"sh", "-c", "trap 'echo told; exit 3' TERM; echo begun; while :; do sleep 0.1; done"},
                              duration<double>(0.5));
  EXPECT_TRUE(told.timed_out);
  EXPECT_EQ(told.text, "begun\ntold\n");
  EXPECT_EQ(told.code, 3);
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  EXPECT_EQ(
      output_of({"sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"}, duration<double>(0.2), duration<double>(0.2))
          .code,
      137);
  EXPECT_EQ(output_of({"sh", "-c", "sleep 100 & echo begun"}, seconds(60)).text, "begun\n")
      << "a process that stays is not waited for";
}

}  // namespace
}  // namespace shakedown
