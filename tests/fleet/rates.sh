#!/usr/bin/env bash
# The table of docs/verdict.md: how often the judge is right about made-up fleets.
#   tests/fleet/rates.sh BUILD FIRST_SEED [SHARE [ROWS]]
# SHARE of the counts (default 1: hours of one core, minutes of 64); ROWS: a regular expression, such as '^healthy'. Seeds
# below 1,000 are those that limits were tuned with; tables are made with others. Rows run side by side on all cores.
set -uo pipefail
build=$(readlink -f "$1") first=$2 share=${3:-1} which=${4:-.}
root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
export build first share root
side_by_side=$(($(nproc) / 4 > 0 ? $(nproc) / 4 : 1))

# WHAT | NOISE | HOSTS | GPUS OF A HOST | FLEETS | FAULTS
rows() {
  for noise in calm real stored heavy-tails hiccups chips-3; do
    echo "healthy|$noise|1|8|300|"
    echo "healthy|$noise|64|8|300|"
  done
  echo "healthy|real|2|8|300|"
  echo "healthy|real|8|8|300|"
  echo "healthy|real|1250|8|20|"
  echo "healthy|hiccups|1250|8|20|"
  for shape in 1:2:300 1:4:300 1:8:300 2:8:300 8:8:300 16:8:100 128:8:300 1250:8:20; do
    IFS=: read -r hosts gpus fleets <<<"$shape"
    echo "GPU 5 % slow in everything|real|$hosts|$gpus|$fleets|gpu:rank=1,percent=5"
  done
  for what in gemm hbm; do
    for percent in 2 3 5; do
      echo "GPU $percent % slow in ${what^^} only|real|1|8|300|gpu:rank=3,percent=$percent,in=$what"
      echo "GPU $percent % slow in ${what^^} only|real|8|8|300|gpu:rank=3,percent=$percent,in=$what"
    done
  done
  for gpus in 2 4 8; do
    echo "GPU 5 % slow in fp8 only|real|1|$gpus|300|gpu:rank=1,percent=5,in=gemm/dtype:fp8"
    echo "GPU 5 % slow in HBM reads only|real|1|$gpus|300|gpu:rank=1,percent=5,in=hbm/op:read"
  done
  for what in hbm/op:copy/engine:ce pcie/op:d2h p2p/op:read p2p/op:write/engine:sm; do
    local plain=${what//op:/}
    plain=${plain//engine:/}
    echo "GPU 15 % slow in ${plain//\// } only|real|1|8|100|gpu:rank=5,percent=15,in=$what"
  done
  for slow in "0 1 2 3" "0 1 2 3 5 6"; do
    echo "GPUs $slow 3 % slow|real|1|8|100|$(for r in $slow; do printf 'gpu:rank=%s,percent=3 ' "$r"; done)"
  done
  for shape in 1:4:300 1:8:300 8:8:100 64:8:40; do
    IFS=: read -r hosts gpus fleets <<<"$shape"
    echo "a link one way at half|real|$hosts|$gpus|$fleets|link:host=0,src=1,dst=2,fraction=0.5"
    echo "a GPU's ports at half|real|$hosts|$gpus|$fleets|ports:rank=1,fraction=0.5"
  done
  echo "two: a GPU 5 %, a link at half|real|1|8|300|gpu:rank=3,percent=5 link:src=1,dst=6,fraction=0.5"
  echo "two: GEMM 5 %, HBM 5 %|real|1|8|300|gpu:rank=3,percent=5,in=gemm gpu:rank=6,percent=5,in=hbm"
  echo "two: a GPU 5 %, a late one|real|1|8|300|gpu:rank=3,percent=5 late:rank=6,us=2000"
  echo "two GPUs 5 %|real|8|8|100|gpu:rank=3,percent=5 gpu:rank=33,percent=5"
  echo "the whole fleet 10 % slow|real|1|8|300|fleet:percent=10"
  echo "the whole fleet 10 % slow|real|8|8|100|fleet:percent=10"
  echo "a host 5 % slow|real|8|8|100|host:host=2,percent=5"
  echo "heat, 12 % of the clock|real|1|8|300|heat:rank=3,percent=12"
  echo "PCIe at half|real|1|8|300|pcie:rank=3"
  echo "wrong data|real|1|8|300|data:rank=3"
}

one() {
  IFS='|' read -r what noise hosts gpus fleets faults <<<"$1"
  local flags=() count
  for fault in $faults; do flags+=("--fault=$fault"); done
  count=$(awk -v n="$fleets" -v s="$share" 'BEGIN { n *= s; print n < 1 ? 1 : int(n) }')
  local counts
  counts=$("$build/tests/fleet/fleet_rate" --noise="$root/tests/fleet/noise/$noise.yaml" --hosts="$hosts" --gpus="$gpus" \
    --seeds="$first..$((first + count - 1))" -j4 "${flags[@]}" 2>&1 | tail -n 1)
  # n 300: fail 300, named 300, said 300, first 299, innocent 1, nowhere 0
  of() { sed -n "s/.*\b$1 \([0-9]*\).*/\1/p" <<<"$counts"; }
  local fails
  fails=$(of fail)
  echo "| $what | $noise | $((hosts * gpus)) | $(of n) | ${fails:-0} | $(of named) | $(of first) | $(of innocent) |"
}
export -f one

echo "| what | noise | GPUs | n | fails | guilty named | named first | innocent named |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
# The longest rows first; the table in its own order.
mapfile -t all < <(rows | grep -E -- "$which")
for i in "${!all[@]}"; do echo "$i|${all[$i]}"; done | sort -t'|' -k4,4nr |
  xargs -d '\n' -P "$side_by_side" -I{} bash -c 'row=$1; echo "${row%%|*} $(one "${row#*|}")"' row {} | sort -n | cut -d' ' -f2-
