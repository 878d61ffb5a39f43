// `shakedown top` as a program: JSON, hosts over a simulated ssh, a driver that hangs, the terminal, and its own cost.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/archive.hpp"
#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/host_activity.hpp"
#include "base/process.hpp"
#include "tests/node/fake_gpus.hpp"
#include "tests/node/made_up_host.hpp"

namespace shakedown::top_test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;
namespace fs = std::filesystem;

const std::string two_gpus = "gpus 2\n* nvmlDeviceGetUtilizationRates 97 41\n* nvmlDeviceGetTemperature 57\n";

class Top : public ::testing::Test {
 protected:
  Top() {
    host_.write("sys/devices/system/cpu/online", "0-3");
    setenv("SHAKEDOWN_ROOT", host_.root().c_str(), 1);
    setenv("SHAKEDOWN_NVML", FakeGpus::library().c_str(), 1);
    setenv("SHAKEDOWN_HOST", "here", 1);
    setenv("TERM", "xterm", 1);
  }
  ~Top() override {
    for (const auto* name : {"SHAKEDOWN_ROOT", "SHAKEDOWN_NVML", "SHAKEDOWN_HOST", "SHAKEDOWN_LIMITS_SCALE"}) {
      unsetenv(name);
    }
    setenv("PATH", path_.c_str(), 1);
  }

  static CommandOutput top(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {SHAKEDOWN_PROGRAM, "top"});
    return output_of(flags, seconds(60));
  }

  static Activity activity_in(const std::string& line) {
    const auto document = document_of_text(line);
    const fs::path place("output");
    return read_as<Activity>(Field(place, "", document));
  }

  /// Puts a program ssh before the real one. The words are the options, the host and one command for its shell.
  void simulate_ssh(const std::string& script) const {
    const auto folder = host_.root() / "bin";
    fs::create_directories(folder);
    std::ofstream(folder / "ssh") << "#!/bin/bash\nhost=${*: -2:1} command=${*: -1}\n" << script << "\n";
    fs::permissions(folder / "ssh", fs::perms::owner_all);
    setenv("PATH", (folder.string() + ":" + path_).c_str(), 1);
  }

  MadeUpHost host_;
  FakeGpus gpus_{two_gpus};
  const std::string path_ = std::getenv("PATH");
};

TEST_F(Top, PrintsOneDocumentWithAllGpus) {
  const auto output = top({"--once", "--json", "--interval=0.1"});
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 1);
  const auto activity = activity_in(output.text);
  ASSERT_EQ(activity.hosts.size(), 1u);
  EXPECT_EQ(activity.hosts[0].host, "here");
  ASSERT_EQ(activity.hosts[0].gpus.size(), 2u);
  EXPECT_EQ(activity.hosts[0].gpus[1].busy_percent, 97);
}

TEST_F(Top, PrintsOneTableWithoutATerminal) {
  const auto output = top({"--interval=0.1"});
  EXPECT_EQ(output.code, 0) << output.text;
  EXPECT_EQ(output.text.rfind("here: CPU ", 0), 0u) << output.text;
  EXPECT_NE(output.text.find("  1    97   41"), std::string::npos) << output.text;
}

TEST_F(Top, RefusesWrongFlagsInOneLine) {
  for (const auto* flag : {"--interval=0", "--interval=x", "--hosts=a,,b", "--hosts=-oProxyCommand=x", "--hosts=a;b",
                           "--hosts=node[1", "--nosuch", "node7"}) {
    const auto output = top({flag});
    EXPECT_EQ(output.code, 2) << flag << ": " << output.text;
    EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 1) << output.text;
  }
}

TEST_F(Top, ShowsHostsOverSshAndSaysWhichDoNotAnswer) {
  simulate_ssh(R"(case $host in
    node1) echo "Welcome to node1"; SHAKEDOWN_HOST=other exec sh -c "$command" ;;
    node2) echo "ssh: connect to host node2 port 22: Connection refused" >&2; exit 255 ;;
    node3) exec sleep 100 ;;
    node4) echo '{"hosts": 7}' ;;
  esac)");
  setenv("SHAKEDOWN_LIMITS_SCALE", "0.5", 1);
  const auto began = Clock::now();
  const auto output = top({"--hosts=node[1-4],here", "--once", "--json", "--interval=0.1"});
  EXPECT_LT(Clock::now() - began, seconds(20));
  EXPECT_EQ(output.code, 3) << output.text;
  const auto hosts = activity_in(output.text).hosts;
  ASSERT_EQ(hosts.size(), 5u);
  EXPECT_EQ(hosts[0].host, "node1");
  EXPECT_EQ(hosts[0].gpus.size(), 2u) << hosts[0].problem.value_or("");
  EXPECT_EQ(hosts[1].problem.value_or("").rfind("no answer (ssh: ", 0), 0u) << hosts[1].problem.value_or("");
  EXPECT_NE(hosts[1].problem.value_or("").find("Connection refused"), std::string::npos);
  EXPECT_EQ(hosts[2].problem.value_or("").rfind("no answer (ssh: ", 0), 0u) << hosts[2].problem.value_or("");
  EXPECT_NE(hosts[3].problem.value_or("").find("hosts"), std::string::npos) << hosts[3].problem.value_or("");
  EXPECT_EQ(hosts[4].gpus.size(), 2u) << "this host needs no ssh";
}

TEST_F(Top, SaysThatThereIsNoSsh) {
  setenv("PATH", "/nosuch", 1);
  const auto output = top({"--hosts=node1", "--once"});
  EXPECT_EQ(output.code, 3);
  EXPECT_EQ(output.text.rfind("node1: no answer (ssh: No such file or directory", 0), 0u) << output.text;
}

TEST_F(Top, IsNotHungByADriverThatHangs) {
  gpus_.answer(two_gpus + "1 nvmlDeviceGetTemperature hangs\n");
  setenv("SHAKEDOWN_LIMITS_SCALE", "0.5", 1);
  const auto began = Clock::now();
  const auto output = top({"--once", "--interval=0.1"});
  EXPECT_LT(Clock::now() - began, seconds(20));
  EXPECT_EQ(output.code, 3);
  const std::string line = "here: no answer (the driver does not answer: nvmlDeviceGetTemperature, ";
  EXPECT_EQ(output.text.rfind(line, 0), 0u) << output.text;
}

/// The program on a terminal of 80 columns and 24 lines.
class OnATerminal {
 public:
  explicit OnATerminal(std::vector<std::string> flags) {
    winsize size{24, 80, 0, 0};
    int controller = -1, terminal = -1;
    if (openpty(&controller, &terminal, nullptr, nullptr, &size) != 0) throw std::runtime_error("openpty");
    controller_ = Descriptor(controller);
    terminal_ = Descriptor(terminal);
    tcgetattr(terminal, &before_);
    pid_ = fork();
    if (pid_ == 0) {
      login_tty(terminal);
      flags.insert(flags.begin(), {SHAKEDOWN_PROGRAM, "top"});
      std::vector<char*> words;
      for (auto& flag : flags) words.push_back(flag.data());
      words.push_back(nullptr);
      execv(words.front(), words.data());
      _exit(99);
    }
  }
  ~OnATerminal() { kill(pid_, SIGKILL); }

  /// Reads the screen until it has shown `text`; false after ten seconds.
  bool shows(const std::string& text) {
    const auto until = Clock::now() + seconds(10);
    while (shown_.find(text) == std::string::npos && Clock::now() < until) take();
    return shown_.find(text) != std::string::npos;
  }
  void type(const std::string& keys) const { static_cast<void>(write_all(controller_.get(), keys)); }

  /// Returns the exit code; -1 if the program does not end within ten seconds or dies of a signal.
  int code() {
    const auto until = Clock::now() + seconds(10);
    while (Clock::now() < until) {
      take();
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return -1;
  }

  bool is_restored() const {
    termios now{};
    tcgetattr(terminal_.get(), &now);
    return now.c_lflag == before_.c_lflag && now.c_cc[VSUSP] == before_.c_cc[VSUSP] &&
           shown_.rfind("\033[?1049l") > shown_.rfind("\033[?1049h");
  }
  const std::string& shown() const { return shown_; }
  pid_t pid() const { return pid_; }

 private:
  void take() {
    pollfd out{controller_.get(), POLLIN, 0};
    char text[4096];
    if (poll(&out, 1, 50) <= 0) return;
    const auto count = read(controller_.get(), text, sizeof text);
    if (count > 0) shown_.append(text, static_cast<std::size_t>(count));
  }

  Descriptor controller_, terminal_;
  termios before_{};
  pid_t pid_ = 0;
  std::string shown_;
};

TEST_F(Top, RedrawsATerminalInPlaceAndRestoresItOnQ) {
  OnATerminal terminal({"--interval=0.2"});
  ASSERT_TRUE(terminal.shows("  1    97   41")) << terminal.shown();
  EXPECT_FALSE(terminal.is_restored());
  terminal.type("xq");
  EXPECT_EQ(terminal.code(), 0);
  EXPECT_TRUE(terminal.is_restored()) << terminal.shown();
}

TEST_F(Top, RestoresTheTerminalOnControlCAndOnATermination) {
  OnATerminal interrupted({"--interval=0.2"});
  ASSERT_TRUE(interrupted.shows("GPU busy%"));
  interrupted.type("\003");
  EXPECT_EQ(interrupted.code(), 0);
  EXPECT_TRUE(interrupted.is_restored());
  OnATerminal terminated({"--interval=0.2"});
  ASSERT_TRUE(terminated.shows("GPU busy%"));
  kill(terminated.pid(), SIGTERM);
  EXPECT_EQ(terminated.code(), 0);
  EXPECT_TRUE(terminated.is_restored());
}

TEST_F(Top, EndsOnQWhileTheDriverHangs) {
  gpus_.answer(two_gpus + "1 nvmlDeviceGetTemperature hangs\n");
  setenv("SHAKEDOWN_LIMITS_SCALE", "0.2", 1);
  OnATerminal terminal({"--interval=0.2"});
  ASSERT_TRUE(terminal.shows("no answer (the driver")) << terminal.shown();
  terminal.type("q");
  EXPECT_EQ(terminal.code(), 0);
  EXPECT_TRUE(terminal.is_restored());
}

TEST_F(Top, ShowsAsManyLinesAsTheTerminalHas) {
  gpus_.answer("gpus 40\n* nvmlDeviceGetTemperature 57\n");
  OnATerminal terminal({"--interval=0.2"});
  ASSERT_TRUE(terminal.shows("lines; --once prints all")) << terminal.shown();
  const auto frame = terminal.shown().substr(terminal.shown().rfind("\033[H"));
  EXPECT_LE(std::count(frame.begin(), frame.end(), '\n'), 23);
}

/// Returns the processor time of a process and its child processes in seconds (proc(5), fields utime and stime).
double processor_seconds(pid_t pid) {
  const auto folder = fs::path("/proc") / std::to_string(pid);
  const auto stat = line_of(folder / "stat").value_or("");
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  double user = 0, system = 0;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  fields >> user >> system;
  double sum = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::istringstream children(line_of(folder / "task" / std::to_string(pid) / "children").value_or(""));
  for (pid_t child = 0; children >> child;) sum += processor_seconds(child);
  return sum;
}

TEST_F(Top, CostsLittleProcessorTime) {
  setenv("SHAKEDOWN_NVML", "/nosuch.so", 1);  // the simulated NVML reads its file in each call, which costs more
  OnATerminal terminal({});
  ASSERT_TRUE(terminal.shows("here: CPU")) << terminal.shown();
  const auto before = processor_seconds(terminal.pid());
  EXPECT_FALSE(terminal.shows("this text never appears")) << "waits ten seconds";
  EXPECT_LT(processor_seconds(terminal.pid()) - before, 0.2) << "of ten seconds; ten times the usual cost";
  EXPECT_EQ(terminal.shown().find("no answer"), std::string::npos) << "the reading process lives";
}

}  // namespace
}  // namespace shakedown::top_test
