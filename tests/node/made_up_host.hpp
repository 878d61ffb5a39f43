// A root folder with the files of / that facts are read from; removed at the end of the test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shakedown {

class MadeUpHost {
 public:
  MadeUpHost() {
    std::filesystem::create_directories(root_ / "sys/bus/pci/devices");
    std::filesystem::create_directories(root_ / "sys/class");
    std::filesystem::create_directories(root_ / "sys/module");
  }
  MadeUpHost(const MadeUpHost&) = delete;
  MadeUpHost& operator=(const MadeUpHost&) = delete;
  ~MadeUpHost() { std::filesystem::remove_all(root_); }

  const std::filesystem::path& root() const { return root_; }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  /// Adds a PCI function. `path` has its bridges and its own address ("pci0000:15/0000:15:01.0/0000:16:00.0").
  void add_pci(const std::string& path, const std::string& vendor, const std::string& kind, int numa = 0) const {
    const auto folder = "sys/devices/" + path;
    write(folder + "/vendor", vendor);
    write(folder + "/class", kind);
    write(folder + "/numa_node", std::to_string(numa));
    const auto address = path.substr(path.rfind('/') + 1);
    std::filesystem::create_directory_symlink("../../../devices/" + path, root_ / "sys/bus/pci/devices" / address);
  }
  /// Adds the GPU with this number in the simulated NVML (tests/node/fake_nvml.hpp).
  void add_gpu(int number) const {
    const auto bus = "1" + std::string(1, "0123456789abcdef"[number]);
    add_pci("pci0000:" + bus + "/0000:" + bus + ":00.0", "0x10de", "0x030200", number / 4);
  }

  void add_port(const std::string& device, const std::string& state, const std::string& layer = "InfiniBand",
                const std::string& firmware = "28.39.1002") const {
    const auto folder = "sys/class/infiniband/" + device + "/";
    write(folder + "fw_ver", firmware);
    write(folder + "ports/1/state", state == "ACTIVE" ? "4: ACTIVE" : "1: " + state);
    write(folder + "ports/1/phys_state", state == "ACTIVE" ? "5: LinkUp" : "3: Disabled");
    write(folder + "ports/1/link_layer", layer);
    write(folder + "ports/1/rate", "400 Gb/sec (4X NDR)");
    write(folder + "ports/1/gid_attrs/types/0", "IB/RoCE v1");
    write(folder + "ports/1/counters/link_downed", "2");
  }

 private:
  std::filesystem::path root_ = std::filesystem::temp_directory_path() / ("shakedown_host_" + std::to_string(getpid()));
};

}  // namespace shakedown
