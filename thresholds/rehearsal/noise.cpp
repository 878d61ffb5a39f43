#include "thresholds/rehearsal/noise.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>

#include "base/files.hpp"

namespace shakedown::rehearsal {

namespace {

constexpr double max_degrees = 60;

/// Reads the members of one map and rejects unknown members.
class Members {
 public:
  Members(const std::filesystem::path& file, std::string where) : file_(file), where_(std::move(where)) {}

  Members& number(const std::string& name, double& value, double least, double most) {
    readers_[name] = [=, this, &value](const YAML::Node& node) {
      try {
        value = node.as<double>();
      } catch (const YAML::Exception&) {
        refuse(name, "is not a number; write a number such as 0.02");
      }
      if (!(value >= least && value <= most)) refuse(name, fmt::format("must be from {} to {}", least, most));
    };
    return *this;
  }

  Members& degrees(const std::string& name, int& value) {
    readers_[name] = [=, this, &value](const YAML::Node& node) {
      double read = 0;
      Members(file_, where_).number(name, read, 0, max_degrees).readers_.at(name)(node);
      value = static_cast<int>(read);
    };
    return *this;
  }

  Members& flag(const std::string& name, bool& value) {
    readers_[name] = [=, this, &value](const YAML::Node& node) {
      try {
        value = node.as<bool>();
      } catch (const YAML::Exception&) {
        refuse(name, "is neither true nor false; write one of them");
      }
    };
    return *this;
  }

  Members& map(const std::string& name, std::function<void(const YAML::Node&)> read) {
    readers_[name] = std::move(read);
    return *this;
  }

  void read(const YAML::Node& node) const {
    if (!node.IsMap()) refuse("", "is not a map; write {member: number}");
    for (const auto& entry : node) {
      const auto name = entry.first.as<std::string>();
      const auto reader = readers_.find(name);
      if (reader == readers_.end()) refuse(name, "is unknown; remove it");
      reader->second(entry.second);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    throw InputError(fmt::format("{}: {}{} {}", file_.string(), where_, name, what));
  }

  std::filesystem::path file_;
  std::string where_;
  std::map<std::string, std::function<void(const YAML::Node&)>> readers_;
};

void read_into(const std::filesystem::path& file, Noise& noise);

void read_kinds(const std::filesystem::path& file, const YAML::Node& node, Noise& noise) {
  Members all(file, "kinds: ");
  for (std::size_t i = 0; i < kinds; ++i) {
    const std::string name(words(Kind{})[i]);
    all.map(name, [&, name, i](const YAML::Node& own) {
      Spread& spread = noise.spreads[i];
      Members(file, "kinds: " + name + ": ")
          .number("launch", spread.launch, 0, 1)
          .number("chip", spread.chip, 0, 1)
          .number("row", spread.row, 0, 1)
          .number("least_chip", spread.least_chip, 0, 1)
          .read(own);
    });
  }
  all.read(node);
}

void read_members(const std::filesystem::path& file, const YAML::Node& document, Noise& noise) {
  const auto nested = [&](const std::string& name, const std::function<void(Members&)>& add) {
    return [=](const YAML::Node& node) {
      Members members(file, name + ": ");
      add(members);
      members.read(node);
    };
  };
  Members(file, "")
      .map("include", [](const YAML::Node&) {})
      .map("kinds", [&](const YAML::Node& node) { read_kinds(file, node, noise); })
      .map("tails",
           nested("tails", [&](Members& m) { m.degrees("row", noise.row_tail).degrees("chip", noise.chip_tail); }))
      .number("slot_gradient", noise.slot_gradient, 0, 0.5)
      .number("falling", noise.falling, 0, 0.5)
      .number("wander", noise.wander, 0, 0.5)
      .number("other_algorithm", noise.row_algorithm, 0, 0.1)
      .map("hot_racks", nested("hot_racks",
                               [&](Members& m) {
                                 m.number("part", noise.hot_racks, 0, 1).number("clock", noise.hot_clock, 0, 0.5);
                                 m.number("degrees_c", noise.hot_c, 0, 30);
                               }))
      .map("stalls", nested("stalls",
                            [&](Members& m) {
                              m.number("odds", noise.stall_odds, 0, 1).number("least", noise.stall_least, 0, 1);
                              m.number("most", noise.stall_most, 0, 1);
                            }))
      .map("collisions", nested("collisions",
                                [&](Members& m) {
                                  m.number("odds", noise.collision_odds, 0, 1);
                                  m.number("least", noise.collision_least, 0.1, 1);
                                  m.number("most", noise.collision_most, 0.1, 1);
                                }))
      .map("pauses",
           nested("pauses",
                  [&](Members& m) { m.number("odds", noise.pause_odds, 0, 1).number("mean", noise.pause_mean, 0, 1); }))
      .map("vbios", nested("vbios",
                           [&](Members& m) {
                             m.number("part", noise.vbios_part, 0, 1).number("gemm", noise.vbios_gemm, -0.2, 0.2);
                           }))
      .map("memory_maker", nested("memory_maker",
                                  [&](Members& m) {
                                    m.number("part", noise.maker_part, 0, 1).number("hbm", noise.maker_hbm, -0.2, 0.2);
                                    m.flag("by_host", noise.maker_by_host);
                                  }))
      .read(document);
}

void read_into(const std::filesystem::path& file, Noise& noise) {
  YAML::Node document;
  try {
    document = YAML::LoadFile(file.string());
  } catch (const YAML::BadFile&) {
    throw InputError(file.string() + ": cannot be read; name a file of thresholds/rehearsal/noise");
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}: is not YAML: {}; correct the syntax", file.string(), error.what()));
  }
  if (const auto include = document["include"]) {
    const auto included = file.parent_path() / include.as<std::string>();
    if (included == file) throw InputError(file.string() + ": include: names the file itself; name another one");
    read_into(included, noise);
  }
  read_members(file, document, noise);
}

}  // namespace

Noise read_noise(const std::filesystem::path& file) {
  Noise noise;
  noise.name = file.stem().string();
  read_into(file, noise);
  return noise;
}

}  // namespace shakedown::rehearsal
