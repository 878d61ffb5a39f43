#!/usr/bin/env bash
# Benchmark programs as their users run them: flags, standard output, files and exit codes, alone and under mpirun.
# shellcheck source-path=SCRIPTDIR source=shell.bash disable=SC2016
source "$(dirname "$0")/shell.bash"
cd "$scratch" || exit 1
bench=$build/bench
small=(--backend=host --benchmark_filter='allreduce/dtype:f32/bytes:(8|32)$')
export SHAKEDOWN_RUN_ID=suite-test

count() { grep -cE -- "$1" "$2"; }

# --- a result on standard output ---------------------------------------------------------------------------------------
run 0 "$bench/bench_allreduce" "${small[@]}" --benchmark_format=json
expect "a program runs without a launcher" prints '"complete": ?true'
expect "one rank has no bus bandwidth" eval '! prints busbw_gb_per_s'

run 0 mpi -np 3 "$bench/bench_allreduce" "${small[@]}" --benchmark_format=json
cp "$scratch/out" three.json
expect "three ranks print one document" test "$(count '"schema": ?2' three.json)" = 1
expect "the judge can read it" eval '[[ $(verdict_of three.json) == VERDICT:* ]]'
expect "every rank stands in the document" grep -qE '"local_rank": ?2' three.json
expect "progress goes to standard error" says '^\[1/2\] allreduce/dtype:f32/bytes:8'

run 0 mpi -np 2 --tag-output "$bench/bench_allreduce" "${small[@]}" --benchmark_out=tagged.json
expect "a result file is whole whatever the launcher does to standard output" grep -qE '"complete": ?true' tagged.json

run 0 mpi -np 2 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=twice.json --benchmark_format=json
expect "the file and standard output carry the same" cmp -s twice.json "$scratch/out"

# --- usual flags -------------------------------------------------------------------------------------------------------
run 0 mpi -np 2 "$bench/bench_gemm" --backend=host --benchmark_list_tests
expect "the list has one line per benchmark" test "$(wc -l <"$scratch/out")" = 4
expect "the list has the names as the library prints them" prints '^gemm/dtype:f32/m:1024/n:1024/k:1024/manual_time$'

run 0 mpi -np 2 "$bench/bench_allreduce" "${small[@]}" --benchmark_repetitions=3 --benchmark_out=repeated.json
expect "every repetition has its values by rank" test "$(count '"by_rank"' repeated.json)" = 6
expect "aggregates are there as usual" grep -q '_median' repeated.json
expect "no counter is NaN" eval '! grep -qi -w nan repeated.json'

run 0 "$bench/bench_allreduce" "${small[@]}" --benchmark_format=csv
expect "csv works" prints '^name,iterations'
run 0 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=table.txt --benchmark_out_format=console
expect "a console table in a file works" grep -q '^Benchmark' table.txt
run 0 "$bench/bench_allreduce" --help
expect "help names our flags" prints '--tier=quick'
run 0 "$bench/bench_allreduce" --version
expect "the version is one line" prints '^bench_allreduce [0-9]+\.[0-9]+\.[0-9]+ \('
run 0 mpi -np 2 "$bench/bench_allreduce" --backend=host --plan
expect "the plan ends with the sum" prints '^19 benchmarks, at most 0.537 GB per rank, about'

# --- usage errors: exit 2, one line, nothing measured --------------------------------------------------------------------
usage() {
  local what=$1 pattern=$2
  shift 2
  run 2 "$@"
  expect "$what" says "^shakedown: .*$pattern"
  expect "  and nothing is printed or measured" eval 'silent && ! says "^\[1/"'
}
usage "an unknown flag is refused by name" '--nosuch' "$bench/bench_gemm" --nosuch=1
usage "an unknown flag is refused under mpirun" '--benchmark_nosuch' mpi -np 2 "$bench/bench_gemm" --benchmark_nosuch=1
usage "a filter that matches nothing is refused" 'matches no benchmark' mpi -np 2 "$bench/bench_gemm" --backend=host --benchmark_filter=nosuch
usage "random interleaving is refused" 'shuffle' mpi -np 2 "$bench/bench_gemm" --benchmark_enable_random_interleaving
usage "a result file in no folder is refused" 'cannot be written' mpi -np 2 "$bench/bench_gemm" --benchmark_out=/nonexistent/a.json
usage "a malformed fault is refused" 'SHAKEDOWN_FAULT' env SHAKEDOWN_FAULT=boom "$bench/bench_gemm" --backend=host
usage "a search is refused where nothing is multiplied" '--search and --algorithms are for bench_gemm' "$bench/bench_hbm" --backend=host --search=5
usage "algorithms from no file are refused" 'nosuch.json: no such file' mpi -np 2 "$bench/bench_gemm" --backend=host --algorithms=nosuch.json
usage "algorithms for the host are refused" 'three.json: only the cuda backend' mpi -np 2 "$bench/bench_gemm" --backend=host --algorithms=three.json
run 2 env BENCHMARK_ENABLE_RANDOM_INTERLEAVING=1 mpi -np 2 "$bench/bench_gemm"
expect "random interleaving is refused from the environment" says 'shuffle'

# --- ranks that were told different things --------------------------------------------------------------------------------
run 0 mpi -np 1 -x BENCHMARK_REPETITIONS=2 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=zero.json : -np 1 "$bench/bench_allreduce" "${small[@]}"
expect "a variable of rank 0 counts for all" test "$(count '"by_rank"' zero.json)" = 4
run 0 mpi -np 1 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=one.json : -np 1 -x BENCHMARK_REPETITIONS=2 -x BENCHMARK_FILTER=nosuch -x BENCHMARK_MIN_TIME=3 "$bench/bench_allreduce" "${small[@]}"
expect "a variable of another rank counts for nobody" test "$(count '"by_rank"' one.json)" = 2
run 0 mpi -np 1 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=first.json : -np 1 "$bench/bench_allreduce" --backend=host --benchmark_filter=67108864 --benchmark_min_time=5
expect "rank 0's arguments count for all" test "$(count '"by_rank"' first.json)" = 2
cp "$bench/bench_allreduce" other_build && echo >>other_build
run not0 mpi -np 1 "$bench/bench_allreduce" "${small[@]}" : -np 1 ./other_build "${small[@]}"
expect "another build on another rank is refused" says 'rank 1 \(.*\) has another build'

# --- errors and waivers -------------------------------------------------------------------------------------------------
export SHAKEDOWN_FAULT=corrupt@1
run 1 mpi -np 2 "$bench/bench_allreduce" "${small[@]}" --benchmark_repetitions=3 --benchmark_out=corrupt.json
unset SHAKEDOWN_FAULT
expect "an error stays in every repetition" test "$(count '"error_occurred": ?true' corrupt.json)" = 6
expect "it names rank and host" grep -q 'wrong data: rank 1 (' corrupt.json
expect "and the rank as data, in every repetition" test "$(count '"wrong_ranks": ?\[1\]' corrupt.json)" = 6
SHAKEDOWN_FAULT=corrupt@1+8 run 1 mpi -np 2 "$bench/bench_allreduce" --backend=host --benchmark_filter='f32/bytes:8$' --benchmark_repetitions=12 --benchmark_out=later.json
expect "an error in a later repetition ends in a whole file, and stays" test "$(count '"error_occurred": ?true' later.json)" -ge 3
expect "  with the good repetitions before it" grep -qE '"repetition_index": ?0.*"by_rank": ?\{"' later.json
expect "it says where, what and what was expected" grep -qE 'element [0-9]+ is [0-9]+, expected [0-9]+' corrupt.json

run 0 "$bench/bench_p2p" --backend=host --benchmark_out=alone.json
expect "one rank waives peer copies and says why" grep -q 'waived: rank 0 (.*one rank only' alone.json

run 0 mpi -np 2 "$bench/bench_gemm" --backend=host --search=1 --benchmark_filter=shape:best --benchmark_out=search.json
expect "a backend without a search waives it" test "$(count 'waived: rank 0 \(.*the search for a shape' search.json)" = 2

run 0 mpi -np 2 "$bench/bench_p2p" --backend=host --benchmark_filter=op:read --benchmark_out=pairs.json
expect "the figures of pairs are printed as a matrix" prints '^  src.dst +0 +1$'
expect "  and stand in the file as one" grep -q '"src_by_dst":\[\[null,[0-9.]*\],\[[0-9.]*,null\]\]' pairs.json

for family in gemm hbm memtest p2p; do
  SHAKEDOWN_FAULT=corrupt@1 run 1 mpi -np 2 "$bench/bench_$family" --backend=host --benchmark_filter='(1024|hbm|memtest|src:0/dst:1|shift:1)' --benchmark_out="corrupt_$family.json"
  expect "$family: a corrupted element is found on rank 1" grep -q 'wrong data: rank 1 (' "corrupt_$family.json"
done

# --- collectives: every operation between 2 and 3 ranks, and damage found on the rank that has it ----------------------------
brief=(--backend=host --benchmark_min_time=0.001)
for ranks in 2 3; do
  run 0 mpi -np $ranks "$bench/bench_collectives" "${brief[@]}" --benchmark_out=collectives.json
  expect "6 operations at 3 sizes are right on $ranks ranks" test "$(count '"busbw_gb_per_s"' collectives.json)" = 18
  damaged=$((ranks - 1))
  SHAKEDOWN_FAULT=corrupt@$damaged run 1 mpi -np $ranks "$bench/bench_collectives" "${brief[@]}" --benchmark_out=collectives.json
  expect "  and a corrupted element is found on rank $damaged of $ranks" test "$(count "wrong data: rank $damaged \(" collectives.json)" = 18
  expect "  with where, what and what was expected" test "$(count 'element [0-9]+ is [-0-9.e]+, expected [0-9]+' collectives.json)" = 18
done
run 0 mpi -np 3 "$bench/bench_allreduce" "${brief[@]}" --benchmark_filter=place:in --benchmark_out=in.json
expect "the sum in place is right" test "$(count '"busbw_gb_per_s"' in.json)" = 1
SHAKEDOWN_FAULT=corrupt@2 run 1 mpi -np 3 "$bench/bench_allreduce" "${brief[@]}" --benchmark_filter=place:in --benchmark_out=in.json
expect "  and a corrupted element is found" grep -qE 'wrong data: rank 2 \(.*expected 0' in.json
run 0 mpi -np 2 "$bench/bench_allreduce" --backend=host --tier=full --benchmark_filter=timing:single --benchmark_out=tail.json
expect "operations timed one by one have their tail" test "$(grep -oE '"(p50|p99|p999|max)_us"' tail.json | wc -l)" = 4
expect "  of 1000 samples, whatever --benchmark_min_time says" grep -qE '"samples": ?1(000|\.0+e\+0*3)' tail.json
expect "  under the key without the library's suffixes" grep -qE '"name": ?"allreduce/dtype:f32/bytes:8/timing:single/' tail.json
run 0 "$bench/bench_collectives" "${brief[@]}" --benchmark_out=collectives.json
expect "one rank has no bus bandwidth" test "$(count '"busbw_gb_per_s"' collectives.json)" = 0

# --- the training step: right on 1 to 4 ranks, damage and a number that is none found on the rank that has it, a rank that dies
step=("$bench/bench_lora_step" --backend=host --benchmark_filter=dtype:f32 --benchmark_out=step.json)
for ranks in 1 2 4; do
  run 0 mpi -np $ranks "${step[@]}"
  expect "a training step is right on $ranks ranks" grep -qE '"tokens_per_s": ?[1-9]' step.json
  expect "  and says how it spends its time" test "$(grep -oE '"(forward|backward|optimizer|compute)_ms"' step.json | wc -l)" = 4
done
expect "  and what the sums over ranks add to it" grep -q '"exposed_comm_ms"' step.json
SHAKEDOWN_FAULT=nan@1+4 run 1 mpi -np 3 "${step[@]}"
expect "a number that is none is found in its step and on its rank" grep -qE 'wrong data: rank 1 \(.*step 5: loss -?nan, [0-9]+ values of its gradient are not finite' step.json
expect "  and the other ranks are not blamed" eval '! grep -q "more ranks" step.json'
SHAKEDOWN_FAULT=corrupt@2 run 1 mpi -np 3 "${step[@]}"
expect "a damaged parameter is found" grep -qE 'wrong data: rank 2 \(.*expected [0-9]+ as after the last step' step.json
rm step.json
SHAKEDOWN_FAULT=kill@1:sample run not0 mpi -np 2 "${step[@]}"
expect "a rank killed in the middle of a step ends the job, and is named" says 'rank 1 \(.*\) ended unexpectedly in lora_step/model:tiny'
expect "  and leaves no result" test ! -e step.json
SHAKEDOWN_FAULT=nan@0 run 3 "$bench/bench_gemm" --backend=host --benchmark_filter=f32/m:1024
expect "an operation without that test says so" says 'no test with a number that is none'

export SHAKEDOWN_FAULT=slow:10@1
run 0 mpi -np 2 "$bench/bench_hbm" --backend=host --benchmark_out=slow_hbm.json
expect "local work names the slow rank" grep -q 'slowest: rank 1 (' slow_hbm.json
run 0 mpi -np 2 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=slow.json
expect "a collective names the slow rank as the last to arrive" grep -q 'last to arrive: rank 1 (' slow.json
export SHAKEDOWN_FAULT=late@0
run 0 mpi -np 2 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=late.json
expect "a collective names the late rank" grep -q 'last to arrive: rank 0 (' late.json
unset SHAKEDOWN_FAULT
cat >slow.yaml <<'END'
schema: 2
profile: slow
match: {backend: host}
rules:
  - {benchmark: "hbm/op:copy/engine:cpu/bytes:268435456", metric: hbm_gb_per_s, every: rank, min: 0.0001, spread_max: 0.8, source: "a rank that is ten times slower stands out whatever the machine"}
END
code=0
"$build/tests/acceptance_test" --results=slow_hbm.json --family=hbm --thresholds=slow.yaml --allow-faults >slow.txt 2>&1 || code=$?
expect "the verdict on a slow rank is FAIL and names it" eval '[[ $code -eq 1 ]] && grep -qE "spread_max" slow.txt && grep -q "rank 1" slow.txt'
expect "the judge refuses a file with a planted fault" eval '"$build/tests/acceptance_test" --results=late.json >/dev/null 2>&1; [[ $? == 2 ]]'

# --- GPUs that should be there, on a machine without: never a host that is well -------------------------------------------------
empty=$scratch/empty expected=
mkdir -p "$empty/sys/bus/pci/devices" "$empty/sys/module"
unset CUDA_VISIBLE_DEVICES SLURM_STEP_GPUS SLURM_JOB_GPUS
# promised WHAT PATTERN [VARIABLE=VALUE ...]: what the judge says of a pre-flight with these variables, and --expect=$expected
promised() {
  run 0 env SHAKEDOWN_SYSFS="$empty/sys" "${@:3}" mpi -np 2 "$bench/bench_preflight" --benchmark_out=promised.json ${expected:+"--expect=$expected"}
  "$build/tests/acceptance_test" --results=promised.json --family=preflight --allow-faults >promised.txt 2>&1
  expect "$1" grep -qE "$2" promised.txt
}
if ! grep -qs '^0x10de' /sys/bus/pci/devices/*/vendor; then
  promised "no GPU, and nothing that says there should be one: a host" 'machine/backend +host .*pass'
  promised "a mask of nothing promises nothing" 'machine/backend +host .*pass' CUDA_VISIBLE_DEVICES=
  promised "a mask with entries promises GPUs" '^  .* has 2 GPUs by CUDA_VISIBLE_DEVICES=0,1' CUDA_VISIBLE_DEVICES=0,1
  promised "a scheduler's binding does" '^  .* has 2 GPUs by SLURM_JOB_GPUS=0,1' SLURM_JOB_GPUS=0,1
  expected=backend=cuda
  promised "an expectation does" '^  measured on host, cuda expected'
  expected=
  mkdir "$empty/sys/module/nvidia"
  promised "a loaded driver does" "^  .* has NVIDIA's kernel driver \\(/sys/module/nvidia\)"
fi

# --- GPUs that cannot be measured never become a host ----------------------------------------------------------------------
device=sys/bus/pci/devices/0000:1b:00.0
mkdir -p "$device"
echo 0x10de >"$device/vendor"
echo 0x030200 >"$device/class"
if ! grep -qs '^0x10de' /sys/bus/pci/devices/*/vendor; then
  export SHAKEDOWN_SYSFS=$scratch/sys
  run 1 mpi -np 2 "$bench/bench_hbm" --benchmark_out=broken.json
  expect "an NVIDIA device without CUDA is an error on every benchmark" grep -q 'NVIDIA GPUs are on the PCI bus' broken.json
  expect "  and the verdict is FAIL" grep -q '^VERDICT: FAIL' <<<"$(verdict_of broken.json --allow-faults)"
  run 0 mpi -np 2 "$bench/bench_hbm" --backend=host --benchmark_out=hidden.json
  expect "measuring its CPUs instead is a FAIL too" grep -q '^VERDICT: FAIL' <<<"$(verdict_of hidden.json --allow-faults)"
  expect "a made-up machine is refused unless allowed" grep -q '^error: ' <<<"$(verdict_of hidden.json)"
  unset SHAKEDOWN_SYSFS
  run 3 "$bench/bench_hbm" --backend=cuda
  expect "--backend=cuda on a machine without GPUs says so" says 'no NVIDIA GPU on the PCI bus'
fi

# --- a made-up NVML ---------------------------------------------------------------------------------------------------------
export SHAKEDOWN_NVML=$build/tests/libfake_nvml.so
run 0 "$bench/bench_hbm" --backend=host --benchmark_out=madeup.json
unset SHAKEDOWN_NVML
expect "a made-up NVML is recorded" grep -q 'SHAKEDOWN_NVML=' madeup.json
expect "  and refused by the judge unless allowed" grep -q '^error: ' <<<"$(verdict_of madeup.json)"
expect "  and no row of the host backend has telemetry" eval '! grep -qE "(throttle|power_w)" madeup.json'

# --- slow, but no hang ---------------------------------------------------------------------------------------------------
run 0 mpi -np 2 "$bench/bench_memtest" --backend=host --benchmark_min_time=8 --timeout=4
expect "a series that goes on may take longer than --timeout" eval '! says timeout'

# --- results that would be lost ------------------------------------------------------------------------------------------
run 3 bash -c "'$bench/bench_allreduce' ${small[*]@Q} --benchmark_format=json >/dev/full"
expect "a result that cannot be written is said" says 'standard output: cannot be written'
run 0 bash -c "'$bench/bench_allreduce' ${small[*]@Q} --benchmark_out=/dev/fd/3 3> >(cat >pipe.json)"
sleep 0.5
expect "a result may go to an open descriptor" grep -qE '"complete": ?true' pipe.json

# --- existing files -------------------------------------------------------------------------------------------------------
echo precious >kept.json
SHAKEDOWN_FAULT=kill@1 run not0 mpi -np 2 "$bench/bench_allreduce" "${small[@]}" --benchmark_out=kept.json
expect "a run that dies leaves the old file" grep -qx precious kept.json
expect "  and nothing beside it" eval '! ls kept.json?* 2>/dev/null'
mpi -np 2 "$bench/bench_allreduce" --backend=host --benchmark_min_time=100 --benchmark_out=kept.json >/dev/null 2>"$scratch/err" &
launcher=$!
sleep 2
kill -INT "$launcher"
expect "an interrupted run ends" eval 'wait $launcher; [[ $? -ne 0 ]]'
expect "  and leaves the old file" grep -qx precious kept.json
expect "  and no process" eval '! pgrep -f "$bench/bench_allreduce.*min_time=100" >/dev/null'
finish
