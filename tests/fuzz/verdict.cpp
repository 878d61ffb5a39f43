// Fuzzes stored verdicts, and prints those that can be read.
#include "report/terminal.hpp"
#include "report/verdict_json.hpp"
#include "tests/fuzz/one_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shakedown;
  return fuzz::try_to([&] {
    const Verdict verdict = read_verdict(fuzz::file_with(data, size, "verdict.json"));
    static_cast<void>(terminal_text(verdict));
  });
}
