// What another program prints, within a limit: pre-flight asks those of the site (scontrol, dcgmi).
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace shakedown {

struct CommandOutput {
  bool started = false;    // no: there is no such program in PATH
  bool timed_out = false;  // it was ended when its time was over
  int code = 0;            // its exit code; 128 and a signal's number where that ended it
  std::string text;        // what it printed, standard error too
};
template <class Archive>
void members(Archive& archive, CommandOutput& output) {
  archive("started", output.started)("timed_out", output.timed_out)("code", output.code)("text", output.text);
}

/// Runs it without a shell and without input. After `limit` it gets SIGTERM, so that it can tell those who work for it,
/// and after `last_words` SIGKILL. What it has left running is not waited for.
CommandOutput output_of(const std::vector<std::string>& command, std::chrono::duration<double> limit,
                        std::chrono::duration<double> last_words = std::chrono::seconds(30));

}  // namespace shakedown
