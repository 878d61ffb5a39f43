#!/usr/bin/env bash
# The README tells the truth: its commands run, the files that it names are there, its exit codes are the programs'.
# shellcheck source-path=SCRIPTDIR source=shell.bash disable=SC2016
source "$(dirname "$0")/shell.bash"
cd "$scratch" || exit 1
mkdir build
for entry in "$build"/*; do [[ ${entry##*/} == results || ${entry##*/} == lock ]] || ln -s "$entry" build/; done
ln -s "$root"/{bench,ci,docs,kernels,tests,thresholds,fixtures,node,report} .

for file in $(grep -oE '\]\([a-z][^):]*\)' "$root/README.md" | tr -d '](' | tr -d ')'); do
  expect "the README's link to $file leads somewhere" test -e "$file"
done

# What its commands need: a finished run of the host backend. Where the build has one, a copy; never its own folder, which
# an acceptance may be filling beside this test.
if [[ -s $build/results/verdict.json ]]; then
  cp -r "$build/results" build/
else
  "$root/ci/measure" build begin && "$root/ci/measure" build gemm && "$root/ci/measure" build allreduce
fi

# Commands in its shell blocks, except those that set up a machine, judge it as a whole, or need a cluster.
commands=$(awk '/^```sh/{inside=1; next} /^```/{inside=0} inside' "$root/README.md" | sed 's/ *#.*//' | grep -E '^(build/|mpirun )')
expect "the README shows commands" test "$(wc -l <<<"$commands")" -ge 5
# A machine with one GPU has room for one rank.
[[ $(grep -ls '^0x10de' /sys/bus/pci/devices/*/vendor | wc -l) -ne 1 ]] || commands=${commands//-np 2/-np 1}
while IFS= read -r command; do
  limit=120
  code=0
  timeout "$limit" bash -c "${command/mpirun/mpi}" >out 2>err </dev/null || code=$?
  # acceptance_test on one benchmark of a family says FAIL, as it should: the others are missing.
  expect "it runs: $command" eval '[[ $code -eq 0 || ($code -eq 1 && "$command" == *acceptance_test*) ]]'
done <<<"$commands"
finish
