#include "thresholds/catalogue/key_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "thresholds/catalogue/families.hpp"

namespace shakedown {
namespace {

using Text = std::string_view;

struct Word {
  Text part, value, words;
};

// Words for "part:value". `#` matches any value of the part.
constexpr std::array words_of_parts{
    Word{"engine", "sm", "by kernel"},
    Word{"engine", "ce", "by copy engine"},
    Word{"engine", "cpu", "by processor"},
    Word{"op", "all_gather", "AllGather"},
    Word{"op", "reduce_scatter", "ReduceScatter"},
    Word{"op", "alltoall", "AllToAll"},
    Word{"op", "alltoallv", "AllToAllv"},
    Word{"op", "dispatch", "dispatch"},
    Word{"op", "combine", "combine"},
    Word{"op", "broadcast", "Broadcast"},
    Word{"op", "reduce", "Reduce"},
    Word{"op", "sendrecv", "SendRecv"},
    Word{"op", "allreduce", "AllReduce"},
    Word{"op", "h2d", "host to GPU"},
    Word{"op", "d2h", "GPU to host"},
    Word{"op", "both", "both ways"},
    Word{"op", "fwq", "fixed work"},
    Word{"dir", "both", "both ways"},
    Word{"bytes", "free", "all free memory"},
    Word{"active", "one", "alone"},
    Word{"numa", "far", "far NUMA node"},
    Word{"place", "in", "in place"},
    Word{"launch", "graph", "from a graph"},
    Word{"via", "net", "over the network only"},
    Word{"memory", "symmetric", "in symmetric memory"},
    Word{"timing", "single", "one by one"},
    Word{"data", "zeros", "zeros"},
    Word{"ranks", "even", "even ranks"},
    Word{"shift", "*", "each pair"},
    Word{"of", "", "#"},
    Word{"dtype", "", "#"},
    Word{"op", "", "#"},
    Word{"pattern", "", "#"},
    Word{"model", "", "#"},
    Word{"load", "", "#"},
    Word{"src", "", "from GPU #"},
    Word{"dst", "", "to GPU #"},
    Word{"shift", "", "shift #"},
    Word{"rank", "", "rank #"},
    Word{"batch", "", "batch #"},
    Word{"skew", "", "skew #"},
    Word{"workers", "", "# workers"},
    Word{"prefetch", "", "# batches ahead"},
    Word{"seq", "", "# tokens"},
    Word{"tokens", "", "# tokens"},
    Word{"experts", "", "# experts"},
    Word{"top", "", "# experts of a token"},
    Word{"hidden", "", "hidden size #"},
};

// Returns "4 GiB", "1000 MiB" or "8 B".
std::string bytes_text(long long bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < units.size(); bytes /= 1024) ++unit;
  return std::to_string(bytes) + " " + units[unit];
}

std::string part_text(const Key& key, const Key::Part& part) {
  const auto& [name, value] = part;
  if (name == "m") return value + " x " + std::string(key.part("n")) + " x " + std::string(key.part("k"));
  if (const auto bytes = key.number("bytes"); name == "bytes" && bytes) return bytes_text(*bytes);
  const auto found = std::find_if(words_of_parts.begin(), words_of_parts.end(), [&](const Word& word) {
    return word.part == name && (word.value.empty() || word.value == value);
  });
  if (found == words_of_parts.end()) return joined(std::array{name, value}, value.empty() ? "" : " ");
  std::string text(found->words);
  if (const auto hash = text.find('#'); hash != std::string::npos) text.replace(hash, 1, value);
  return text;
}

// True for parts that follow the family's name without a comma: "HBM read", "AllReduce f32".
bool is_of_name(Text part) {
  constexpr std::array parts{"of", "op", "dtype", "pattern", "model", "engine"};
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

}  // namespace

std::string readable(const Key& key) {
  const FamilyRow* const row = family_row(key.family());
  std::string text(row != nullptr && !row->called.empty() ? row->called : Text(key.family()));
  for (const Key::Part& part : key.parts()) {
    if (key.part("m").empty() || (part.first != "n" && part.first != "k")) {
      text += (is_of_name(part.first) ? " " : ", ") + part_text(key, part);
    }
  }
  return text;
}

std::string name_text(const Key& key) {
  return key.parts().empty() || !family_row(key.family()) || key.family() == "preflight" ? "" : readable(key);
}

std::string named_text(const Key& key, const std::string& metric) {
  const std::string name = name_text(key);
  if (metric.empty()) return name.empty() ? key.text() : name;
  return name.empty() ? key.text() + " " + metric : name + " (" + metric + ")";
}

}  // namespace shakedown
