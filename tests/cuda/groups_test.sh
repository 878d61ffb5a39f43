#!/usr/bin/env bash
# Groups on real GPUs, where every rank or every two ranks simulate a host. Tests the results of pairs and of scope:node, and
# members that are stopped in communicator set-up, in an AllReduce and in a round. Needs 2 GPUs, and 4 for all tests (else 77).
#
#   tests/cuda/groups_test.sh BUILD
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2154,SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
count() { grep -oE "$1" "$2" | wc -l; }
# The GPUs in a numeric mask, else all GPUs.
IFS=, read -ra devices <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $(($(nvidia-smi --list-gpus 2>/dev/null | grep -c GPU) - 1)))}"
gpus=${#devices[@]}
if [[ $gpus -lt 2 ]]; then
  echo "SKIP: fewer than 2 GPUs"
  exit 77
fi
ranks=$((gpus < 4 ? 2 : 4))

# as_hosts PER: writes a wrapper in which every PER ranks are a host that sees only its own GPUs; NCCL uses the network.
as_hosts() {
  cat >as_host <<EOF
#!/bin/bash
host=\$((OMPI_COMM_WORLD_RANK / $1)) first=\$((OMPI_COMM_WORLD_RANK / $1 * $1)) devices=(${devices[*]})
export SHAKEDOWN_HOST=h\$host NCCL_HOSTID=h\$host CUDA_VISIBLE_DEVICES=\$(IFS=, && echo "\${devices[*]:first:$1}")
exec "\$@"
EOF
  chmod +x as_host
}
# stopped RANK LINE COMMAND...: stops this rank when the line is printed, and returns the exit code.
stopped() {
  local rank=$1 line=$2 code=0 victim=
  shift 2
  setsid timeout -k 5 240 mpi -np "$ranks" ./as_host "$@" >out 2>err </dev/null &
  local job=$!
  until says "$line" || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
  for process in /proc/[0-9]*; do
    grep -qzx "OMPI_COMM_WORLD_RANK=$rank" "$process/environ" 2>/dev/null || continue
    [[ $(readlink "$process/exe") == "$1" && $(readlink "$process/cwd") == "$scratch" ]] && victim=${process#/proc/}
  done
  [[ -n $victim ]] && kill -STOP "$victim"
  wait $job || code=$?
  [[ -n $victim ]] && kill -KILL "$victim" 2>/dev/null
  return $code
}

as_hosts 1
limit=300
run 0 mpi -np "$ranks" ./as_host "$build/bench/bench_pairs" --backend=cuda --benchmark_out=pairs.json
expect "six rounds have figures" test "$(count '"busbw_gb_per_s": ?[0-9.e+]+' pairs.json)" -ge 6
expect "and AllReduce of two rounds" test "$(grep -cE '^pairs/op:allreduce.*round.*busbw_gb_per_s=[0-9.]+' out)" = 2
grep -oE '^pairs/op:.*busbw_gb_per_s=[0-9.]+' out | sed -E 's/ .*=/ /'

# After a rank stops, each later round takes its full time: three rounds end within 50 s, all eight within 100 s.
stopped 1 '^\[2/' "$build/bench/bench_pairs" --backend=cuda --benchmark_out="$scratch/holes.json" \
  --benchmark_filter='sendrecv.*/round:[01]/|allreduce.*/round:0/'
expect "a rank that stops in a round ends the job with 1, not 0" test $? -ne 0
expect "it is named" says 'no answer in time: .*rank 1 \(h1'
expect "the result has holes, and all rounds" test "$(count '"run_name": ?"pairs[^"]*round' holes.json)" = 3

if [[ $ranks == 4 ]]; then
  as_hosts 2
  run 0 mpi -np 4 ./as_host "$build/bench/bench_allreduce" --backend=cuda --benchmark_out=node.json \
    --benchmark_filter='f32/bytes:(8|1048576|1073741824)(/scope:node)?$'
  expect "inside each host and between them" test "$(count '"run_name": ?"allreduce[^"]*scope:node' node.json)" = 3
  run 0 mpi -np 4 ./as_host "$build/bench/bench_collectives" --backend=cuda --benchmark_out=all.json \
    --benchmark_filter='bytes:1048576(/scope:node)?$'
  # During the set-up of the communicator of the group, and during its AllReduce.
  stopped 3 '^\[1/.*scope:node' "$build/bench/bench_allreduce" --backend=cuda --timeout=10 \
    --benchmark_filter='f32/bytes:8/scope:node$'
  expect "stopped in set-up: the job ends" test $? -ne 0
  expect "and the rank is named" says 'rank 3 \(h1'
  stopped 2 '^\[2/.*scope:node' "$build/bench/bench_allreduce" --backend=cuda --timeout=10 --benchmark_min_time=5 \
    --benchmark_filter='f32/bytes:(8|1048576)/scope:node$'
  expect "stopped in a sum: the job ends" test $? -ne 0
  expect "and the rank is named, not its neighbour" says 'rank 2 \(h1'
fi
finish
