#!/usr/bin/env bash
# CPU cores that feed GPUs, on real ranks: reports a rank that shares its core with other work, and no rank if all of them do.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
needs taskset mpirun
cd "$scratch" || exit 1
limit=300
export SHAKEDOWN_RUN_ID=jitter-test
ranks=3 victim=1
# The cores that this test can use, one for each rank.
mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done)
[[ ${#cores[@]} -ge $ranks ]] || { echo "SKIP: $ranks cores are needed" && exit 77; }
# shellcheck disable=SC2016
printf '#!/bin/bash\ncores=(%s)\nexec taskset -c "${cores[$OMPI_COMM_WORLD_LOCAL_RANK]}" "$@"\n' "${cores[*]}" >pinned
chmod +x pinned
measure() { run 0 mpi -np $ranks ./pinned "$build/bench/bench_jitter" --backend=host --benchmark_out="$1"; }
judge() { "$build/tests/acceptance_test" --results="$1" --families=jitter --gtest_brief=1 >judged 2>&1; }

hogs=()
trap '[[ ${#hogs[@]} -eq 0 ]] || kill "${hogs[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT
hog() { taskset -c "$1" bash -c 'while :; do :; done' & hogs+=($!); }
rest() { kill "${hogs[@]}" && wait "${hogs[@]}" 2>/dev/null; hogs=(); }

# One rank shares its core with eight other processes. If other work keeps all cores equally busy, the fault cannot be
# detected. After three attempts only the rest of the test runs.
stolen() { sed -n 's/.*"stolen": *\[\([^]]*\)\].*/\1/p' busy.json | tail -n 1 | tr -d ' '; }
differs() { stolen | awk -F, -v v=$((victim + 1)) '{ for (i = 1; i <= NF; i++) if (i != v && $i > most) most = $i; exit !($v > most + 0.4) }'; }
for _ in 1 2 3 4 5 6 7 8; do hog "${cores[victim]}"; done
alone=no
for _ in 1 2 3; do
  measure busy.json
  judge busy.json
  ! differs || { alone=yes && break; }
done
rest
if [[ $alone == yes ]]; then
  expect "the rank whose core is busy is named" grep -qE "^busy core( \(warning\))?: rank $victim," judged
  # Long lines are wrapped.
  expect "  with the cause" grep -q 'other threads' <(tr -s '\n ' ' ' <judged)
  expect "  and nobody else" eval '! grep -qv ": rank $victim," <(grep -E "^busy core" judged)'
  expect "  after a second look" grep -q 'jitter/op:fwq/quanta:100/turn:2' busy.json
else
  echo "not tried: other work has all cores as busy as the one that was to be ($(stolen) of them was taken)"
fi

for _ in 1 2 3 4; do for core in "${cores[@]:0:ranks}"; do hog "$core"; done; done
measure crowded.json
judge crowded.json
expect "nobody is named where all share alike" eval '! grep -q "^busy core" judged'
expect "  and what was taken is in the results" grep -q '"stolen"' crowded.json
rest

run 0 mpi -np 2 "$build/bench/bench_launch" --backend=host --benchmark_out=launch.json
expect "a machine without kernels says so" grep -q 'launch of a kernel is not implemented' launch.json
"$build/tests/acceptance_test" --results=launch.json --families=launch >launched 2>&1
expect "  and is not failed for it" eval '! grep -qE "^(fail|missing|invalid): launch/" launched'
finish
