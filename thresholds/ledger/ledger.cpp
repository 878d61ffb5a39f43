#include "thresholds/ledger/ledger.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/threads.hpp"
#include "base/timed_call.hpp"
#include "base/utc.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view ending = ".json";

/// Returns the text with only those characters that a file name, its parts and a shell allow.
std::string plain(std::string text, std::string_view others) {
  std::erase_if(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) == 0 && others.find(c) == std::string_view::npos;
  });
  return text;
}

/// Returns the node of a file "20261126T180000Z-node-a7-run-4f2a.json": the text between the first '-' and the last
/// two.
std::string node_in(const std::string& file) {
  const auto begin = file.find('-'), id = file.rfind('-'), kind = id == 0 ? id : file.rfind('-', id - 1);
  return begin == std::string::npos || kind <= begin ? "" : file.substr(begin + 1, kind - begin - 1);
}

constexpr std::string_view before_figures = ",\n\"figures\":";

std::string text_of(const LedgerEvent& event) {
  std::string text = json_text(event, -1);
  if (event.kind != EventKind::run) return text + "\n";
  text.pop_back();
  return text + std::string(before_figures) + json_text(event.figures, -1) + "}\n";
}

LedgerEvent read_event(const fs::path& file) {
  std::string text = read_file(file);
  const bool is_whole = text.ends_with("}\n");
  if (const auto end = text.find(before_figures); end != std::string::npos) text.replace(end, std::string::npos, "}");
  const auto document = document_of_text(is_whole ? text : "");
  const Field field(file, "", document);
  if (document.is_discarded()) field.refuse("is not JSON");
  if (const int schema = field["schema"].integer(); schema != ledger_schema)
    field["schema"].refuse("is " + std::to_string(schema) + ", this program reads " + std::to_string(ledger_schema));
  LedgerEvent event = read_as<LedgerEvent>(field);
  if (!seconds_of(event.time)) field["time"].refuse("is not a time such as 2026-11-26T18:00:00Z");
  if (event.node.empty()) field["node"].refuse("is empty");
  return event;
}

LedgerFigures read_figures_of(const LedgerEvent& event, const fs::path& file) {
  const auto document = document_of_text(read_file(file));
  const Field field(file, "", document);
  if (document.is_discarded()) field.refuse("is not JSON");
  auto figures = read_as<LedgerFigures>(field["figures"]);
  for (const auto& [name, values] : figures.by_gpu) {
    if (values.size() != event.gpus.size()) field["figures"].refuse(name.text() + " does not have one value for each GPU");
  }
  return figures;
}

}  // namespace

std::string in_file_name(const std::string& node) { return plain(node, "-_."); }

std::string file_of(const LedgerEvent& event) {
  return plain(event.time, "") + "-" + in_file_name(event.node) + "-" + std::string(name(event.kind)) + "-" +
         plain(event.id, "_.") + std::string(ending);
}

void require_ledger(const fs::path& folder) {
  const TimedCall call("access", folder);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw CannotWrite("--ledger: " + folder.string() +
                      ": is not a folder; create it once, with mkdir, on a file system that all nodes share");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    throw CannotWrite("--ledger: " + folder.string() + ": cannot be written: " +
                      std::generic_category().message(errno) + "; correct its owner or its mode");
  }
}

void add_event(const fs::path& folder, const LedgerEvent& event) {
  require_ledger(folder);
  const fs::path file = folder / file_of(event);
  if (!path_exists(file)) replace_file(file, text_of(event));
}

namespace {

std::vector<std::string> event_files(const fs::path& folder) {
  if (!is_folder(folder))
    throw InputError("--ledger: " + folder.string() + ": is not a folder; name the folder of events");
  auto names = names_in(folder);
  if (!names) throw CannotRead("--ledger: " + folder.string() + ": cannot be read; try again");
  std::erase_if(*names, [](const std::string& name) { return !name.ends_with(ending); });
  return std::move(*names);
}

}  // namespace

void read_newest(const fs::path& folder, const std::string& node, const std::function<bool(LedgerEvent)>& visit) {
  auto names = event_files(folder);
  const std::string in_name = in_file_name(node);
  std::erase_if(names, [&](const std::string& name) { return node_in(name) != in_name; });
  std::ranges::sort(names, std::greater());  // a name begins with the time
  for (const std::string& name : names) {
    std::optional<LedgerEvent> event;
    const auto why_not = input_error_of([&] {
      event = read_event(folder / name);
      if (event->kind == EventKind::run) event->figures = read_figures_of(*event, folder / name);
    });
    if (why_not.empty() && !visit(std::move(*event))) return;
  }
}

Ledger read_ledger(const fs::path& folder) {
  const auto names = event_files(folder);
  std::vector<LedgerEvent> events(names.size());
  std::vector<std::string> why_not(names.size());
  in_threads(
      numbers_below(names.size()),
      [&](std::size_t i) { why_not[i] = input_error_of([&] { events[i] = read_event(folder / names[i]); }); },
      max_reading_threads);
  Ledger ledger;
  ledger.events.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (why_not[i].empty())
      ledger.events.push_back(std::move(events[i]));
    else
      ledger.unreadable.push_back({names[i], node_in(names[i]), why_not[i]});
  }
  std::ranges::stable_sort(ledger.events, [](const LedgerEvent& a, const LedgerEvent& b) {
    return std::tie(a.time, a.id) < std::tie(b.time, b.id);
  });
  std::set<std::string> doubtful;
  for (const LedgerEvent& event : ledger.events) {
    if (event.kind != EventKind::run || event.outcome == NodeState::bad) doubtful.insert(event.node);
  }
  read_figures(folder, ledger, [&](const LedgerEvent& event) { return doubtful.contains(event.node); });
  return ledger;
}

void read_figures(const fs::path& folder, Ledger& ledger, const std::function<bool(const LedgerEvent&)>& is_wanted) {
  std::erase_if(ledger.events, [&](LedgerEvent& event) {
    const bool has = !event.figures.by_gpu.empty() || !event.figures.shared.empty();
    if (event.kind != EventKind::run || has || !is_wanted(event)) return false;
    const fs::path file = folder / file_of(event);
    try {
      event.figures = read_figures_of(event, file);
      return false;
    } catch (const InputError& error) {
      ledger.unreadable.push_back({file.filename(), in_file_name(event.node), error.what()});
      return true;
    }
  });
}

}  // namespace shakedown
