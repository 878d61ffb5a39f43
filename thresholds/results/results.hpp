// Result files: the output of Google Benchmark, the facts of the machine, and every rank's figures (schema 2). Only
// this code reads and writes the format. This code uses no MPI, no CUDA and no clock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/backend.hpp"
#include "base/files.hpp"
#include "base/gpu_health.hpp"
#include "base/key.hpp"
#include "base/nccl_link.hpp"
#include "base/product_tiling.hpp"
#include "base/rank_values.hpp"
#include "base/tier.hpp"

namespace shakedown {

inline constexpr int results_schema = 2;

/// The file of rounds in the folder of a soak. The rounds are not result files.
inline constexpr std::string_view soak_file = "rounds.jsonl";

/// The version of the set of rows (bench/). 2 added the sustained load in quick and peer copies by shifts. 3 added the
/// latency of the host's memory. 4 added jitter and launches, and moving inversions in the memory test of the full
/// tier. 5 added steps whose ranks share the state, and 6 added checkpoints.
inline constexpr int current_plan = 6;

/// A process of another program on a GPU before the measurement.
struct OtherProcess {
  std::optional<int> pid;
  std::optional<std::string> name;
  std::optional<std::uint64_t> memory_bytes;
};

template <class Archive>
void members(Archive& archive, OtherProcess& process) {
  archive("pid", process.pid)("name", process.name)("memory_bytes", process.memory_bytes);
}

/// One process of the run and its device. An unknown fact is nullopt, which is "null" in the file.
struct RankFacts {
  int rank = 0;
  std::string host;
  int local_rank = 0;
  std::string device;
  std::optional<std::string> uuid, serial, pci;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<int> numa;
  std::optional<std::string> cpus;  // "0-3,8"
  std::optional<double> sm_mhz_max = {}, power_limit_w = {};
  /// Processes of other programs at the start; nullopt if unknown.
  std::optional<std::vector<OtherProcess>> processes = {};
  /// Additional memory in use on its GPU after the family; negative if memory was freed.
  std::optional<double> memory_kept_mib = {};
};

template <class Archive>
void members(Archive& archive, RankFacts& r) {
  archive("rank", r.rank)("host", r.host)("local_rank", r.local_rank)("device", r.device);
  archive("uuid", r.uuid)("serial", r.serial)("pci", r.pci)("memory_bytes", r.memory_bytes);
  archive.or_minus_one("numa", r.numa);  // -1 on a machine without NUMA nodes
  archive("cpus", r.cpus)("sm_mhz_max", r.sm_mhz_max)("power_limit_w", r.power_limit_w)("processes", r.processes);
  archive.unless("memory_kept_mib", r.memory_kept_mib);
}

/// Beginning of the device name of a rank that could not open its device.
inline constexpr std::string_view no_device = "no usable ";

/// Beginning of the device name of a virtual GPU. The name of the GPU follows whose peaks it has.
inline constexpr std::string_view virtual_device = "virtual ";

/// One host: its NVIDIA GPUs on the PCI bus, and the GPUs that a mask or a scheduler shows.
struct HostFacts {
  std::string host;
  std::optional<int> pci_gpus;
  std::optional<int> visible_gpus;  // number of GPUs that the backend reports
  std::optional<int> masked_gpus;   // number of GPUs that CUDA_VISIBLE_DEVICES or a Slurm binding allows; null: no mask
  std::optional<std::string> mask;  // "CUDA_VISIBLE_DEVICES=0,1"
  /// A file that shows that the kernel driver is loaded: "/sys/module/nvidia".
  std::optional<std::string> nvidia_driver = {};
  std::optional<std::string> leaf = {};  // leaf switch, from the site file
  // By port ("mlx5_3/1"): the errors that the rails of the host counted during this measurement.
  std::map<std::string, ErrorCounts> port_errors = {};
};

struct SuiteFacts {
  std::string version, git, build_type;
  bool dirty = false;
};

/// The expected numbers of ranks and hosts, and the expected backend; nullopt if not given.
struct Expected {
  std::optional<int> ranks, hosts;
  std::optional<Backend> backend;
};

template <class Archive>
void members(Archive& archive, HostFacts& host) {
  archive("host", host.host)("pci_gpus", host.pci_gpus)("visible_gpus", host.visible_gpus);
  archive("masked_gpus", host.masked_gpus)("mask", host.mask)("nvidia_driver", host.nvidia_driver);
  archive.unless("leaf", host.leaf).unless("port_errors", host.port_errors);
}

template <class Archive>
void members(Archive& archive, SuiteFacts& suite) {
  archive("version", suite.version).younger("git", suite.git)("dirty", suite.dirty)("build_type", suite.build_type);
}

template <class Archive>
void members(Archive& archive, Expected& expected) {
  archive("ranks", expected.ranks)("hosts", expected.hosts)("backend", expected.backend);
}

/// An expected host that has not started, with the message of the launcher.
struct AbsentHost {
  std::string host, reason;
  std::optional<bool> driver_hangs = std::nullopt;  // true if the host answered, but a call of its driver did not
  std::optional<int> lost_bytes = std::nullopt;  // size of IP packets that it does not receive; it receives small ones
  bool operator==(const AbsentHost&) const = default;
};

template <class Archive>
void members(Archive& archive, AbsentHost& absent) {
  archive("host", absent.host)("reason", absent.reason)("driver_hangs", absent.driver_hangs)("lost_bytes",
                                                                                             absent.lost_bytes);
}

/// The state of NCCL, as far as it is known.
struct NcclFacts {
  std::optional<std::string> nvls;  // "on" or "off"
  /// Inside hosts: "P2P" or "P2P,SHM"; between hosts: "NET".
  std::optional<std::string> transport, transport_between_hosts;
  std::vector<NcclLink>
      links;  // links between ranks; those inside a host without P2P are first; at most max_stored_links
  int links_left_out = 0;
};

inline constexpr std::size_t max_stored_links = 64;

template <class Archive>
void members(Archive& archive, NcclFacts& nccl) {
  archive("nvls", nccl.nvls)("transport", nccl.transport)("transport_between_hosts", nccl.transport_between_hosts);
  archive.unless("links", nccl.links).unless("links_left_out", nccl.links_left_out);
}

/// Parses --expect, which has any of "ranks=8,hosts=2,backend=cuda". A repeated item replaces the earlier item. Errors:
/// InputError.
Expected parse_expected(const std::string& text);

/// One line of a roster: a host that must report. The number of ranks of a line is optional.
struct RosterEntry {
  std::string host;
  std::optional<int> ranks;

  friend bool operator==(const RosterEntry&, const RosterEntry&) = default;
};

template <class Archive>
void members(Archive& archive, RosterEntry& entry) {
  archive("host", entry.host)("ranks", entry.ranks);
}

/// Which part of a whole run the user requested. Other rows do not count as missing.
struct Asked {
  FamilySet families;
  std::optional<std::string> filter;  // --benchmark_filter; rows that it excludes were not requested
  std::vector<RosterEntry> roster;

  bool everything() const { return families.all() && !filter && roster.empty(); }
  friend bool operator==(const Asked&, const Asked&) = default;
};

template <class Archive>
void members(Archive& archive, Asked& asked) {
  archive.unless("families", asked.families.names).unless("filter", asked.filter).unless("roster", asked.roster);
}

/// A rank whose program died or hung in a family.
struct DeadRank {
  std::string family;
  int rank = 0;
  bool hung = false;  // it did not end, but did not advance either
  bool operator==(const DeadRank&) const = default;
};
template <class Archive>
void members(Archive& archive, DeadRank& dead) {
  archive("family", dead.family)("rank", dead.rank).unless("hung", dead.hung);
}

/// context.shakedown of a result file.
struct Context {
  SuiteFacts suite;
  std::string run_id;
  std::string started;  // UTC, ISO 8601
  bool complete = false;
  std::optional<double> seconds;  // duration of the family; nullopt in older files
  Backend backend = Backend::host;
  Tier tier = Tier::quick;
  int world_size = 0;
  int hosts = 0;
  Expected expected;
  Asked asked;
  std::vector<std::string> argv;
  std::vector<RankFacts> ranks;
  /// Versions of driver cuda cublaslt cudnn nccl mpi benchmark.
  std::map<std::string, std::optional<std::string>> versions;
  /// Tuning variables on a list of permitted names, and lines of NCCL files.
  std::map<std::string, std::string> environment;
  NcclFacts nccl;
  std::map<std::string, std::string> algorithms;  // by key: tuning choices, in words of the backend
  std::map<std::string, ProductTiling> products;  // by key: how the choices divide their products
  std::vector<HostFacts> inventory;
  std::optional<std::string> fault;      // SHAKEDOWN_FAULT, if a fault was injected
  std::optional<std::string> telemetry;  // "every 10 ms", "off", or why there is no telemetry; null on the host backend
  int plan = 1;                          // see current_plan; 1 for files that do not have it
  std::optional<std::string> choices;    // file with the tuning choices of earlier runs, if there was one
  std::vector<std::string> crashed;      // families in which an earlier program of this run crashed
  std::vector<DeadRank> dead_ranks;      // ranks that died in these crashes, if they are known
  std::vector<std::string> lost_hosts;   // hosts that were lost in these crashes and are not in this measurement
  std::vector<AbsentHost> absent;        // hosts that did not start and are in no measurement of this run
  /// True: ranks used TCP without a secret, so any program on the network could pretend to be a rank.
  bool strangers_could_join = false;
  int start_attempts = 1;  // number of launches that were needed to start the ranks
};

template <class Archive>
void members(Archive& archive, Context& c) {
  archive.derived("schema", results_schema)("suite", c.suite)("run_id", c.run_id).younger("started", c.started);
  archive("complete", c.complete)("backend", c.backend)("tier", c.tier);
  archive.inside("world", [&](auto& world) { world("size", c.world_size)("hosts", c.hosts); });
  archive.younger("expected", c.expected)
      .unless("asked", c.asked)
      .younger("argv", c.argv)("ranks", c.ranks)
      .younger("versions", c.versions);
  archive.younger("environment", c.environment).younger("nccl", c.nccl).younger("algorithms", c.algorithms);
  archive.unless("products", c.products);
  archive.younger("inventory", c.inventory)("fault", c.fault)("telemetry", c.telemetry).unless("crashed", c.crashed);
  archive.unless("dead_ranks", c.dead_ranks);
  archive.unless("lost_hosts", c.lost_hosts).unless("absent", c.absent).unless("start_attempts", c.start_attempts, 1);
  archive.unless("seconds", c.seconds).unless("plan", c.plan, 1).unless("choices", c.choices);
  archive.unless("strangers_could_join", c.strangers_could_join);
}

/// By metric: a value of each rank, by index. If a value is missing, the rank has none.
using ByRank = std::map<std::string, RankValues>;

/// By name: a text of each rank. The text is a fact that is not a number (driver "580.159.03"), or explains the number
/// with the same name, or why there is none. nullopt: the rank has no text.
using TextByRank = std::map<std::string, std::vector<std::optional<std::string>>>;

/// By name: a count of each rank; nullopt if it was not counted.
using CountsByRank = std::map<std::string, std::vector<std::optional<std::uint64_t>>>;

/// The values of the ranks of a row. If fewer than half are known, a file has them as an object by rank: {"3": 396.2}.
struct RankData {
  ByRank by_rank;
  TextByRank text_by_rank;
  ByRank throttle;               // like Throttle, by rank: each reason that lowered the clock of some rank
  CountsByRank errors;           // like ErrorCounts, by rank: each counter that increased on some rank
  int errors_rows = 1;           // number of rows for which the counters were read once
  std::vector<int> wrong_ranks;  // ranks whose data was wrong

  Throttle throttle_of(int rank) const;
  ErrorCounts errors_of(int rank) const;
};

template <class Archive>
void members(Archive& archive, RankData& data) {
  archive.unless("wrong_ranks", data.wrong_ranks).unless("by_rank", data.by_rank);
  archive.unless("text_by_rank", data.text_by_rank).unless("throttle", data.throttle).unless("errors", data.errors);
  archive.unless("errors_rows", data.errors_rows, 1);
}

/// The reason for a waived benchmark. `machine`: the machine does not support it. `software`: software is missing or
/// too old.
enum class Lack { machine, software };

struct Row : RankData {
  Key key;  // family/name:value/..., without the suffixes of Google Benchmark
  int repetition = 0;
  int repetitions = 1;                    // number of repetitions that were requested
  double iterations = 1;                  // 0 if not given
  double real_time = 0;                   // in seconds, although the file may have another unit
  std::map<std::string, double> metrics;  // counters: tflops, busbw_gb_per_s, latency_us, cv, ...
  std::optional<std::string> error;       // set for an error row; a waiver is not an error
  std::optional<std::string> waived;      // the reason
  Lack lack = Lack::machine;              // if the row is waived: what it needs
};

struct Results {
  std::filesystem::path file;
  Context context;
  std::vector<Row> rows;    // iteration rows in file order, without aggregates
  std::string sha256 = {};  // of the file; empty if the results were not read from a file
};

/// Returns the key for a name of Google Benchmark, without its suffixes (/manual_time, /repeats:3, /iterations:10,
/// /min_time:..., /real_time, /process_time, /threads:n, /min_warmup_time:...).
std::string key_of(std::string_view benchmark_name);

/// Returns the text of an error row for a waived benchmark.
std::string waiver_text(std::string_view reason, Lack = Lack::machine);  // "waived: ...", "waived for software: ..."
bool is_waiver(std::string_view text);

/// Reads one file. Errors: InputError with the file if it is missing, empty, truncated, not strict JSON, of another
/// schema, without context.shakedown, has zero benchmarks, or has a field of the wrong type.
Results read_results(const std::filesystem::path& file);

/// Returns all *.json files of a folder except verdict.json and baseline.json, sorted by name; empty if the folder does
/// not exist.
std::vector<std::filesystem::path> result_files(const std::filesystem::path& folder);

/// Reads files. For a folder, reads its result files; if it has none, reads those of its subfolders, which are
/// launches. Errors: those of read_results(file), and InputError for a folder without result files.
std::vector<Results> read_results(const std::vector<std::filesystem::path>& files_or_folders);

/// Returns the text of a result file: `google_benchmark_json` with context.shakedown, by_rank and the matrices of pairs
/// (thresholds/results/matrix.hpp). data[key][repetition] belongs to the iteration row of that key and repetition
/// index. A missing value by rank that is expected as a counter (is_telemetry) is null. The text is strict JSON;
/// invalid UTF-8 is replaced. Errors: InputError if `google_benchmark_json` is not JSON (for example a counter that is
/// not finite).
std::string write_results(std::string_view google_benchmark_json, const Context&,
                          const std::map<std::string, std::vector<RankData>>& data);

}  // namespace shakedown
