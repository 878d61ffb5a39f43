// The meaning and the remedy of a fact of the machine: the rows of remedies.yaml, checked by the build. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/names.hpp"

namespace shakedown {

/// The kind of repair. setting: a command changes it. restart: of the host or a service. reset: of the GPU. reseat: a
/// person checks the card, cable or power supply. replace: the part is exchanged. none: no repair yet.
enum class RemedyAction { none, setting, restart, reset, reseat, replace };
constexpr auto words(RemedyAction) { return names("none", "setting", "restart", "reset", "reseat", "replace"); }

struct RemedyRow {
  std::string_view fact, means;
  RemedyAction action;
  std::string_view command;  // {gpu} and {limit} are placeholders for the GPU and the limit of the fact
};

struct Remedy {
  RemedyAction action = RemedyAction::none;
  std::string means;    // "faulty rows of its memory wait for a reset"
  std::string command;  // for a shell of the host
};

std::span<const RemedyRow> remedy_rows();

/// Returns the remedy for a fact beyond its limit; nullopt without a row.
std::optional<Remedy> remedy_of(std::string_view fact, std::string_view gpu, std::string_view limit);

}  // namespace shakedown
