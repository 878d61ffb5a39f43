#!/usr/bin/env bash
# The family storage as a program: two ranks, four hosts in namespaces of which one has a slow mount, and folders that are full,
# read-only, missing, vanishing or on a server that does not answer.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2054
source "$(dirname "$0")/../shell.bash"
here=$(dirname "$(readlink -f "$0")")
needs mpirun
hide_gpus
cd "$scratch" || exit 1
export SHAKEDOWN_RUN_ID=storage-test
bench=$build/bench/bench_storage
streams='--benchmark_filter=op:(write|read)'
mkdir disk
two=(mpi -np 2 "$bench" --backend=host)
left_nothing() { [[ -z $(ls -A "$1") ]]; }
judge() { "$build/tests/acceptance_test" --results="$1" --allow-faults --families=storage --gtest_brief=1 "${@:2}" >judged 2>&1; }

# --- two ranks ----------------------------------------------------------------------------------------------------------------
run 0 "${two[@]}" --storage-dir=disk --benchmark_out=two.json
for row in write/bytes:16777216 read/bytes:16777216 metadata/files:200 visible lock; do
  expect "two ranks measure $row" grep -q "\"name\": *\"storage/op:$row/iterations:1/manual_time\"" two.json
done
expect "  and leave no file" left_nothing disk
expect "the record says whether GPUDirect Storage is installed" grep -q 'GPUDirect Storage: no module nvidia_fs' two.json
judge two.json --all
expect "without a limit of the site, rates are shown and not judged" grep -qE 'storage/op:write.*write_gb_per_s' judged
expect "  and no finding fails" eval '! grep -qE "^(fail|missing|invalid)" judged'
limits() { printf 'schema: 2\nsite: here\nstorage: {read_gb_per_s: %s, write_gb_per_s: %s, source: a contract}\n' "$1" "$2" >site.yaml; }
limits 0.000001 0.000001
judge two.json --site=site.yaml
expect "rates above the limits of the site pass" eval '! grep -qE "^fail" judged'
limits 1000000 0.000001
judge two.json --site=site.yaml
expect "a rate below the limit of the site fails" grep -q '^fail: storage/op:read' judged
expect "  and only that" eval '! grep -q "^fail: storage/op:write" judged'

run 0 "$bench" --backend=host --benchmark_out=none.json
expect "without a folder, the row says how to ask for it" grep -q 'waived: .*--storage-dir=DIR' none.json

SHAKEDOWN_RANKS=2 run 0 "$build/bin/shakedown" accept --backend=host --families=storage --storage-dir=disk --plan
expect "the plan of an acceptance has the rows" prints '^storage/op:read/bytes:16777216 '
SHAKEDOWN_RANKS=2 run 3 "$build/bin/shakedown" accept --backend=host --families=storage --storage-dir=disk --results=results --allow-faults
expect "an acceptance measures them" prints '^VERDICT: PARTIAL .*families, as asked'
expect "  and leaves no file" left_nothing disk

# --- folders that cannot be used --------------------------------------------------------------------------------------------------
one_line() { [[ $(grep -cE "$1" err) == 1 ]]; }
run 2 "$bench" --backend=host --storage-dir=/nonexistent
expect "a missing folder is refused in one line" one_line '/nonexistent: .*--storage-dir'

(while [[ -z $(ls -A disk) ]]; do sleep 0.05; done && sleep 0.3; until rm -rf disk/* disk/.??* 2>/dev/null; do :; done) &
run not0 "${two[@]}" --storage-dir=disk "$streams" --benchmark_repetitions=20
wait
expect "a folder that vanishes fails the row in one line" prints 'rank [01] .*disk/.*No such file.*--storage-dir'
expect "  and leaves no file" left_nothing disk

namespaces
mkdir small
# Runs a command, which follows the options of mount, with a tmpfs at ./small.
in_mount=(unshare --mount bash -c 'mount -t tmpfs -o "$0" tmpfs small && "$@"')
run 2 "${in_mount[@]}" size=8m "$bench" --backend=host --storage-dir=small
expect "a folder without space is refused before the measurement" says 'small: has [0-9.e-]+ GB .*--storage-dir'
read_only='mount -o remount,ro small && exec "$@"'
run 2 "${in_mount[@]}" size=64m bash -c "$read_only" - "$bench" --backend=host --storage-dir=small
expect "a read-only folder is refused in one line" one_line 'small: .*--storage-dir'
# Takes nearly all space while the rank has removed its file.
fill='(while [[ -z $(ls -A small) ]]; do sleep 0.01; done; until head -c 50m /dev/zero >small/other; do :; done) 2>/dev/null & "$@"
  code=$?; wait; rm small/other; ls -A small >left; exit $code'
run not0 "${in_mount[@]}" size=64m bash -c "$fill" - "$bench" --backend=host --storage-dir=small "$streams" --benchmark_repetitions=20
expect "a disk that becomes full fails the row in one line" prints 'No space left.*--storage-dir'
expect "  and leaves no file" test ! -s left

# --- a server that does not answer --------------------------------------------------------------------------------------------
if has python3; then
  mkdir dead
  began=$SECONDS
  SHAKEDOWN_LIMITS_SCALE=0.1 limit=60 run not0 unshare --mount python3 "$here/../faults/dead_mount.py" "$scratch/dead" \
    "$bench" --backend=host --storage-dir="$scratch/dead"
  expect "a server that does not answer ends the program in one line" one_line "dead[^ ]* does not answer, 2 s"
  expect "  in time" test $((SECONDS - began)) -lt 20
fi

# --- four hosts, one of which has a slow path to the storage ----------------------------------------------------------------------
if has bindfs; then
  printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nhost=$1\nshift\nslow=true\n[[ $host != nodec ]] || slow="bindfs --read-rate=16M --write-rate=16M %s %s"\nexec unshare --uts --ipc --mount bash -c "hostname $host && mount -t tmpfs tmpfs /dev/shm && $slow && $*"\n' \
    "$scratch/disk" "$scratch/disk" >agent
  chmod +x agent
  four=(mpirun --bind-to none --oversubscribe --host nodea:1,nodeb:1,nodec:1,noded:1 --mca plm_rsh_agent "$scratch/agent"
    -np 4 -x SHAKEDOWN_RUN_ID -x SHAKEDOWN_SYSFS "$bench" --backend=host --storage-dir="$scratch/disk")
  limit=300 run 0 "${four[@]}" "$streams" --benchmark_out="$scratch/four.json"
  limits 0.02 0.02
  judge four.json --site=site.yaml
  expect "the host with the slow path is named" grep -qE '^fail: storage/op:(write|read)' judged
  expect "  by its name" grep -q nodec judged
  expect "  and no other host" eval '! grep -q "node[abd]" <(grep -E "^(slow node|[ a-z]*fail)" judged)'
  expect "  and no file is left" left_nothing disk
  limit=300 run not0 "${four[@]}" '--benchmark_filter=op:lock' --benchmark_repetitions=3
  expect "a lock that one host takes only for itself fails the row" prints 'op:lock.*ERROR'
fi
finish
