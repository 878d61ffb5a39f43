// Inventory: what machine this is, for a person, or as JSON. Under mpirun of all hosts, and what differs between them.
//
//   build/bench/inventory
//   mpirun -np 16 --map-by ppr:1:node build/bench/inventory gpu
//   build/bench/inventory all --json
#include <cstdio>
#include <string>
#include <vector>

#include "fixtures/inventory_text.hpp"
#include "fixtures/output.hpp"
#include "fixtures/surroundings.hpp"
#include "fixtures/watchdog.hpp"

namespace {

constexpr int usage = 2, could_not_run = 3;
constexpr double limit = 120;  // seconds

const char* const help =
    "usage: [mpirun -np N] inventory [summary|gpu|nvlink|ib|cpu|software|all] [--json]\n"
    "\n"
    "Says what machine this is, without changing or measuring anything; under mpirun of every host, one rank each is\n"
    "enough. What cannot be read is '?', in JSON null.\n"
    "\n"
    "exit code: 0, 2 usage, 3 could not run (under a launcher: 0 or not 0)\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace shakedown;
  const auto label = launcher_rank().empty() ? host_name() : "rank " + launcher_rank() + " (" + host_name() + ")";
  Watchdog watchdog(label, limit);
  StandardOutput output;
  try {
    const auto world =
        make_world([&watchdog](bool entering) { entering ? watchdog.enter_call() : watchdog.leave_call(); });
    watchdog.on_abort({}, [&world] { world->abort(could_not_run); });
    View view = View::summary;
    bool json = false;
    std::string wrong;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--json") {
        json = true;
      } else if (word == "--help") {
        if (world->rank() == 0) output.stream() << help;
        return 0;
      } else if (const auto chosen = named<View>(word)) {
        view = *chosen;
      } else {
        wrong = word;
      }
    }
    if (!wrong.empty()) {
      if (world->rank() == 0) std::fprintf(stderr, "inventory: %s: unknown; see --help\n", wrong.c_str());
      return usage;
    }
    const auto hosts = read_all_hosts(*world);
    if (world->rank() == 0) output.stream() << (json ? inventory_json(hosts, view) : inventory_text(hosts, view));
    watchdog.on_abort({}, {});
    if (output.stream()) return 0;
    std::fputs("inventory: standard output: cannot be written\n", stderr);
    return could_not_run;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "inventory: %s: %s\n", label.c_str(), error.what());
    std::_Exit(could_not_run);
  }
}
