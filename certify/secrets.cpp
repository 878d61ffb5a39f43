#include "certify/secrets.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <unordered_map>

#include "base/text.hpp"

namespace shakedown {
namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::string_view mask = "***", separators = " \t\r\"'`,;()[]{}<>\\";

// Lists of words, each with a blank on both sides. Parts of names of secrets are in lower case, and '_' also matches
// '-'.
constexpr std::string_view secret_parts =
    " secret passw passphrase passcode pwd credential apikey jwt cookie bearer session_id sessionid signature auth "
    "token "
    "account_key accountkey accesskey privatekey _key _pw ";
constexpr std::string_view secret_words =  // after these words, the rest of the line is a secret
    " password passphrase passcode token secret bearer credential credentials jwt apikey pin otp pw sig pwd --user ";
// In lines with these programs, the whole line is a secret.
constexpr std::string_view secret_programs = " passwd sshpass mysql --password-stdin --stdin ";
constexpr std::string_view secret_starts =
    " ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox sk- hf_ AKIA ASIA AIza npm_ pypi- eyJ ya29. nvapi- ";
// Values of variables with these prefixes are harmless. The value of any other variable is masked unless each of its
// pieces is harmless.
constexpr std::string_view known_starts =
    " NCCL_ UCX_ OMPI_ PMIX_ PRTE_ CUDA_ CUBLAS NVIDIA_ OMP_ OPENBLAS_ SLURM_ SHAKEDOWN_ FI_ HWLOC_ MASTER_ LOCAL_ "
    "RANK "
    "WORLD_SIZE PATH LD_ HOSTNAME TMPDIR name host ranks backend --tier --famil --results --folder --for --expect "
    "--host "
    "--interface --site --run-id --lost --crashed --roster --timeout --backend --thresholds --shared-folder "
    "--checkpoint-dir --storage-dir --mpi --benchmark_o --benchmark_f --benchmark_m --benchmark_r ";
constexpr std::string_view plain_values = " on off yes no true false none auto INFO WARN json cuda quick full console ";
constexpr std::string_view harmless_flags = "nNcxHtCJ";

bool is_in(std::string_view list, std::string_view word) {
  if (word.find(' ') != npos) return false;
  for (auto at = list.find(word); at != npos; at = list.find(word, at + 1)) {
    const auto end = at + word.size();
    if (at > 0 && list[at - 1] == ' ' && end < list.size() && list[end] == ' ') return true;
  }
  return false;
}

/// True if any word of the list passes the test.
template <class Test>
bool any_of(std::string_view list, const Test& test) {
  for (std::size_t begin = 1, end = 0; begin < list.size(); begin = end + 1) {
    end = list.find(' ', begin);
    if (test(list.substr(begin, end - begin))) return true;
  }
  return false;
}
bool begins_as(std::string_view list, std::string_view word) {
  return any_of(list, [&](std::string_view start) { return word.starts_with(start); });
}

// Minimum lengths of a piece that may be a secret; a piece with digits is suspected earlier.
constexpr std::size_t min_secret_bytes = 16, min_secret_bytes_with_digit = 8;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || (c & 0x80) != 0; }
bool has_text(std::string_view text) { return std::any_of(text.begin(), text.end(), is_alnum); }

bool is_secret_name(std::string_view name) {
  auto text = lower(name);
  std::replace(text.begin(), text.end(), '-', '_');
  for (const std::string_view harmless : {"tokens", "authorities", "_keys"}) {
    if (const auto at = text.find(harmless); at != npos) text.erase(at, harmless.size());
  }
  return is_in(secret_words, text) || any_of(secret_parts, [&](auto part) { return text.find(part) != npos; });
}

/// True for a word ("NVLink", "cudaMemcpyPeerAsync"), a number, a name with a number in it ("mlx5", "H100"), a time, or
/// a short hexadecimal number. False for "wJalrXUtnFEMI" and "s3cr3t".
bool is_harmless_piece(std::string_view piece) {
  if (piece.starts_with("0x")) piece.remove_prefix(2);
  const auto size = piece.size();
  const auto digits = static_cast<std::size_t>(std::count_if(piece.begin(), piece.end(), is_digit));
  if (digits == size) return size <= 20;
  if (size <= 16 && piece.find_first_not_of("0123456789abcdef") == npos) return true;
  if (size == 16 && digits == 14 && piece[8] == 'T' && piece[15] == 'Z') return true;
  std::size_t changes = 0;
  for (std::size_t i = 1; i < size; ++i) {
    const bool begins_part = is_upper(piece[i]) && !is_upper(piece[i - 1]) && !is_digit(piece[i - 1]);
    changes += begins_part || is_digit(piece[i - 1]) != is_digit(piece[i]) ? 1 : 0;
    if (i == 1 && begins_part && size > 12) return false;
  }
  return digits == 0 ? size <= 24 && changes <= 4 : size <= 16 && changes <= (size <= 12 ? 3 : 1);
}

bool is_harmless(std::string_view word) {
  const bool has_digit = std::any_of(word.begin(), word.end(), is_digit);
  if (begins_as(secret_starts, word) && word.size() >= (has_digit ? min_secret_bytes_with_digit : min_secret_bytes)) {
    return false;
  }
  for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end + 1) {
    end = begin;
    while (end < word.size() && is_alnum(word[end])) ++end;
    if (!is_harmless_piece(word.substr(begin, end - begin))) return false;
  }
  return true;
}

std::string filtered(std::string_view word) { return std::string(is_harmless(word) ? word : mask); }

bool is_plain_value(std::string_view value) {
  const auto unit = value.find_first_not_of("0123456789.+-");
  return is_in(plain_values, value) || (unit == npos ? !value.empty() : unit > 0 && value.size() - unit <= 3);
}

/// True for a name in the style of environment variables, such as "DOOR_CODE", but not "K".
bool is_variable_name(std::string_view name) {
  return name.size() >= 4 && std::any_of(name.begin(), name.end(), is_upper) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_upper(c) || is_digit(c) || c == '_'; });
}

/// Returns a word without blanks with its secrets masked: "name=value", "scheme://user:password@host/path?query", or
/// any other word.
std::string filtered_word(std::string_view word) {
  const auto colon = word.find("://"), at = word.rfind('@'), divider = word.find_first_of("=:");
  if (colon != npos && colon == divider) {
    const bool has_user = at != npos && at > colon;
    const auto place = word.substr(has_user ? at : colon + 3);
    const auto query = std::min(place.find_first_of("?#"), place.size());
    return std::string(word.substr(0, colon + 3)) + std::string(has_user ? mask : "") +
           filtered(place.substr(0, query)) + std::string(query < place.size() ? "?***" : "");
  }
  if (at != npos && divider < at && word[divider] == ':') return std::string(mask);
  if (divider == npos || divider == 0) return filtered(word);
  const auto name = word.substr(0, divider), value = word.substr(divider + 1);
  const bool is_shown = begins_as(known_starts, name) || (is_plain_value(value) && !is_variable_name(name));
  const bool is_hidden = is_secret_name(name) || (word[divider] == '=' && !is_shown);
  return filtered(name) + word[divider] + (is_hidden ? std::string(mask) : filtered_word(value));
}

/// Returns the number of bytes of this word before a secret that begins in the word or in `rest`; npos if there is no
/// secret.
std::size_t before_secret(std::string_view word, std::string_view rest) {
  const auto divider = word.find_first_of("=:"), next = rest.find_first_not_of(" \t\"'\\");
  const auto name = word.substr(0, divider);
  if (divider == npos) {
    const bool is_flag = word[0] == '-' && word.size() > 1 && !is_digit(word[1]);
    const bool is_variable = word.find('_') != npos && lower(word) == word;
    const bool has_value = is_flag || is_variable || (next != npos && (rest[next] == '=' || rest[next] == ':'));
    const bool is_short = is_flag && word.size() == 2 && harmless_flags.find(word[1]) == npos;
    return is_short || is_in(secret_words, lower(word)) || (has_value && is_secret_name(word)) ? word.size() : npos;
  }
  const bool is_value_in_quotes =
      divider > 0 && divider + 1 == word.size() && word[divider] == '=' && !begins_as(known_starts, name);
  return is_secret_name(name) || is_value_in_quotes ? divider + 1 : npos;
}

/// Masks a text line by line.
class Masker {
 public:
  std::string line(std::string_view text) {
    const auto block = text.find("-----BEGIN ");
    const bool is_hidden = in_block_ || value_follows_;
    in_block_ = (in_block_ || block != npos) && text.find("-----END ") == npos;
    if (!has_text(text)) return std::string(text);
    value_follows_ = false;
    if (is_hidden || any_of(secret_programs, [&](auto program) { return text.find(program) != npos; })) {
      return std::string(mask);
    }
    return words(text.substr(0, block)).append(block == npos ? "" : mask);
  }
  void expect_value(bool is_secret) { value_follows_ = is_secret; }

 private:
  std::string words(std::string_view text) {
    std::string clean;
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = std::min(text.find_first_not_of(separators, at), text.size());
      const auto end = std::min(text.find_first_of(separators, begin), text.size());
      clean += text.substr(at, begin - at);
      const auto word = text.substr(begin, end - begin);
      const auto shown = word.empty() ? npos : before_secret(word, text.substr(end));
      if (shown != npos) {
        const auto rest = text.substr(begin + shown);
        value_follows_ = rest.find_first_not_of(" \t\r\"',:=") == npos;
        return clean.append(filtered(word.substr(0, shown))).append(has_text(rest) ? mask : rest);
      }
      clean += filtered_word(word);
      at = end;
    }
    return clean;
  }

  bool in_block_ = false, value_follows_ = false;
};

std::string lines_without_secrets(Masker& masker, std::string_view text, std::string_view end_of_line) {
  std::string clean;
  for (std::size_t end = 0; end != npos;) {
    end = text.find(end_of_line);
    clean += masker.line(text.substr(0, end));
    if (end == npos) break;
    clean += end_of_line;
    text.remove_prefix(end + end_of_line.size());
  }
  return clean;
}

}  // namespace

std::string without_secrets(std::string_view log) {
  Masker masker;
  return lines_without_secrets(masker, log, "\n");
}

std::string json_without_secrets(std::string_view json) {
  Masker masker;
  std::string clean;
  // True after a key whose values are names of algorithms or hashes: they are long, but no secrets.
  bool is_hexadecimal = false;
  std::unordered_map<std::string_view, bool> secret_names;  // by key, because results have few keys, many times each
  for (auto begin = json.find('"'); begin != npos; begin = json.find('"')) {
    auto end = begin + 1;
    while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
    const auto text = json.substr(begin + 1, end - begin - 1);
    clean.append(json.substr(0, begin + 1));
    json.remove_prefix(std::min(end, json.size()));
    const auto after = json.find_first_not_of(" \t\r\n", 1);
    const bool is_key = after != npos && json[after] == ':';
    if (is_key) is_hexadecimal = text.starts_with("gemm/") || text.starts_with("product ") || text == "sha256";
    clean += is_key || is_hexadecimal ? std::string(text) : lines_without_secrets(masker, text, "\\n");
    if (is_key) {
      const auto [known, fresh] = secret_names.try_emplace(text);
      if (fresh) known->second = is_secret_name(text);
      masker.expect_value(known->second);
    }
    clean += json.substr(0, 1);
    json.remove_prefix(std::min<std::size_t>(1, json.size()));
  }
  return clean.append(json);
}

}  // namespace shakedown
