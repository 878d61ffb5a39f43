#include <algorithm>
#include <regex>

#include "base/flags.hpp"
#include "base/nearest_word.hpp"
#include "base/parse_number.hpp"
#include "base/text.hpp"

namespace shakedown {
namespace {

std::string one_of(const std::vector<std::string>& choices, const std::string& value) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return "";
  return "is not one of " + joined(choices) + did_you_mean(value, choices);
}

/// Returns what is wrong if the value is not one of the choices in the row, such as "=quick|full".
std::string one_of(const Flag& flag, const std::string& value) {
  std::string shown = flag.value.substr(flag.value.find('=') + 1);
  std::erase(shown, ']');
  std::replace(shown.begin(), shown.end(), '|', ',');
  return one_of(words_of_list(shown), value);
}

std::string collectives(const Flag&, const std::string& value) {
  static const std::vector<std::string> choices{"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                                "broadcast",  "reduce",     "sendrecv"};
  for (const auto& word : words_of_list(value)) {
    if (auto problem = one_of(choices, word); !problem.empty()) return problem;
  }
  return "";
}

std::string list(const Flag&, const std::string& value) {
  const auto words = words_of_list(value);
  const bool whole = std::find(words.begin(), words.end(), "") == words.end();
  return whole ? "" : "has an empty word; separate words with one comma";
}

/// Returns `why` if the value is not a number, or the test `is_good` rejects the number.
template <class Number, class IsGood>
std::string unless(const std::string& value, IsGood is_good, const char* why) {
  const auto number = whole_number<Number>(value);
  return number && is_good(*number) ? "" : why;
}

constexpr double max_positive = 1e7;  // in seconds: about four months; larger values would overflow a clock

template <class Number>
std::string positive(const Flag&, const std::string& value) {
  const auto is_good = [](auto n) { return n > 0 && static_cast<double>(n) <= max_positive; };
  return unless<Number>(value, is_good, "is not a positive number up to 10000000");
}
constexpr auto seconds = positive<double>;
constexpr auto count = positive<int>;

std::string gate_seconds(const Flag&, const std::string& value) {
  return unless<double>(
      value, [](double x) { return x >= 5 && x <= 600; }, "must be seconds from 5 to 600, such as 10");
}

std::string refresh_seconds(const Flag&, const std::string& value) {
  return unless<double>(
      value, [](double x) { return x >= 0.1 && x <= 3600; }, "must be seconds from 0.1 to 3600, such as 1");
}

std::string processes(const Flag&, const std::string& value) {
  for (const auto& word : words_of_list(value)) {
    if (whole_number<int>(word).value_or(0) <= 0) return "must be ids of processes, such as 4711,4712";
  }
  return "";
}

/// "90s", "8m", "24h", "7d"
std::string duration(const Flag& flag, const std::string& value) {
  if (value.find_last_of("smhd") != value.size() - 1) return "has no unit: write 90s, 8m, 24h or 7d";
  return seconds(flag, value.substr(0, value.size() - 1));
}

std::string share(const Flag&, const std::string& value) {
  return unless<double>(
      value, [](double x) { return x >= 0 && x < 1; }, "must be at least 0 and below 1, such as 0.05");
}

std::string effect(const Flag&, const std::string& value) {
  return unless<double>(
      value, [](double x) { return x > 0 && x < 1; }, "must be above 0 and below 1, such as 0.05");
}

std::string lower_half(const Flag&, const std::string& value) {
  return unless<double>(
      value, [](double x) { return x >= 0 && x < 0.5; }, "must be at least 0 and below 0.5, such as 0.01");
}

std::string prices(const Flag& flag, const std::string& value) {
  const auto words = words_of_list(value);
  const bool good = !words.empty() && words.size() <= 2 && std::ranges::all_of(words, [&](const std::string& word) {
    return positive<double>(flag, word).empty();
  });
  return good ? "" : "must be one or two positive numbers, such as 2.5,3.1";
}

std::string columns(const Flag&, const std::string& value) {
  return unless<int>(
      value, [](int n) { return n >= 40; }, "must be a number of columns, at least 40");
}

/// Sizes of messages: 65536, 64K, 32M, 1G.
std::string message_sizes(const Flag&, const std::string& value) {
  for (const auto& word : words_of_list(value)) {
    if (!bytes_in(word)) return "must be sizes of at least 8 bytes, up to 8G, such as 64K,1M,32M";
  }
  return "";
}

/// Settings: variables with values, separated by commas; a plus sign joins those of one setting.
std::string variable_settings(const Flag&, const std::string& value) {
  static const std::regex form("[A-Z][A-Za-z0-9_]*=[^,+]+([,+][A-Z][A-Za-z0-9_]*=[^,+]+)*", std::regex::extended);
  return std::regex_match(value, form)
             ? ""
             : "must be variables with values, such as NCCL_ALGO=Ring+NCCL_PROTO=LL,NCCL_NTHREADS=512";
}

std::string up_to_eight(const Flag&, const std::string& value) {
  return unless<int>(
      value, [](int n) { return n >= 1 && n <= 8; }, "must be a number from 1 to 8");
}

std::string seed(const Flag&, const std::string& value) {
  return unless<std::uint32_t>(
      value, [](auto) { return true; }, "is not a number from 0 to 4294967295");
}

std::string rising(const Flag&, const std::string& value) {
  double last = 0;
  for (const auto& word : words_of_list(value)) {
    const auto number = whole_number<int>(word);
    if (!number || *number <= last) return "must be increasing numbers of nodes, such as 1,2,4,8";
    last = *number;
  }
  return "";
}

/// Accepts the words for true and false that Google Benchmark accepts.
std::string truth(const Flag& flag, const std::string& value) {
  const std::string word = lower(value);
  for (const char* const known : {"1", "t", "y", "true", "yes", "on", "0", "f", "n", "false", "no", "off"}) {
    if (word == known) return "";
  }
  return value == "auto" && flag.value.find("auto") != std::string::npos ? "" : "is neither true nor false";
}

std::string min_time(const Flag&, const std::string& value) {
  static const std::regex form("[0-9]*\\.?[0-9]+(e-?[0-9]+)?(s|x)?", std::regex::extended | std::regex::icase);
  const bool good = std::regex_match(value, form) && std::strtod(value.c_str(), nullptr) <= max_positive;
  return good ? "" : "must be seconds up to 10000000, or iterations such as 3x";
}

const std::string measuring = "accept measure", runs = measuring + " bench";
const std::string steps = "bench_train_step bench_lora_step";
const std::string readers = "report nodes acceptance_test", judging = measuring + " " + readers;
const std::string comparing = judging + " regress";
const std::string baselines = "baseline_create baseline_merge baseline_show";
const std::string ledgers = "ledger_add history retest claim";
const std::string all_judges = comparing + " archive compare demo stored fleet " + ledgers + " " + baselines;

const std::string certifying = " certify verify";

/// A row without takers is the title of a group.
const FlagTable rows{
    {"measurement"},
    {"--tier", "=quick|full", measuring, "few sizes, or all sizes and long loads (quick; SHAKEDOWN_TIER)", one_of},
    {"--tier", "=quick|full|gate", "bench", "few sizes, all sizes and long loads, or the rows of a gate (quick)",
     one_of},
    {"--gate", "=S", "accept", "test this node in S seconds, such as 10, before a job; the best verdict is FIT",
     gate_seconds},
    {"--waiting", "=PID[,PID]", "accept bench", "with a gate: processes of a job that hold GPUs and wait until it ends",
     processes},
    {"--families", "=A,B", measuring + " bench_all", "measure only these families; the best verdict is then PARTIAL",
     list},
    {"--backend", "=auto|cuda|host|virtual", runs + " tune",
     "devices to measure; auto: cuda if there is an NVIDIA GPU (auto)", one_of},
    {"--chip", "=NAME", runs, "GPU model for --backend=virtual: b300, h20, l40s, ..."},
    {"--retune", "", runs, "tune algorithms again instead of using the stored choices"},
    {"--despite-preflight", "", measuring, "measure even if pre-flight fails (SHAKEDOWN_DESPITE_PREFLIGHT=1)"},
    {"--again", "[=RUN]", "accept", "repeat the families that failed in the last run, or in RUN, and compare"},
    {"--scaling", "[=1,2,4]", "accept", "also measure AllReduce and training on fewer nodes", rising},
    {"--sizes", "=BYTES[,BYTES]", "tune bench_allreduce bench_collectives",
     "sizes of messages to measure, such as 64K,1M,32M", message_sizes},
    {"--candidates", "=V=X[,V=Y]", "tune",
     "settings to compare, such as NCCL_ALGO=Ring+NCCL_PROTO=LL,NCCL_NTHREADS=512", variable_settings},
    {"--op", "=OP[,OP]", "tune", "collectives to measure, such as all_gather,alltoall (all_reduce)", collectives},
    {"--settings", "=FILE|guides", "tune",
     "settings to compare: those of a file like nccl.conf, or those that guides recommend"},
    {"--step", "", "tune", "also compare CUDA_DEVICE_MAX_CONNECTIONS and OMP_NUM_THREADS by a training step"},
    {"--time", "=S", "tune", "start no launch after S seconds (600)", seconds},
    {"--against", "=KEY:VALUE", steps, "compare each row with another value of batch, seq, retain, tp, ..."},
    {"--profile", "", "measure bench_all " + steps, "also divide the time of five more steps by class of operation"},
    {"--trace", "=FILE", steps, "with the times of --profile, write each operation to FILE as a Chrome trace"},
    {"--dcgm", "=1|2|3", runs, "run dcgmi diag of this level in pre-flight (SHAKEDOWN_DCGM)", one_of},
    {"--shared-folder", "=DIR", runs,
     "check that all hosts see the same files in this folder (SHAKEDOWN_SHARED_FOLDER)"},
    {"--checkpoint-dir", "=DIR", runs, "folder with space for checkpoints (TMPDIR; SHAKEDOWN_CHECKPOINT_DIR)"},
    {"--storage-dir", "=DIR", runs, "measure the shared storage in this folder (SHAKEDOWN_STORAGE_DIR)"},
    {"--plan", "", runs, "print the plan with seconds and memory, and exit"},
    {"--model", "=NAME", "bench_train_step", "with --plan: memory of each rank for this model; needs no GPU"},
    {"--ranks", "=N", "accept bench", "with --plan: plan for N ranks, eight on each host", count},
    {"--tp", "=N", "bench_train_step", "with --model: ranks that share each layer", count},
    {"--batch", "=N", "bench_train_step", "with --model: number of sequences of each rank", count},
    {"--seq", "=N", "bench_train_step", "with --model: number of tokens of each sequence", count},
    {"--dtype", "=bf16|fp8", "bench_train_step", "with --model: type of the products (bf16)", one_of},
    {"--masters", "=f32|bf16", "bench_train_step", "with --model: type of updated parameters and moments (f32)",
     one_of},
    {"--state", "=device|host", "bench_train_step", "with --model: memory of masters and moments (device)", one_of},
    {"--adapters", "", "bench_train_step", "with --model: plan LoRA instead of the training of all parameters"},
    {"--inference", "", "bench_train_step", "with --model: memory and tokens/s of a decode that --ranks=N share"},
    {"--largest", "", "bench_train_step", "with --model: print the largest batch that fits on each GPU"},
    {"--weights", "=DIR", "bench_finetune", "train this model folder of Hugging Face, instead of a benchmark"},
    {"--data", "=FILE", "bench_finetune", "examples: JSON lines, chat texts, or a file that --prepare made"},
    {"--out", "=DIR", "bench_finetune", "folder for adapters, checkpoints, metrics and events of TensorBoard"},
    {"--config", "=FILE.yaml", "bench_finetune", "settings; the flags above have priority"},
    {"--from", "=DIR", "bench_finetune", "adapters to start from, as peft writes them"},
    {"--resume", "", "bench_finetune", "continue the run in --out from its last checkpoint"},
    {"--evaluate", "", "bench_finetune", "print the loss on the examples, and train nothing"},
    {"--prepare", "", "bench_finetune", "write the tokens of the examples to --out, and train nothing"},
    {"--merge", "", "bench_finetune", "also write the whole model with the trained weights"},
    {"--telemetry", "=on|off", "bench", "record clocks, power, temperature and errors of the GPUs (on)", one_of},
    {"duration"},
    {"--timeout", "=S", runs + " tune",
     "end the job if a benchmark does not advance for S seconds (300; SHAKEDOWN_TIMEOUT)", seconds},
    {"--limit", "=S", measuring, "end after S seconds; the verdict is INCOMPLETE if families are missing", seconds},
    {"--startup-timeout", "=S", runs + " tune", "seconds in which every host must answer (120)", seconds},
    {"--for", "=8m|24h|7d", "accept", "run a soak: measure all families in rounds, and judge trends", duration},
    {"--resume", "", "accept", "continue the soak in latest, or in --folder, after a kill or a reboot"},
    {"--stop-on", "=fail", "accept", "end a soak at its first failure", one_of},
    {"--seed", "=N", "accept", "seed for the order of families in a soak (random; recorded)", seed},
    {"--interval", "=S", "top", "seconds between two readings (1)", refresh_seconds},
    {"folders and hosts"},
    {"--results", "=DIR", measuring + " tune", "folder of the runs (SHAKEDOWN_RESULTS, build/results, ./results)"},
    {"--keep", "=N", measuring + " tune", "number of run folders to keep (20)", count},
    {"--folder", "=DIR", measuring + " tune", "write this run into DIR"},
    {"--interface", "=NAME", measuring + " tune", "network interface of ranks, MPI and NCCL (SHAKEDOWN_INTERFACE)"},
    {"--hosts", "=LIST", "top", "hosts to show, reached over ssh, such as node[1-4],node7 (this host)", list},
    {"--out-dir", "=DIR", "bench_all", "write one result file for each family, DIR/FAMILY.json"},
    {"--stream", "", "bench_all", "print one line for each family, {\"family\": ..., \"result\": ...}"},
    {"--site", "=FILE", "bench", "site file, which has the leaf switch of each host"},
    {"--run-id", "=ID", "bench", "id of the run, recorded in the result (random)"},
    {"--crashed", "=A,B", "bench", "families in which an earlier program of this run crashed (recorded)", list},
    {"--lost", "=A,B", "bench", "hosts that were lost in the crashes of --crashed (recorded)", list},
    {"--tolerate-errors", "", "bench", "exit with 0 even if rows have errors"},
    {"judgement"},
    {"--results", "=F[,F...]", readers + " regress archive certify claim baseline_create ledger_add",
     "result files, or folders of them; in a folder of runs, the latest run", list},
    {"--results", "=DIR[,DIR...]", "fleet",
     "folders of runs, such as DIR/NODE/RUN; the newest complete run of each node", list},
    {"--families", "=A,B", readers + " regress compare",
     "judge only these families; the best verdict is then PARTIAL, or FIT for preflight", list},
    {"--thresholds", "=F", all_judges + certifying + " rehearse bench",
     "profile name, file or folder (SHAKEDOWN_THRESHOLDS, else the shipped ones)"},
    {"--site", "=FILE", judging + " fleet " + ledgers + certifying,
     "site file: fabric, topology, roster and limits of this cluster"},
    {"--roster", "=FILE", judging + " fleet history",
     "file of expected hosts; a line is host, host 8, host slots=8 or node[1-4]"},
    {"--expect", "=WHAT", judging + " bench", "expected machine: ranks=8,hosts=2,backend=cuda (SHAKEDOWN_EXPECT)"},
    {"--baseline", "=F[,F...]", comparing + " baseline_merge baseline_show", "compare with baseline.json or results",
     list},
    {"--tolerance", "=X", judging, "largest relative loss against --baseline that passes (0.05)", share},
    {"--allow-different", "", comparing, "permit a baseline of other machines or settings"},
    {"--scaling", "=DIR[,DIR...]", readers, "results of the same benchmarks with another number of ranks or nodes",
     list},
    {"--run-id", "=ID", readers, "id that all files must have; @FILE reads it from FILE"},
    {"--mixed-runs", "", readers, "permit files of different runs"},
    {"--allow-faults", "", comparing + " compare claim fleet ledger_add",
     "permit results with an injected fault, for tests"},
    {"--min-effect", "=X", "regress compare tune", "smallest relative change to report (0.01)", effect},
    {"--store", "=DIR", "regress", "compare with the earlier runs in DIR; add this run if no figure is worse"},
    {"--ledger", "=DIR", "accept fleet " + ledgers,
     "folder of events of all nodes (SHAKEDOWN_LEDGER, else that of the site file)"},
    {"--event", "=drained|repaired|returned", "ledger_add", "what was done to the node", one_of},
    {"--node", "=NODE", "ledger_add", "node of the event, or node[1-4]"},
    {"--reason", "=TEXT", "ledger_add", "reason for the event, in one line"},
    {"--due", "=DAYS", "history", "print only the nodes without a whole run in the last DAYS days, the oldest first",
     positive<double>},
    {"--site", "=FILE", "rehearse", "site file: its roster and its topology give the hosts and the leaf switches"},
    {"--hosts", "=N", "rehearse", "number of hosts (those of the site's roster)", count},
    {"--gpus", "=N", "rehearse", "number of GPUs of each host, 1 to 8 (8)", up_to_eight},
    {"--noise", "=NAME", "rehearse", "how much healthy parts vary: calm, mixed, lottery, slots, ... (mixed)"},
    {"--clusters", "=N", "rehearse", "simulated clusters for each fault (50; 30 if they have more than 128 GPUs)",
     count},
    {"--seed", "=N", "rehearse", "seed of the first cluster (1)", seed},
    {"--price", "=N", "claim report",
     "price of a GPU for an hour, in any currency: adds what is lost, or what tokens cost", positive<double>},
    {"--price", "=A[,B]", "compare", "price of a GPU for an hour in A and in B, in any currency: adds costs", prices},
    {"--key", "=FILE", "certify", "SSH key that signs, or the public key of a key in ssh-agent"},
    {"--signers", "=FILE", "verify", "allowed signers, with a line NAME KEY for each (ssh-keygen(1), ALLOWED SIGNERS)"},
    {"--partial-ok", "", "accept report acceptance_test", "exit with 0 for PARTIAL"},
    {"--skip-unmeasured", "", "acceptance_test", "exit with 77, which CTest shows as skipped, if nothing was measured"},
    {"output"},
    {"--out", "=DIR", baselines, "write DIR/<profile>/<N>ranks/baseline.json"},
    {"--out", "=DIR", "demo", "folder of results, verdict and page (shakedown-demo)"},
    {"--fault", "=slow-hbm|slow-gpu|slow-link|none", "demo", "fault of one GPU (slow-hbm)", one_of},
    {"--out", "=FILE", "archive", "name of the tar file (shakedown-RUN.tar)"},
    {"--out", "=FILE", "certify", "name of the certificate (certificate-RUN.tar)"},
    {"--floors", "=F.yaml", baselines, "propose a profile named F from the observed values"},
    {"--quantile", "=X", baselines, "with --floors: quantile of the values for a floor (0.01)", lower_half},
    {"--margin", "=X", baselines, "with --floors: margin below that quantile (0.03)", share},
    {"--nodes", "=DIR", "nodes stored fleet", "write good_nodes, bad_nodes (host files) and nodes.json into DIR"},
    {"--scontrol", "", "nodes stored fleet", "print Slurm commands that drain bad nodes and resume good ones"},
    {"--kubectl", "", "nodes stored fleet", "print Kubernetes commands that cordon bad nodes and uncordon good ones"},
    {"--explain", "=KEY", "report acceptance_test",
     "print the rules and values of this benchmark, such as gemm/dtype:bf16"},
    {"--all", "", all_judges, "also list values that no rule limits, rates of all copies, and good nodes"},
    {"--all", "", "verify", "also list the source of each limit"},
    {"--once", "", "top", "print one reading, and exit; always so if the output is not a terminal, unless --json"},
    {"--json", "", "top", "print a JSON document for each reading, one a line"},
    {"--color", "[=yes|no]", all_judges, "colour the table (on a terminal; NO_COLOR, CLICOLOR_FORCE)", one_of},
    {"--width", "=N", all_judges, "wrap tables at N columns (the terminal's, else 120; COLUMNS)", columns},
    {"--help", "", all_judges + certifying + " top tune bench", "print this help; also -h"},
    {"--version", "", all_judges + certifying + " top tune bench", "print the version; also -V"},
    // Rank 0 decides these flags for all ranks. All other flags of Google Benchmark are passed to it.
    {"Google Benchmark (its other flags work too)"},
    {"--benchmark_filter", "=REGEX", "bench", "measure the keys that match; with -REGEX the keys that do not match"},
    {"--benchmark_list_tests", "[=BOOL]", "bench", "print the keys, and exit", truth},
    {"--benchmark_repetitions", "=N", "bench", "measure each key N times (1)", count},
    {"--benchmark_min_time", "=S", "bench", "seconds of samples of each key, or a number of iterations such as 3x",
     min_time},
    {"--benchmark_format", "=console|json|csv", "bench", "format of standard output (console)", one_of},
    {"--benchmark_out", "=FILE", "bench", "also write the result into a file"},
    {"--benchmark_out_format", "=console|json|csv", "bench", "format of the file of --benchmark_out (json)", one_of},
    {"--benchmark_color", "[=BOOL|auto]", "bench", "colour the console (no)", truth},
    {"--benchmark_counters_tabular", "[=BOOL]", "bench", "print counters as a table", truth},
    {"--benchmark_enable_random_interleaving", "[=BOOL]", "bench", "true is refused", truth},
};

}  // namespace

const FlagTable& flag_table() { return rows; }

}  // namespace shakedown
