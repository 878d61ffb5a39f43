// Inventory: describes this machine as text or as JSON. Under mpirun it describes all hosts and how they differ.
//
//   build/bench/inventory
//   mpirun -np 16 --map-by ppr:1:node build/bench/inventory gpu
//   build/bench/inventory all --json
#include <string>
#include <vector>

#include "base/archive.hpp"
#include "base/nearest_word.hpp"
#include "bench/inventory/text.hpp"
#include "fixtures/plan/inspection_context.hpp"
#include "fixtures/program/program.hpp"

namespace {

constexpr double limit = 120;  // in seconds

const char* const help =
    "usage: [mpirun -np N] inventory [summary|gpu|nvlink|ib|cpu|software|settings|all] [--json]\n"
    "\n"
    "Prints the facts of this machine without changing or measuring it, or of every host under mpirun (one rank each "
    "is\n"
    "enough). Unknown values are '?', in JSON null. settings: settings that cost speed, with a command and a "
    "source.\n"
    "\n"
    "exit code: 0, 2 usage, 3 could not run (under a launcher: 0 or not 0)\n";

using namespace shakedown;

/// Returns the inventories of all hosts on the first rank, in the order of their first ranks. Collective.
std::vector<NamedInventory> read_all_hosts(World& world) {
  const bool speaks = world.on_host().rank() == 0;
  const auto answers = gather_to_first(world, speaks ? std::optional(read_own_host()) : std::nullopt);
  std::vector<NamedInventory> hosts;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank]) hosts.push_back({world.hosts()[rank], *answers[rank]});
  }
  return hosts;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(limit, [&](Program& program) -> int {
    View view = View::summary;
    bool json = false;
    const bool speaks = program.world.rank() == 0;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--help") {
        if (speaks) program.out << help;
        return complete;
      }
      const auto chosen = named<View>(word);
      if (word != "--json" && !chosen) {
        std::vector<std::string> known{"--json", "--help"};
        for (const auto view_name : words(View{})) known.emplace_back(view_name);
        throw AgreedEnd{usage, word + ": unknown" + did_you_mean(word, known) + "; see inventory --help"};
      }
      json = json || word == "--json";
      view = chosen.value_or(view);
    }
    const auto hosts = read_all_hosts(program.world);
    if (speaks) program.out << (json ? inventory_json(hosts, view) : inventory_text(hosts, view));
    return complete;
  });
}
