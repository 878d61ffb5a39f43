// The meaning and the remedy of each fact of the machine. Meanings and remedies are the rows of remedies.yaml, which
// the build checks. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/names.hpp"

namespace shakedown {

/// The kind of repair. setting: a command changes it. restart: the host or a service must be restarted. reset: the GPU
/// must be reset. reseat: a person must check the card, cable or power supply. replace: the part must be exchanged.
/// none: no repair is needed yet.
enum class RemedyAction { none, setting, restart, reset, reseat, replace };
constexpr auto words(RemedyAction) { return names("none", "setting", "restart", "reset", "reseat", "replace"); }

/// A row of remedies.yaml. Its word is the fact of the row. Only remedies.cpp knows the values.
enum class RemedyId : std::uint16_t;

struct RemedyRow {
  std::string_view fact, means;
  RemedyAction action;
  std::string_view command;  // {gpu} and {limit} are placeholders for the GPU and the limit of the fact
};

struct Remedy {
  std::optional<RemedyId> id = std::nullopt;  // nullopt: from the verdict of a release with another table
  RemedyAction action = RemedyAction::none;
  std::string means;    // such as "faulty rows of the GPU memory wait for a reset"
  std::string command;  // for a shell on the host
};

std::span<const RemedyRow> remedy_rows();

/// Returns the fact of the row, which is the id in verdict.json.
std::string_view name(RemedyId);
/// Returns the row of a fact; nullopt if the table has none.
std::optional<RemedyId> remedy_named(std::string_view fact);

/// Returns the remedy for a fact that misses its limit; nullopt if the table has no row for the fact.
std::optional<Remedy> remedy_of(std::string_view fact, std::string_view gpu, std::string_view limit);

}  // namespace shakedown
