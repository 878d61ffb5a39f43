// Runs a fuzz target without libFuzzer: first each file of the corpus unchanged, then mutations of these files, for a
// number of processor seconds or inputs. A crash or a sanitizer report is a finding; its input is in crash-input.
//
//   build/tests/fuzz_results --corpus=DIR [--corpus=DIR] [--seconds=5] [--inputs=N] [--seed=1]
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_input = 1 << 16;

// Words that readers compare with, and numbers at their limits.
constexpr std::string_view words[] = {"0",     "-1",          "1e300", "1e-300",  "2147483648", "18446744073709551616",
                                      "null",  "true",        "[]",    "{}",      "\"\"",       "NaN",
                                      "\n",    "\"\\u0000\"", ": ",    "- ",      "src:",       "dst:",
                                      "rank:", "bytes:",      "m:",    "shift:*", "/",          "'"};

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}

  std::string next() {
    std::string text = pick(corpus_);
    // Cuts large files, so that more inputs are read per second.
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) change(text);
    if (text.size() > largest_input) text.resize(largest_input);
    return text;
  }

 private:
  std::size_t below(std::size_t n) {
    return n == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  const std::string& pick(const std::vector<std::string>& list) { return list[below(list.size())]; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1),
                      length = below(std::min<std::size_t>(text.size() - std::min(at, text.size()), 64) + 1);
    switch (below(7)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, words[below(std::size(words))]); break;
      case 2: text.replace(at, length, words[below(std::size(words))]); break;
      case 3: text.insert(at, text.substr(at, length)); break;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 5: replace_number(text, at); break;
      default: {
        const std::string& other = pick(corpus_);
        text.insert(at, other.substr(below(other.size() + 1), below(256)));
      }
    }
  }

  // Numbers are the most frequent content of every format.
  void replace_number(std::string& text, std::size_t from) {
    const auto digit = text.find_first_of("0123456789", from);
    if (digit == std::string::npos) return;
    const auto end = std::min(text.find_first_not_of("0123456789.eE+-", digit), text.size());
    text.replace(digit, end - digit, words[below(6)]);
  }

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> corpus;
  double seconds = 5;
  std::uint64_t inputs = UINT64_MAX, seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i], value = argument.substr(std::min(argument.find('=') + 1, argument.size()));
    if (argument.starts_with("--seconds=")) seconds = std::atof(value.c_str());
    if (argument.starts_with("--inputs=")) inputs = std::strtoull(value.c_str(), nullptr, 10);
    if (argument.starts_with("--seed=")) seed = std::strtoull(value.c_str(), nullptr, 10);
    if (!argument.starts_with("--corpus=")) continue;
    for (const auto& entry : fs::recursive_directory_iterator(value)) {
      if (const auto kind = entry.path().extension(); kind != ".json" && kind != ".yaml" && !kind.empty()) continue;
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      std::string text{std::istreambuf_iterator<char>(in), {}};
      if (!text.empty() && text.size() <= largest_input) corpus.push_back(std::move(text));
    }
  }
  if (corpus.empty()) {
    fmt::print(stderr, "no corpus; name a folder with --corpus=DIR\n");
    return 2;
  }
  std::sort(corpus.begin(), corpus.end());
  for (const std::string& text : corpus) run(text);
  Mutator mutator(corpus, seed);
  // A busy machine tries as many inputs as an idle one.
  const std::clock_t start = std::clock();
  const auto spent = [&] { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; };
  std::uint64_t tried = 0;
  for (; tried < inputs && spent() < seconds; ++tried) run(mutator.next());
  fmt::print("{} inputs of {} seeds in {:.1f} s, seed {}\n", tried, corpus.size(), spent(), seed);
  return 0;
}
