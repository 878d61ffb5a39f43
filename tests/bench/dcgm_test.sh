#!/usr/bin/env bash
# dcgmi diag in pre-flight: a simulated dcgmi in PATH on a simulated host with four GPUs, measured and judged as by users.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
export SHAKEDOWN_RUN_ID=dcgm-test
mkdir -p host/proc/sys/kernel host/sys/{class,module} bin
for gpu in 0 1 2 3; do
  mkdir -p "host/sys/bus/pci/devices/0000:1$gpu:00.0"
  echo 0x10de >"host/sys/bus/pci/devices/0000:1$gpu:00.0/vendor"
  echo 0x030200 >"host/sys/bus/pci/devices/0000:1$gpu:00.0/class"
done
echo 6.8.0 >host/proc/sys/kernel/osrelease
printf 'gpus 4\ndriver 580.159.03\n' >gpus.txt
export SHAKEDOWN_ROOT=$scratch/host SHAKEDOWN_FAKE_NVML=$scratch/gpus.txt
SHAKEDOWN_NVML=$(find "$build/tests" -name libfake_nvml.so) && export SHAKEDOWN_NVML

# dcgm 'COMMANDS': makes dcgmi run these commands.
dcgm() {
  printf '#!/bin/sh\necho "$@" >>%s/asked\n%s\n' "$scratch" "$1" >bin/dcgmi
  chmod +x bin/dcgmi
  rm -f asked
}
# judged RANKS FLAGS...: runs pre-flight on RANKS ranks with dcgmi in PATH and judges it; the end of the output is in ./out.
judged() {
  run 0 mpi -np "$1" env PATH="$scratch/bin:$PATH" "$build/bench/bench_preflight" --benchmark_filter=dcgm --benchmark_out=dcgm.json "${@:2}" &&
    "$build/tests/acceptance_test" --results=dcgm.json --families=preflight --allow-faults >judged 2>&1
  grep -E '^(fail|warn|missing|waived).* preflight/of:dcgm|^  (rank|next:).*(GPU-fake|of:dcgm)' judged >found
}
report() {  # STATUS_OF_GPU_2 WORDS
  printf '{"DCGM Diagnostic": {"test_categories": [{"category": "Integration", "tests": [{"name": "pcie", "results": ['
  for gpu in 0 1 3; do printf '{"entity_group": "GPU", "entity_group_id": 1, "entity_id": %s, "status": "Pass"},' $gpu; done
  printf '{"entity_group": "GPU", "entity_group_id": 1, "entity_id": 2, "status": "%s", "warnings": [%s]}' "$1" "$2"
  printf '], "test_summary": {"status": "%s"}}]}]}, "metadata": {"version": "4.6.0"}}\n' "$1"
}
report Pass '' >good.json
report Fail '{"error_category": 13, "error_id": 30, "error_severity": 2, "warning": "GPU 2 is running at PCI link width 8X, which is below the minimum allowed link width of 16."}' >bad.json

# --- a report ---------------------------------------------------------------------------------------------------------------
dcgm "cat $scratch/good.json"
judged 4 --dcgm=2
expect "it is asked once for the host, at its level, for JSON" eval '[[ $(cat asked) == "diag -r 2 -j" ]]'
expect "where all tests pass, nothing is found" eval '! grep -qE "^(fail|warn|missing|waived): preflight/of:dcgm" found'
expect "  and each GPU has passed" grep -q '       OK . preflight.of=dcgm_gpu/dcgm_failed' judged
rm asked
run 2 mpi -np 4 env PATH="$scratch/bin:$PATH" "$build/bench/bench_preflight" --benchmark_filter=dcgm
expect "nobody is asked without the flag" eval '[[ ! -e asked ]] && says "benchmark_filter"'

dcgm "cat $scratch/bad.json; exit 226"
judged 4 --dcgm=2
expect "a failing test is a finding beside ours" grep -q '^fail: preflight/of:dcgm_gpu dcgm_failed, 1' found
expect "  with its host and its GPU" grep -qE "^  rank 2 $(hostname) GPU-fake-2 .*: 1" found
expect "  and how to ask again, at that level" grep -qE "^  next: .*of:dcgm_gpu.* --dcgm=2$" found
expect "  in DCGM's words" grep -q 'GPU 2, pcie: .* PCI link width 8X,' judged
expect "  and the host has none of its own" eval '! grep -q "^fail: preflight/of:dcgm " found'
judged 2 --dcgm=2
expect "a GPU that no rank has is the host's, with its UUID" eval 'grep -q "^fail: preflight/of:dcgm dcgm_failed" found && grep -q "GPU 2 GPU-fake-2, pcie:" judged'

# --- no report --------------------------------------------------------------------------------------------------------------
refused() { grep -qF "$1" judged && grep -q '^fail: preflight/of:dcgm dcgm_answers' found && ! grep -qE '^(fail|missing): preflight/of:dcgm_gpu' found; }
dcgm 'echo "Error: unable to establish a connection to the specified host: localhost"; exit 255'
judged 4 --dcgm=1
expect "without its server that is said once" refused 'is nv-hostengine running?'
dcgm 'exit 1'
judged 4 --dcgm=1
expect "so is a dcgmi that prints nothing" refused 'dcgmi diag -r 1: printed nothing'
dcgm "head -c 200 $scratch/good.json"
judged 4 --dcgm=1
expect "so is a report that breaks off" refused 'dcgmi diag -r 1: its report'
dcgm "cat $scratch/good.json; exit 9"
judged 4 --dcgm=1
expect "so is an exit code that nothing explains" refused 'exit code 9'
dcgm "trap 'echo stopped >$scratch/asked; exit 1' TERM; while :; do sleep 0.1; done"
judged 4 --dcgm=1 --timeout=2
expect "so is one that hangs, within the limit" refused 'timeout=S'
expect "  and it was told to stop its test" grep -qx stopped asked

rm bin/dcgmi
if ! command -v dcgmi >/dev/null; then
  judged 4 --dcgm=3
  expect "where it is not installed, that is a waiver" grep -q '^waived: preflight/of:dcgm.* dcgmi' found
fi
run 0 mpi -np 2 env -u SHAKEDOWN_ROOT -u SHAKEDOWN_NVML "$build/bench/bench_preflight" --backend=host --dcgm=1 --benchmark_filter=dcgm --benchmark_out=host.json
expect "without GPUs there is nothing to test" grep -q 'dcgmi diag tests GPUs, but no' host.json
run 2 "$build/bench/bench_preflight" --backend=host --dcgm=4
expect "a level that is none is refused" says "dcgm: '4' is not one of"
finish
