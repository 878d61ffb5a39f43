// Finds rows in the table that thresholds/tables/events.cpp generates.
#include "base/known_events.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "events_table.hpp"

namespace shakedown {
namespace {

const XidRow* row_of(int xid) {
  const auto* const found =
      std::find_if(xid_table.begin(), xid_table.end(), [&](const XidRow& row) { return row.number == xid; });
  return found == xid_table.end() ? nullptr : found;
}

const XidAction* action_of(std::string_view name) {
  const auto* const found = std::find_if(xid_action_table.begin(), xid_action_table.end(),
                                         [&](const XidAction& action) { return action.name == name; });
  return found == xid_action_table.end() ? nullptr : found;
}

}  // namespace

std::span<const XidRow> xids() { return xid_table; }
std::span<const LogShape> log_shapes() { return log_shape_table; }
std::span<const LogShape> bmc_shapes() { return bmc_shape_table; }
std::span<const PortLimit> port_limits() { return port_limit_table; }

bool condemns(int xid) {
  const XidRow* const row = row_of(xid);
  return row != nullptr && action_of(row->action)->condemns;
}

bool is_harmless(int xid) {
  const XidRow* const row = row_of(xid);
  return row != nullptr && (row->of_program || action_of(row->action)->ignore);
}

std::vector<FaultyVersion> faults_of(std::string_view component, std::string_view version) {
  std::vector<FaultyVersion> faults;
  std::ranges::copy_if(faulty_version_table, std::back_inserter(faults),
                       [&](const FaultyVersion& row) { return row.component == component && row.version == version; });
  return faults;
}

std::string_view action_in_words(std::string_view name) {
  const XidAction* const action = action_of(name);
  return action == nullptr ? std::string_view() : action->means;
}

std::string advice_on(const std::string& counter) {
  for (const XidRow& row : xid_table) {
    if (counter != "xid_" + std::to_string(row.number)) continue;
    return std::string(row.means) + "; NVIDIA: " + std::string(action_in_words(row.action)) + " (" +
           std::string(row.action) + ")";
  }
  return "";
}

}  // namespace shakedown
