// The meaning of a fact of the machine and its remedy: remedies.yaml, as the build has checked it. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/names.hpp"

namespace shakedown {

/// The kind of repair. setting: a command changes it. restart: of the host or a service. reset: of the GPU. reseat: a
/// person checks the card, cable or power supply. replace: the part goes back. none: nothing yet; look.
enum class RemedyAction { none, setting, restart, reset, reseat, replace };
constexpr auto words(RemedyAction) { return names("none", "setting", "restart", "reset", "reseat", "replace"); }

struct RemedyRow {
  std::string_view fact, means;
  RemedyAction action;
  std::string_view command;  // {gpu} and {limit} stand for the GPU and for the limit that the fact misses
};

struct Remedy {
  RemedyAction action = RemedyAction::none;
  std::string means;    // "faulty rows of its memory wait for a reset"
  std::string command;  // for a shell of the host
};

std::span<const RemedyRow> remedy_rows();

/// Returns the remedy of a fact that misses its limit; nullopt if the table has no row of it.
std::optional<Remedy> remedy_of(std::string_view fact, std::string_view gpu, std::string_view limit);

}  // namespace shakedown
