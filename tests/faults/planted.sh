#!/usr/bin/env bash
# Real runs with planted faults, and their verdicts; the judge does not know the faults. Needs at least 2 GPUs (4 for all
# faults), about 3 minutes, and programs built with CUDA. Prints a table in Markdown and keeps the results.
#
#   [SHAKEDOWN_PLANTED_GPUS=4] tests/faults/planted.sh build OUT
set -euo pipefail

build=$(readlink -f "$1")
mkdir -p "$2"
out=$(readlink -f "$2")
cd "$(dirname "$0")/../.."
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
gpus=${SHAKEDOWN_PLANTED_GPUS:-4}

started=()
stop_started() {
  local pid
  for pid in ${started[@]+"${started[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${started[@]+"${started[@]}"}; do wait "$pid" 2>/dev/null || true; done
  started=()
}
trap stop_started EXIT

load() { "$build/tests/gpu_load" "$@" >/dev/null & started+=($!); }

# busy CORE N: starts N busy loops on that core.
busy() {
  local i
  for ((i = 0; i < $2; ++i)); do
    taskset -c "$1" bash -c 'while :; do :; done' & started+=($!)
  done
}

# The rank PINNED_RANK runs on the core PINNED_CORE only.
wrapper=$out/on_one_core
cat >"$wrapper" <<'EOF'
#!/usr/bin/env bash
if [[ ${OMPI_COMM_WORLD_RANK:-} == "${PINNED_RANK:-none}" ]]; then exec taskset -c "$PINNED_CORE" "$@"; fi
exec "$@"
EOF
chmod +x "$wrapper"

measure() { # RUN RANKS
  local family filter
  export SHAKEDOWN_RUN_ID=$1
  for family in gemm hbm p2p allreduce; do
    case $family in
      gemm) filter='dtype:(bf16|tf32)/m:8192/n:8192/k:8192(/|$)' ;;
      hbm) filter='op:(copy|read)/engine:sm/bytes:4294967296' ;;
      p2p) filter='op:write/engine:ce/src:' ;;
      allreduce) filter='dtype:f32/bytes:(8|8388608|1073741824)(/manual_time|/repeats.*)?$' ;;
    esac
    timeout -k 5 40 mpirun --bind-to none -np "$2" "$wrapper" "$build/bench/bench_$family" --timeout=30 \
      --expect=ranks="$2" --benchmark_filter="$filter" --benchmark_repetitions=3 --benchmark_min_time=0.03 \
      --benchmark_out="$out/$1/$family.json" >"$out/$1/$family.log" 2>&1 || true
  done
}

# Written row by row, so that an aborted run keeps its rows.
{
  echo "| planted | culprits named | verdict | s |"
  echo "|---|---|---|---|"
} | tee "$out/table.md"

# run NAME RANKS WHAT: measures and judges. The planted fault is in the environment or is running already.
run() {
  local report culprits verdict began=$SECONDS
  mkdir -p "$out/$1"
  sleep 0.5
  measure "$1" "$2"
  stop_started
  report=$out/$1/report.txt
  "$build/bin/shakedown" report --results="$out/$1" --families=gemm,hbm,p2p,allreduce --verdict="$out/$1/verdict.json" >"$report" 2>&1 || true
  verdict=$(tail -n 1 "$report")
  culprits=$(sed -n '/^CULPRITS/,/^finding /p' "$report" | grep -E '^[a-z].*: (rank|all [0-9]|no single|[^ ]+$)' | paste -sd ';' | sed 's/;/; /g' | tr '|' '/' || true)
  echo "| $3 | ${culprits:-none} | ${verdict#VERDICT: } | $((SECONDS - began)) |" | tee -a "$out/table.md"
}

last=$((gpus - 1))
run none-1 "$gpus" "nothing"
load 1 0.10; run load-1 "$gpus" "arithmetic on GPU 1 for 10 % of the time"
NCCL_P2P_DISABLE=1 run no-p2p "$gpus" "NCCL_P2P_DISABLE=1: through the host's memory"
busy 5 4; PINNED_RANK=$last PINNED_CORE=5 run pinned "$gpus" "rank $last on a core that four other programs use"
load 1 0.30 memory; run memory-1 "$gpus" "copies in the memory of GPU 1 for 30 % of the time"
load 0 0.05; run load-0 "$gpus" "arithmetic on GPU 0 for 5 % of the time"
if ((gpus > 2)); then load "$last" 1; run neighbour "$last" "GPU $last at full power beside a run on the others"; fi
load "$last" 0.9; run load-most "$gpus" "arithmetic on GPU $last for 90 % of the time"
NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 run no-shm "$gpus" "NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1: through sockets"
if ((gpus > 3)); then load 0 0.2; load 2 0.2; run load-0-2 "$gpus" "arithmetic on GPUs 0 and 2 for 20 % of the time"; fi
NCCL_MAX_NCHANNELS=2 NCCL_MIN_NCHANNELS=1 run channels "$gpus" "NCCL_MAX_NCHANNELS=2"
run none-2 "$gpus" "nothing"
