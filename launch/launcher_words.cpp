#include "launch/launcher_words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <sstream>

#include "base/parse_number.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

// Phrases of lines that say nothing about the cause of a failed start.
constexpr std::array harmless{
    "Permanently added",
    "Permission denied, please try again",
    "ssh_askpass: ",
    "srun: Job step aborted",
    "error: couldn't chdir to `",
    " not accessible: No such file or directory.",
    "srun: Job allocation ",
    "srun: Force Terminated ",
    "total processes failed to start",
};

bool is_harmless(std::string_view line) {
  return std::any_of(harmless.begin(), harmless.end(),
                     [&](std::string_view phrase) { return line.find(phrase) != std::string_view::npos; });
}

/// True if a message contains this name as a whole word, so that "node1" does not match "node10".
bool has_word(std::string_view text, std::string_view word) {
  const auto is_part = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '-');
  };
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (!is_part(at - 1) && !is_part(at + word.size())) return true;
  }
  return false;
}

bool is_rule_of_frame(std::string_view line) {
  return line.size() > 20 && line.find_first_not_of('-') == std::string_view::npos;
}

/// True for "[node1:24116] Set MCA parameter ..." and similar lines, which only count help texts.
bool is_note_of_open_mpi(std::string_view line) {
  return line.rfind('[', 0) == 0 && (line.find("Set MCA parameter") != std::string_view::npos ||
                                     line.find("sent help message") != std::string_view::npos ||
                                     line.find("sent the same help message") != std::string_view::npos);
}

/// One line, or one help text of Open MPI, which is between two lines of dashes.
struct Sentence {
  std::string shown, whole;
  std::optional<StartMatch> known;

  bool is_vague() const { return known && known->row->fault == StartFault::daemon_not_started; }
  bool names(std::string_view host) const { return host.empty() || has_word(whole, host); }
  bool has_host() const { return known && !known->host.empty(); }
};

/// Returns a text as one line with single blanks, and without blanks at its ends.
std::string squeezed(const std::string& line) {
  std::istringstream words(one_line(line));
  return joined(std::vector<std::string>(std::istream_iterator<std::string>(words), {}), " ");
}

struct Said {
  std::vector<Sentence> plain, framed;
};

Said said_in(const std::vector<std::string>& lines) {
  Said said;
  bool framed = false;
  for (const auto& line : lines) {
    if (is_rule_of_frame(line)) {
      framed = !framed;
      if (framed) said.framed.emplace_back();
    } else if (framed) {
      auto& whole = said.framed.back().whole;
      const auto more = squeezed(line);
      if (!whole.empty() && !more.empty()) whole += " ";
      whole += more;
    } else if (const auto text = squeezed(line); !text.empty() && !is_note_of_open_mpi(text) && !is_harmless(text)) {
      said.plain.push_back({text, text, start_match(text)});
    }
  }
  std::erase_if(said.framed, [](const auto& frame) { return frame.whole.empty(); });
  for (auto& frame : said.framed) {
    frame.known = start_match(frame.whole);
    frame.shown = frame.whole.substr(0, std::min(frame.whole.find(". "), frame.whole.find(": ")));
  }
  return said;
}

/// Returns the text between `before` and `after` in a line; if `after` is empty, the rest of the line after `before`.
/// nullopt if the line does not contain them.
std::optional<std::string_view> between(std::string_view line, std::string_view before, std::string_view after) {
  const auto begin = line.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  line.remove_prefix(begin + before.size());
  const auto end = after.empty() ? line.size() : line.find(after);
  return end == std::string_view::npos ? std::nullopt : std::optional(line.substr(0, end));
}

std::optional<int> rank_in(std::optional<std::string_view> text) {
  return text ? leading_number<int>(*text) : std::nullopt;
}

/// Parses "mpirun noticed that process rank 1 with PID 0 on node u2 exited on signal 11 (Segmentation fault)."
std::optional<RankDeath> death_by_mpirun(std::string_view line) {
  const auto rank = rank_in(between(line, "noticed that process rank ", " with PID "));
  const auto host = between(line, " on node ", " exited on signal "), how = between(line, " exited on signal ", ".");
  if (!rank || !host || !how) return std::nullopt;
  return RankDeath{*rank, std::string(*host), "signal " + std::string(*how)};
}

/// Parses "srun: error: node-a1: task 1: Segmentation fault (core dumped)" and "srun: error: node-a1: tasks 2-3:
/// Killed".
std::optional<RankDeath> death_by_srun(std::string_view line) {
  const auto host = between(line, "srun: error: ", ": task");
  const auto numbers = between(line, ": task", ": ");
  if (!host || !numbers) return std::nullopt;
  const auto rank = rank_in(numbers->substr(std::min(numbers->find(' '), numbers->size() - 1) + 1));
  const auto how = between(line.substr(line.find(": task") + 2), ": ", "");
  return rank && how ? std::optional(RankDeath{*rank, std::string(*host), std::string(*how)}) : std::nullopt;
}

}  // namespace

std::string StartFailure::text() const {
  auto text = line;
  while (!text.empty() && (text.back() == '.' || text.back() == ':')) text.pop_back();
  if (!known) return text;
  const auto& [row, host, what] = *known;
  if (!host.empty() && !has_word(text, host)) text = host + ": " + text;
  if (!what.empty() && text.find(what) == std::string::npos) text += " (" + what + ")";
  return text + "; " + std::string(action(row->fault));
}

std::optional<StartFailure> start_failure(const std::vector<std::string>& lines, std::string_view host) {
  const auto said = said_in(lines);
  const auto first = [&](const std::vector<Sentence>& of, const auto& is_wanted) -> const Sentence* {
    const auto found = std::find_if(of.begin(), of.end(), [&](const auto& s) { return s.names(host) && is_wanted(s); });
    return found == of.end() ? nullptr : &*found;
  };
  const auto is_cause = [](const Sentence& s) { return s.known && !s.is_vague(); };
  const auto any = [](const Sentence&) { return true; };
  const Sentence* best = first(said.plain, is_cause);
  if (best != nullptr && !best->has_host()) {  // another line about the same rank may name its host
    const auto fault = best->known->row->fault;
    const auto* named =
        first(said.plain, [&](const Sentence& s) { return s.has_host() && s.known->row->fault == fault; });
    if (named != nullptr) best = named;
  }
  if (best == nullptr) best = first(said.framed, is_cause);
  if (best == nullptr) best = first(said.plain, any);
  if (best == nullptr) best = first(said.framed, any);
  return best == nullptr ? std::nullopt : std::optional(StartFailure{best->known, best->shown});
}

StartCause start_cause(const Ending& ending, const std::string& launcher, const std::vector<std::string>& lines,
                       std::string_view host) {
  const auto how = ending.text(launcher);
  if (!ending.not_started.empty()) return {how + "; install it, or correct PATH or SHAKEDOWN_LAUNCH"};
  const auto failure = start_failure(lines, host);
  if (!failure) return {how};
  StartCause cause{ending.told.empty() ? failure->text() : how + " (" + failure->text() + ")"};
  if (failure->known) cause.fault = failure->known->row->fault;
  return cause;
}

std::optional<RankDeath> rank_death(const std::vector<std::string>& lines) {
  for (const auto& line : lines) {
    if (auto death = death_by_mpirun(line)) return death;
    if (auto death = death_by_srun(line)) return death;
  }
  // mpirun reports an exit code in two lines: " Process name: [[17531,1],1]", " Exit code: 3".
  for (auto line = lines.begin(); line != lines.end() && std::next(line) != lines.end(); ++line) {
    const auto name = between(*line, "Process name: [[", ""), code = between(*std::next(line), "Exit code:    ", "");
    const auto rank = name ? rank_in(between(*name, "],", "]")) : std::nullopt;
    if (rank && code) return RankDeath{*rank, "", "exit code " + std::string(*code)};
  }
  return std::nullopt;
}

}  // namespace shakedown
