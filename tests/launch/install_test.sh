#!/usr/bin/env bash
# An installed copy: complete, moved, and without a word of where it was built.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
run 0 cmake --install "$build" --prefix "$scratch/first"
mv first moved
expect "it has bin, lib and the profiles" test -x moved/bin/shakedown -a -d moved/lib -a -s moved/share/shakedown/thresholds/h200-sxm.yaml
expect "  and a program for each family, and for all" eval '[[ $(ls moved/bin/bench_* | wc -l) -eq $(($(wc -l <moved/share/shakedown/families) + 1)) ]]'
expect "nothing in it names the tree that it was built from" eval '! grep -rlF -e "$root/" -e "$build/" moved'
for program in moved/bin/*; do
  paths=$(objdump -p "$program" | awk '$1 == "RUNPATH" || $1 == "RPATH" { print $2 }')
  expect "${program##*/} looks for libraries beside itself" test "$paths" = '$ORIGIN/../lib'
done
run 0 env -i moved/bin/shakedown report --results="$root/ci/baselines/h200-sxm/4ranks/1"
expect "it judges by its own profiles" prints '^VERDICT: PASS .*profile h200-sxm'
run 0 env -i moved/bin/shakedown inventory
expect "it says what this machine is made of" prints '^  CPU '
mkdir work
(cd work && run 0 env -i OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SHAKEDOWN_RANKS=2 ../moved/bin/shakedown accept --families=preflight)
expect "it measures from an empty environment into the working folder" eval '[[ -s work/results/latest/preflight.json ]] && prints "^VERDICT: HOST-ONLY"'
finish
