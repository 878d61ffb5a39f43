#!/usr/bin/env bash
# All families in one program: the same results as from single programs, a stream of results, and the results left after a crash.
# tests/launch/front_door_test.sh tests how the shakedown command handles a crash.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
bench=$build/bench
small=(--backend=host --benchmark_min_time=0.001 --benchmark_filter='^preflight|(allreduce/dtype:f32|collectives/op:reduce/dtype:f32)/bytes:8$')
export SHAKEDOWN_RUN_ID=all-test

keys() { grep -oE '"name": ?"[^"]*"' "$1"; }
# Prints the context of a result without the fields that depend on the program or the time.
context() { sed -n '/"shakedown"/,/^ *"versions"/p' "$1" | sed '/"asked": {/,/^ *},$/d' | grep -vE '"started"|"seconds": ?[0-9]|"argv"|--|^ *\],?$'; }

# --- files ----------------------------------------------------------------------------------------------------------------
mkdir results single
run 0 mpi -np 2 "$bench/bench_all" "${small[@]}" --out-dir=results
expect "every family that has benchmarks has its file, and no other" test "$(echo results/*.json)" = "results/allreduce.json results/collectives.json results/preflight.json"
for family in preflight allreduce collectives; do
  run 0 mpi -np 2 "$bench/bench_$family" "${small[@]}" --benchmark_out="single/$family.json"
  expect "  $family with the benchmarks of bench_$family alone" eval '[[ -n $(keys "single/$family.json") && $(keys "results/$family.json") == "$(keys "single/$family.json")" ]]'
  expect "  and its facts" eval '[[ -n $(context "single/$family.json") && $(context "results/$family.json") == "$(context "single/$family.json")" ]]'
done
expect "  and the seconds that it took" test "$(grep -lE '"seconds": ?[0-9.e-]+[,}]?$' results/*.json | wc -l)" = 3
expect "before anything is measured it is said how long each will take" eval 'says "^\[0/[0-9]+\] collectives, [0-9.]+ s in all$"'
expect "the judge takes the folder for one run" eval '[[ $(verdict_of results) == *" 3 of 20 families "* ]]'

expect "all memory is tested before the first communicator takes some" test "$(grep -nxE 'memtest|p2p|allreduce' "$build/share/shakedown/families" | cut -d: -f2 | paste -sd' ')" = "memtest p2p allreduce"

# --- stream ---------------------------------------------------------------------------------------------------------------
run 0 mpi -np 2 "$bench/bench_all" "${small[@]}" --stream --families=collectives,preflight
expect "a stream has one line per family, in the order that was asked for, and nothing else" \
  test "$(cut -d, -f1 "$scratch/out")" = $'{"family": "collectives"\n{"family": "preflight"'
for family in preflight collectives; do
  grep "^{\"family\": \"$family\"" "$scratch/out" | sed 's/^{"family": "[a-z]*", "result": //; s/}$//' >"single/$family.json"
  expect "  $family whole" eval '[[ $(verdict_of "single/$family.json") == VERDICT:* ]]'
done

# --- retests --------------------------------------------------------------------------------------------------------------
# With a limit that no AllToAll can reach, this row misses it in its only measurement.
cp -r "$(cd "$(dirname "$0")/../../thresholds" && pwd)" limits
sed -i '/op:alltoall.*bytes:1073741824.*ranks: .2, 3/s/reference: 337.1/reference: 590/' limits/h200-sxm.yaml
rows_of() { python3 -c 'import json, sys; print(len(json.load(sys.stdin)["result"]["benchmarks"]))'; }
SHAKEDOWN_THRESHOLDS=$PWD/limits run 0 mpi -np 2 "$bench/bench_all" --backend=virtual --chip=h200 --stream \
  --families=collectives,preflight '--benchmark_filter=of:gpu|op:(alltoall|broadcast)/.*1073741824'
expect "a collective that misses a limit is repeated after the last family, whose result comes first" \
  test "$(cut -d, -f1 "$scratch/out" | cut -d'"' -f4 | paste -sd' ')" = "collectives preflight collectives"
expect "  twice, and no other row" test "$(sed -n 1p "$scratch/out" | rows_of) $(sed -n 3p "$scratch/out" | rows_of)" = "2 4"
run 0 mpi -np 2 "$bench/bench_all" --backend=virtual --chip=h200 --stream \
  --families=collectives,preflight '--benchmark_filter=of:gpu|op:(alltoall|broadcast)/.*1073741824'
expect "  and none with the shipped limits" test "$(wc -l <"$scratch/out")" = 2

# --- refused ----------------------------------------------------------------------------------------------------------------
run 2 "$bench/bench_all" --families=gemm,nosuch
expect "an unknown family is refused, and the known ones are named" says "'nosuch' is not one of preflight, jitter, launch, gemm, hbm"
run 2 "$bench/bench_all" --benchmark_out=a.json
expect "one file for all is refused" says 'use --out-dir=DIR or --stream'
run 2 "$bench/bench_gemm" --stream
expect "a single program has no stream" says 'stream: bench_gemm .* flag of bench_all'
run 2 "$bench/bench_all" --out-dir=/nonexistent
expect "a folder that is not there is refused" says '/nonexistent: '

# --- a crash during the run ---------------------------------------------------------------------------------------------------
rm -r results/*
SHAKEDOWN_FAULT=kill@1:sample run not0 mpi -np 2 "$bench/bench_all" "${small[@]}" --out-dir=results
expect "what was finished before a death is there, whole" eval '[[ $(echo results/*.json) == results/preflight.json && $(verdict_of results --allow-faults) == VERDICT:* ]]'
SHAKEDOWN_FAULT=kill@1:sample run not0 mpi -np 2 "$bench/bench_all" "${small[@]}" --stream
expect "  and stands in the stream" test "$(cut -d, -f1 "$scratch/out")" = '{"family": "preflight"'
run 0 mpi -np 2 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=after.json --crashed=allreduce
run 1 "$build/tests/acceptance_test" --results=after.json --families=allreduce
expect "a family that was measured after a death fails all the same" prints 'crashed .*allreduce'

finish
