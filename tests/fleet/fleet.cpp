#include "tests/fleet/fleet.hpp"

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "tests/fleet/families.hpp"

namespace shakedown::fleet {

namespace {

constexpr const char* families_written[] = {"preflight", "gemm",      "hbm",         "memtest",  "p2p",
                                            "pcie",      "allreduce", "collectives", "lora_step"};

/// Errors: std::runtime_error for a family that is missing, and for a run of another shape.
Templates read_templates(const std::filesystem::path& source) {
  Templates templates;
  for (const char* family : families_written) {
    std::ifstream file(source / (std::string(family) + ".json"));
    if (!file) throw std::runtime_error(source.string() + " has no " + family + ".json");
    templates[family] = Json::parse(file);
    fill_in(templates[family]);
  }
  if (templates["gemm"]["context"]["shakedown"]["ranks"].size() != 4) {
    throw std::runtime_error(source.string() + ": a run with four ranks is needed");
  }
  return templates;
}

const Json& rank_of_template(const Templates& templates) {
  return templates.at("gemm")["context"]["shakedown"]["ranks"][0];
}

Damage::Usual usual_of(const Templates& templates) {
  for (const auto& row : templates.at("gemm")["benchmarks"]) {
    if (key_of(row["name"]) != common_gemm) continue;
    return {median(numbers(row["by_rank"]["sm_mhz"])), number(rank_of_template(templates)["power_limit_w"])};
  }
  throw std::runtime_error(std::string("there is no row ") + common_gemm);
}

/// Errors that are counted or found in a row.
void poison_input(const World& w, Row& row) {
  std::string wrong;
  std::vector<int> ranks;
  for (const auto& fault : w.plan.faults) {
    if (fault.kind == "errors" && row.key == common_gemm && row.by_rank.contains("throttled")) {
      column(w, row.errors, fault.what)[static_cast<std::size_t>(fault.rank)] = 1;
    }
    if ((fault.kind != "data" && fault.kind != "sdc") || !starts(row.key, fault.in)) continue;
    ranks.push_back(fault.rank);
    if (ranks.size() > 1) wrong += (ranks.size() == 2 ? "; also wrong: " : ", ") + w.site.rank_name(fault.rank);
    if (ranks.size() > 1) continue;
    wrong = fault.kind == "data"
                ? "wrong data: " + w.site.rank_name(fault.rank) +
                      ": 3 of 4096 comparisons failed: word 1031 is 0x3f80, not 0x3f81"
                : w.site.rank_name(fault.rank) + " computed other bits than " + std::to_string(w.site.count() - 1) +
                      " of its peers from the same input with the same algorithm (silent data corruption)";
  }
  if (wrong.empty()) return;
  Json head;
  for (const char* name : {"name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions",
                           "repetition_index", "threads"}) {
    head[name] = row.head[name];
  }
  head["error_occurred"] = true;
  head["error_message"] = wrong;
  head["iterations"] = row.head["iterations"];
  head["real_time"] = head["cpu_time"] = 0.0;
  head["time_unit"] = "us";
  head["wrong_ranks"] = ranks;
  row = Row{row.key, head};
}

void rows_of(const World& w, const std::string& family, const Rows& take) {
  for (const auto& like : w.templates.at(family)["benchmarks"]) {
    const auto key = key_of(like["name"]);
    if (like.contains("error_occurred")) {
      Row row{key, like};
      const auto why = like["error_message"].get<std::string>();
      const auto name = why.find("rank 0 (");
      if (name != std::string::npos) {
        row.head["error_message"] = why.substr(0, name) + w.site.rank_name(0) + why.substr(why.find(')', name) + 1);
      }
      take(row);
    } else if (family == "preflight") {
      take(preflight(w, key, like));
    } else if (family == "p2p") {
      peer_rows(w, key, take);
    } else if (family == "allreduce" || family == "collectives") {
      take(collective(w, key, like));
    } else if (family == "lora_step") {
      take(lora_step(w, key, like));
    } else {
      local_rows(w, key, like, take);
    }
  }
}

Json context(const World& w, const std::string& family) {
  Json context = w.templates.at(family)["context"];
  context["host_name"] = w.site.host_name(0);
  auto& own = context["shakedown"];
  char id[20];
  std::snprintf(id, sizeof id, "%016llx",
                static_cast<unsigned long long>(Dice(w.plan.seed).at(w.plan.launch).uniform() * 0x1p62));
  own["run_id"] = id;
  own["world"] = {{"size", w.site.count()}, {"hosts", w.plan.hosts}};
  if (!w.plan.noise.telemetry) own["telemetry"] = "off";
  if (w.plan.hosts > 1 && !own["nccl"]["transport"].is_null()) own["nccl"]["transport_between_hosts"] = "NET/IB";
  for (const char* member : {"links", "links_left_out"}) own["nccl"].erase(member);  // of four ranks
  const Json facts = own["ranks"][0], inventory = own["inventory"][0];
  own["ranks"] = Json::array();
  own["inventory"] = Json::array();
  for (int r = 0; r < w.site.count(); ++r) {
    Json rank = facts;
    rank["rank"] = r;
    rank["host"] = w.site.host_name(w.site.gpu(r).host);
    rank["local_rank"] = w.site.gpu(r).local;
    rank["uuid"] = w.site.gpu(r).uuid;
    rank["pci"] = w.site.gpu(r).pci;
    rank["power_limit_w"] = w.damage.power_limit_w(r);
    own["ranks"].push_back(std::move(rank));
  }
  for (int host = 0; host < w.plan.hosts; ++host) {
    Json one = inventory;
    one["host"] = w.site.host_name(host);
    one["pci_gpus"] = one["visible_gpus"] = w.site.on_bus(host);
    own["inventory"].push_back(std::move(one));
  }
  return context;
}

}  // namespace

struct Fleet::Made {
  explicit Made(const Plan& of)
      : plan(of),
        templates(read_templates(plan.source)),
        site(plan),
        chances(plan, site),
        damage(plan, site, usual_of(templates)),
        world{plan, templates, site, chances, damage, number(rank_of_template(templates)["sm_mhz_max"])} {}
  Made(const Made&) = delete;

  Plan plan;
  Templates templates;
  Site site;
  Chances chances;
  Damage damage;
  World world;
};

Fleet::Fleet(const Plan& plan) : made_(std::make_unique<Made>(plan)) {}
Fleet::~Fleet() = default;

int Fleet::ranks() const { return made_->site.count(); }
std::string Fleet::host(int index) const { return made_->site.host_name(index); }
std::vector<std::string> Fleet::families() const { return {std::begin(families_written), std::end(families_written)}; }

void Fleet::write(const std::string& family, std::ostream& out) const {
  out << "{\n\"context\": " << context(made_->world, family).dump() << ",\n\"benchmarks\": [";
  int index = 0;
  rows_of(made_->world, family, [&](const Row& made) {
    Row row = made;
    row.head["family_index"] = index;
    poison_input(made_->world, row);
    if (family != "preflight") forget_telemetry(made_->world, row);
    out << (index++ > 0 ? ",\n" : "\n") << row.text();
  });
  out << "\n]\n}\n";
}

void Fleet::write(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  for (const auto& family : families()) {
    const auto file = folder / (family + ".json");
    std::ofstream out(file);
    write(family, out);
    if (!out.flush()) throw std::runtime_error(file.string() + " cannot be written");
  }
}

Guilty Fleet::guilty(const Fault& fault) const {
  Guilty guilty;
  const std::set<std::string> whole{"fleet", "allreduce", "network"};
  const std::set<std::string> found{"data", "sdc", "errors", "power_limit", "missing", "absent"};
  guilty.configuration = whole.contains(fault.kind);
  guilty.by_finding = found.contains(fault.kind);
  for (int r = 0; r < ranks() && !guilty.configuration; ++r) {
    const auto& gpu = made_->site.gpu(r);
    const bool end =
        fault.kind == "link" && gpu.host == fault.host && (gpu.local == fault.src || gpu.local == fault.dst);
    const bool on_host = fault.kind != "link" && fault.host >= 0 && gpu.host == fault.host;
    if (end || on_host || (fault.kind != "link" && fault.host < 0 && made_->site.strikes(fault, r)))
      guilty.ranks.insert(r);
  }
  if (fault.kind != "link") guilty.host = fault.host;
  return guilty;
}

}  // namespace shakedown::fleet
