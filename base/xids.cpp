#include "base/xids.hpp"

#include <algorithm>
#include <array>

namespace shakedown {
namespace {

constexpr std::array<KnownXid, 35> known_xids{{{13, "graphics engine exception", "RESTART_APP"},
                                               {31, "memory page fault of a program", "RESTART_APP"},
                                               {43, "a channel of a program was reset", "IGNORE"},
                                               {45, "clean-up after another error", "WORKFLOW_XID_45"},
                                               {46, "the GPU stopped processing", "RESET_GPU"},
                                               {48, "double bit ECC error", "WORKFLOW_XID_48"},
                                               {54, "auxiliary power is not connected", "CHECK_MECHANICALS"},
                                               {62, "internal micro-controller halted", "RESET_GPU"},
                                               {63, "memory was remapped", "IGNORE"},
                                               {64, "memory could not be remapped", "RESET_GPU"},
                                               {74, "NVLink error", "WORKFLOW_NVLINK_ERR"},
                                               {79, "the GPU has fallen off the bus", "RESTART_BM"},
                                               {92, "many single bit ECC errors", "IGNORE"},
                                               {94, "memory error, contained in a program", "RESTART_APP"},
                                               {95, "memory error, not contained", "RESET_GPU"},
                                               {109, "context switch timed out", "RESET_GPU"},
                                               {110, "security fault", "RESET_GPU"},
                                               {119, "the GPU's system processor (GSP) did not answer", "RESET_GPU"},
                                               {120, "error of the GPU's system processor (GSP)", "RESET_GPU"},
                                               {136, "training of a link failed", "RESET_GPU"},
                                               {137, "a program used NVLink without permission", "IGNORE"},
                                               {140, "ECC error, not recovered", "RESET_GPU"},
                                               {143, "the GPU could not be initialised", "RESET_GPU"},
                                               {144, "NVLink 5 error (SAW)", "WORKFLOW_NVLINK5_ERR"},
                                               {145, "NVLink 5 error (RLW)", "WORKFLOW_NVLINK5_ERR"},
                                               {146, "NVLink 5 error (TLW)", "WORKFLOW_NVLINK5_ERR"},
                                               {147, "NVLink 5 error (TREX)", "WORKFLOW_NVLINK5_ERR"},
                                               {148, "NVLink 5 error (NVLPW_CTRL)", "WORKFLOW_NVLINK5_ERR"},
                                               {149, "NVLink 5 error (NETIR)", "WORKFLOW_NVLINK5_ERR"},
                                               {150, "NVLink 5 error (MSE)", "WORKFLOW_NVLINK5_ERR"},
                                               {151, "key rotation failed", "RESTART_VM"},
                                               {154, "what helps has changed", "XID_154"},
                                               {156, "a faulty part was retired", "RESET_GPU"},
                                               {157, "a faulty part could not be retired", "IGNORE"},
                                               {158, "fatal timeout", "RESET_GPU"}}};

struct Bucket {
  std::string_view name, words;
};
constexpr std::array<Bucket, 11> buckets{
    {{"RESTART_APP", "restart the program; the same GPU again: look at the GPU"},
     {"IGNORE", "nothing; follow the XID that came with it"},
     {"RESET_GPU", "drain the node and reset the GPU; again: have it replaced"},
     {"RESTART_BM", "restart the node, power included; again: have the GPU replaced"},
     {"RESTART_VM", "restart the virtual machine"},
     {"CHECK_MECHANICALS", "check cables and seat of the GPU"},
     {"WORKFLOW_XID_45", "follow the other XID; alone: restart the fabric manager"},
     {"WORKFLOW_XID_48", "drain the node and reset the GPU; SRAM threshold exceeded: have it replaced"},
     {"WORKFLOW_NVLINK_ERR", "reset the GPU or restart the node; on the same link again: have it replaced"},
     {"WORKFLOW_NVLINK5_ERR", "if fatal, reset the GPU or restart the node; on the same link again: have it replaced"},
     {"XID_154", "what the line in the kernel's log says"}}};

}  // namespace

std::span<const KnownXid> xids() { return known_xids; }

bool condemns(int number) {
  constexpr std::array<std::string_view, 5> condemning{"RESET_GPU", "RESTART_BM", "CHECK_MECHANICALS",
                                                       "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR"};
  return std::any_of(known_xids.begin(), known_xids.end(), [&](const KnownXid& xid) {
    return xid.number == number && std::find(condemning.begin(), condemning.end(), xid.bucket) != condemning.end();
  });
}

std::string_view action_in_words(std::string_view bucket) {
  const auto* const found =
      std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) { return b.name == bucket; });
  return found == buckets.end() ? std::string_view() : found->words;
}

std::string advice_on(const std::string& name) {
  for (const KnownXid& xid : known_xids) {
    if (name == "xid_" + std::to_string(xid.number)) {
      return std::string(xid.what) + "; NVIDIA: " + std::string(action_in_words(xid.bucket)) + " (" +
             std::string(xid.bucket) + ")";
    }
  }
  return "";
}

}  // namespace shakedown
