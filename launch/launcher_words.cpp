#include "launch/launcher_words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>

#include "base/text.hpp"

namespace shakedown {
namespace {

constexpr std::array of_ssh{
    "Permission denied",
    "Host key verification failed",
    "Could not resolve hostname",
    "Connection refused",
    "No route to host",
    "Network is unreachable",
    "timed out",
    "Connection reset by",
    "Connection closed by",
    "command not found",
    "No such file or directory",
    "'s password:",
};
constexpr std::array of_srun{
    "Node failure on",
    "Required node not available",
    "Communication connection failure",
    "Unable to contact slurm controller",
    "Invalid node name specified",
    "launch failed",
};
constexpr std::array of_mpirun{
    "not enough slots available",
    "unable to find the specified executable",
    "unable to launch the specified application",
    "unknown option",
};
// Neither a cause nor the frame of one.
constexpr std::array harmless{
    "Permanently added",
    "srun: Job step aborted",
};

template <class Table>
bool has_any_of(std::string_view line, const Table& phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](std::string_view phrase) { return line.find(phrase) != std::string_view::npos; });
}

bool is_known(std::string_view line) {
  return has_any_of(line, of_ssh) || has_any_of(line, of_srun) || has_any_of(line, of_mpirun);
}

/// A host's name in a sentence, and not as a part of another one's.
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

/// "[node1:24116] Set MCA parameter ..." and its like, which count help texts.
bool is_note_of_open_mpi(std::string_view line) {
  return line.rfind('[', 0) == 0 && (line.find("Set MCA parameter") != std::string_view::npos ||
                                     line.find("sent help message") != std::string_view::npos ||
                                     line.find("sent the same help message") != std::string_view::npos);
}

/// The lines outside the help texts of Open MPI, which rules frame, and the paragraphs inside.
struct Said {
  std::vector<std::string> plain, framed;
};

Said said_in(const std::vector<std::string>& lines) {
  Said said;
  bool framed = false, paragraph = false;
  for (const auto& line : lines) {
    if (is_rule_of_frame(line)) framed = !framed;
    if (is_rule_of_frame(line) || line.empty()) {
      paragraph = false;
    } else if (framed && paragraph) {
      said.framed.back() += " " + one_line(line);
    } else if (!is_note_of_open_mpi(line) && !has_any_of(line, harmless)) {
      (framed ? said.framed : said.plain).push_back(one_line(line));
      paragraph = framed;
    }
  }
  return said;
}

/// Returns the text between two parts of a line, or after the first one if the second one is empty; nullopt if the line
/// lacks them.
std::optional<std::string_view> between(std::string_view line, std::string_view before, std::string_view after) {
  const auto begin = line.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  line.remove_prefix(begin + before.size());
  const auto end = after.empty() ? line.size() : line.find(after);
  return end == std::string_view::npos ? std::nullopt : std::optional(line.substr(0, end));
}

std::optional<int> whole_number(std::optional<std::string_view> text) {
  int value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() && end != text->data() ? std::optional(value) : std::nullopt;
}

/// "mpirun noticed that process rank 1 with PID 0 on node u2 exited on signal 11 (Segmentation fault)."
std::optional<RankDeath> death_by_mpirun(std::string_view line) {
  const auto rank = whole_number(between(line, "noticed that process rank ", " with PID "));
  const auto host = between(line, " on node ", " exited on signal "), how = between(line, " exited on signal ", ".");
  if (!rank || !host || !how) return std::nullopt;
  return RankDeath{*rank, std::string(*host), "signal " + std::string(*how)};
}

/// "srun: error: node-a1: task 1: Segmentation fault (core dumped)", "srun: error: node-a1: tasks 2-3: Killed"
std::optional<RankDeath> death_by_srun(std::string_view line) {
  const auto host = between(line, "srun: error: ", ": task");
  const auto numbers = between(line, ": task", ": ");
  if (!host || !numbers) return std::nullopt;
  const auto rank = whole_number(numbers->substr(std::min(numbers->find(' '), numbers->size() - 1) + 1));
  const auto how = between(line.substr(line.find(": task") + 2), ": ", "");
  return rank && how ? std::optional(RankDeath{*rank, std::string(*host), std::string(*how)}) : std::nullopt;
}

}  // namespace

std::string start_failure(const std::vector<std::string>& lines, std::string_view host) {
  const auto said = said_in(lines);
  for (const bool known : {true, false}) {
    for (const auto* of : {&said.plain, &said.framed}) {
      const auto line = std::find_if(of->begin(), of->end(), [&](const auto& text) {
        return (!known || is_known(text)) && (host.empty() || has_word(text, host));
      });
      if (line != of->end()) return *line;
    }
  }
  return "";
}

std::optional<RankDeath> rank_death(const std::vector<std::string>& lines) {
  for (const auto& line : lines) {
    if (auto death = death_by_mpirun(line)) return death;
    if (auto death = death_by_srun(line)) return death;
  }
  // mpirun names the rank of an exit code in a table: "  Process name: [[17531,1],1]", "  Exit code:    3"
  for (auto line = lines.begin(); line != lines.end() && std::next(line) != lines.end(); ++line) {
    const auto name = between(*line, "Process name: [[", ""), code = between(*std::next(line), "Exit code:    ", "");
    const auto rank = name ? whole_number(between(*name, "],", "]")) : std::nullopt;
    if (rank && code) return RankDeath{*rank, "", "exit code " + std::string(*code)};
  }
  return std::nullopt;
}

}  // namespace shakedown
