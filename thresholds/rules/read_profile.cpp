// Reads profiles with the parts that they include, and refuses two rules for the same value.
#include "thresholds/rules/profile.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/timed_call.hpp"
#include "thresholds/catalogue/families.hpp"
#include "thresholds/rules/read_rule.hpp"

namespace shakedown {
namespace {

namespace fs = std::filesystem;

// True if two rules judge the same value, which is not permitted. There are two exceptions: a warning before a failure,
// and `same` in addition to another limit, because equal values may all be wrong.
bool overlap(const Rule& a, const Rule& b) {
  const auto compatible = [](const auto& x, const auto& y) { return !x || !y || *x == *y; };
  return a.benchmark == b.benchmark && a.metric == b.metric && a.every == b.every && a.severity == b.severity &&
         a.limits.same == b.limits.same && a.conditions.ranks.overlaps(b.conditions.ranks) &&
         a.conditions.hosts.overlaps(b.conditions.hosts) && compatible(a.conditions.nvls, b.conditions.nvls) &&
         compatible(a.conditions.tier, b.conditions.tier);
}

bool have_same_subject(const Rule& a, const Rule& b) {
  const Conditions &x = a.conditions, &y = b.conditions;
  return a.benchmark == b.benchmark && a.metric == b.metric && a.every == b.every && a.limits.same == b.limits.same &&
         x.ranks == y.ranks && x.hosts == y.hosts && x.nvls == y.nvls && x.tier == y.tier;
}

void refuse_overlap(const Rule& rule, const Rule& earlier, const Yaml& place, const char* advice) {
  if (overlap(rule, earlier)) place.refuse("judges the same value as the rule at " + earlier.at + "; " + advice);
}

/// Adds the rules of a list at the end of the profile.
void read_rules(const Yaml& yaml, Profile& profile) {
  const auto items = yaml.items();
  if (items.empty()) yaml.refuse("no rules: the profile would pass everything; add rules");
  for (const Yaml& item : items) {
    Rule rule = read_rule(item, profile);
    for (const Rule& earlier : profile.rules) {
      refuse_overlap(rule, earlier, item, "remove one, or keep their ranks, hosts, nvls or tier apart");
    }
    profile.rules.push_back(std::move(rule));
  }
}

Match read_match(const Yaml& yaml) {
  const Members members = yaml.members({"backend", "device"});
  Match match;
  const Yaml& backend = required(members, "backend", yaml, "match");
  match.backend = backend.value_of<Backend>();
  if (match.backend == Backend::virtual_gpu) backend.refuse("virtual GPUs have the profile of cuda; write cuda");
  if (const auto device = members.find("device"); device == members.end()) {
    if (match.backend == Backend::cuda)
      yaml.refuse("match without \"device\"; name the GPU, as in device: \"NVIDIA H200\"");
  } else if (device->second.is_list()) {
    for (const Yaml& item : device->second.items()) match.devices.push_back(item.text());
    if (match.devices.empty()) device->second.refuse("an empty list matches nothing; name a device");
  } else if (device->second.text() != "any") {
    match.devices.push_back(device->second.text());
  }
  return match;
}

std::map<std::string, double> read_peak(const Yaml& yaml) {
  std::map<std::string, double> peak;
  const Members members =
      yaml.members({"f64_tflops", "f32_tflops", "tf32_tflops", "f16_tflops", "bf16_tflops", "fp8_e4m3_tflops",
                    "int8_tflops", "nvfp4_tflops", "mxfp8_tflops", "tensor_mhz", "hbm_gb_per_s", "nvlink_gb_per_s",
                    "nvlink_flits", "c2c_gb_per_s", "nics", "nic_gbit", "source"});
  required(members, "source", yaml, "peak").text();
  for (const auto& [name, value] : members) {
    if (name == "source") continue;
    peak[name] = value.number();
    if (peak[name] <= 0) value.refuse(name + " must be above 0; correct it or leave it out");
  }
  return peak;
}

// Reads {samples_min: 10, cv_max: {gemm: 0.2, ...}, source: "..."}.
void read_repeatability(const Yaml& yaml, Profile& profile) {
  const Members members = yaml.members({"samples_min", "cv_max", "source"});
  required(members, "source", yaml, "repeatability").text();
  const Yaml& samples = required(members, "samples_min", yaml, "repeatability");
  profile.samples_min = samples.integer();
  profile.cv_max.clear();  // drops the limits of an earlier part
  if (*profile.samples_min < 1) samples.refuse("samples_min must be at least 1; correct it");
  if (!members.contains("cv_max")) return;
  for (const auto& [family, limit] : members.at("cv_max").members()) {
    if (!is_catalogued(family) || family.empty()) limit.refuse("unknown family \"" + family + "\"; correct it");
    if (!(limit.number() > 0)) limit.refuse("cv_max must be above 0; correct it");
    profile.cv_max[family] = limit.number();
  }
}

void require_schema(const Members& members, const Yaml& yaml) {
  const Yaml& schema = required(members, "schema", yaml, "a profile");
  if (schema.integer() == thresholds_schema) return;
  schema.refuse("schema " + std::to_string(schema.integer()) + ", this program reads " +
                std::to_string(thresholds_schema) + ", in which a rule without ranks or hosts applies everywhere; " +
                "use the matching release, or add hosts: 1 to rules for one host");
}

void require_name(const Members& members, const char* key, const Yaml& yaml, const fs::path& file) {
  const Yaml& name = required(members, key, yaml, std::string("a ") + key);
  if (name.text() == file.stem()) return;
  name.refuse(std::string(key) + " \"" + name.text() + "\" in a file named " + file.filename().string() +
              "; give both the same name");
}

// Reads each part once, although several profiles include it.
class Files {
 public:
  const Yaml& operator[](const fs::path& file) {
    auto& [path, yaml] = *parsed_.try_emplace(file).first;
    if (!yaml) yaml = Yaml::load(path);
    return *yaml;
  }

 private:
  std::map<fs::path, std::optional<Yaml>> parsed_;
};

bool is_file(const fs::path& path) {
  const TimedCall call("stat", path);
  return fs::is_regular_file(path);
}

// Reads the families that need no rule. "families.yaml" stands for all families that this table leaves unjudged on the
// backend of the profile.
void read_unjudged(const Yaml& yaml, Profile& profile) {
  const auto add = [&](std::string_view family) {  // adds a family once, although a part may also list it
    auto& all = profile.unjudged;
    if (std::find(all.begin(), all.end(), family) == all.end()) all.emplace_back(family);
  };
  for (const Yaml& item : yaml.items()) {
    const std::string word = item.text();
    if (word == "families.yaml") {
      for (const FamilyRow& row : family_rows()) {
        if (row.on(profile.match.backend) == Need::unjudged) add(row.name);
      }
    } else {
      if (!is_family(word)) item.refuse("not a family; write the first word of its keys");
      add(word);
    }
  }
}

// Reads the members that both parts and profiles can have. Repeatability replaces that of an earlier part.
void read_shared(const Members& members, Profile& profile) {
  if (const auto part = members.find("repeatability"); part != members.end()) read_repeatability(part->second, profile);
  if (const auto part = members.find("unjudged"); part != members.end()) read_unjudged(part->second, profile);
}

// Adds an included part, as if its rules were at the beginning of this profile.
void include_part(const Yaml& name, Profile& profile, Files& files) {
  const fs::path file = profile.file.parent_path() / name.text();
  if (fs::path(name.text()).filename() != name.text() || !is_file(file)) {
    name.refuse("\"" + name.text() +
                "\" is not a file next to this one; name a part as in include: nvidia-preflight.yaml");
  }
  profile.parts.push_back(file);
  const Yaml& yaml = files[file];
  const Members members = yaml.members({"schema", "part", "repeatability", "unjudged", "rules"});
  require_schema(members, yaml);
  require_name(members, "part", yaml, file);
  read_shared(members, profile);
  read_rules(required(members, "rules", yaml, "a part"), profile);
}

Profile load_profile(const fs::path& file, Files& files) {
  const Yaml& yaml = files[file];
  const Members members = yaml.members({"schema", "profile", "match", "gpus_per_host", "peak", "repeatability",
                                        "unjudged", "reference_gpus", "include", "rules"});
  require_schema(members, yaml);
  require_name(members, "profile", yaml, file);
  Profile profile;
  profile.file = file;
  profile.name = file.stem();
  profile.match = read_match(required(members, "match", yaml, "a profile"));
  if (const auto count = members.find("gpus_per_host"); count != members.end()) {
    profile.gpus_per_host = count->second.integer();
    if (*profile.gpus_per_host < 1) count->second.refuse("gpus_per_host must be at least 1; correct it");
  }
  if (members.contains("reference_gpus")) profile.reference_gpus = read_reference_gpus(members.at("reference_gpus"));
  if (members.contains("peak")) profile.peak = read_peak(members.at("peak"));
  if (const auto part = members.find("include"); part != members.end()) {
    for (const Yaml& name : part->second.is_list() ? part->second.items() : std::vector{part->second}) {
      include_part(name, profile, files);
    }
  }
  read_shared(members, profile);
  read_rules(required(members, "rules", yaml, "a profile"), profile);
  return profile;
}

}  // namespace

void add_site_rules(const Yaml& yaml, Profile& profile) {
  std::vector<Rule> rules = std::exchange(profile.rules, {});
  read_rules(yaml, profile);
  const auto items = yaml.items();
  std::erase_if(rules, [&](const Rule& shipped) {
    bool replaced = false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      Rule& own = profile.rules[i];
      if (have_same_subject(own, shipped)) {
        own.replaces += (own.replaces.empty() ? "" : "; ") + shipped.at + ": " + shipped.source;
        replaced = true;
      } else {
        refuse_overlap(own, shipped, items[i],
                       "to replace that rule, give this one the same ranks, hosts, nvls and tier");
      }
    }
    return replaced;
  });
  profile.rules.insert(profile.rules.begin(), rules.begin(), rules.end());
}

std::vector<Profile> load_profiles(const fs::path& file_or_folder) {
  std::error_code error;
  Files parsed;
  if (!is_folder(file_or_folder)) return {load_profile(file_or_folder, parsed)};
  std::vector<fs::path> files;
  const TimedCall call("list", file_or_folder);
  const fs::directory_iterator entries(file_or_folder, error);
  if (error) refuse_to_read(file_or_folder, error);
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  if (files.empty()) throw InputError(file_or_folder.string() + ":1:1: no *.yaml in this folder; check --thresholds");
  std::sort(files.begin(), files.end());
  std::vector<Profile> profiles;
  for (const fs::path& file : files) {
    if (!parsed[file].members().contains("part")) profiles.push_back(load_profile(file, parsed));
  }
  if (profiles.empty())
    throw InputError(file_or_folder.string() + ":1:1: no profile in this folder; check --thresholds");
  return profiles;
}

}  // namespace shakedown
