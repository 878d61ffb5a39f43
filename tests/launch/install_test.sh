#!/usr/bin/env bash
# An installed copy that was moved: it is complete and does not contain the path of the build.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
run 0 cmake --install "$build" --prefix "$scratch/first"
mv first moved
expect "it has bin, lib and the profiles" test -x moved/bin/shakedown -a -d moved/lib -a -s moved/share/shakedown/thresholds/h200-sxm.yaml
expect "  and a program for each family, and for all" eval '[[ $(ls moved/bin/bench_* | wc -l) -eq $(($(wc -l <moved/share/shakedown/families) + 1)) ]]'
expect "nothing in it names the tree that it was built from" eval '! grep -rlF -e "$root/" -e "$build/" moved'
cuda=$(sed -n 's/^SHAKEDOWN_CUDA_FOLDERS:INTERNAL=//p' "$build/CMakeCache.txt")
IFS=';' read -ra folders <<<'$ORIGIN/../lib'"${cuda:+;$cuda}"
for program in moved/bin/*; do
  paths=$(objdump -p "$program" | awk '$1 == "RUNPATH" || $1 == "RPATH" { print $2 }')
  expect "${program##*/} looks for libraries next to itself, then where CUDA's are" test "$paths" = "$(IFS=: && echo "${folders[*]}")"
  expect "  and finds them from an empty environment" eval '! env -i ldd "$program" | grep "not found"'
  expect "  and needs none that only the CUDA backend uses" eval '! grep -q libcublas <(ldd "$program")'
done
# The CUDA backend loads these by name from the same folders.
loaded=$(sed -n 's/^SHAKEDOWN_CUDA_LOADED:INTERNAL=//p' "$build/CMakeCache.txt")
for library in ${loaded//;/ }; do
  expect "$library is there" eval '[[ -n $(find -L "${folders[@]:1}" -name "$library") ]]'
done
# A program linked with one NCCL version may call functions that another version lacks.
linked=$(sed -n 's/^NCCL_LIBRARY:FILEPATH=//p' "$build/CMakeCache.txt")
for program in {"$build",moved}/*/bench_all; do
  [[ -n ${cuda:-} ]] || break
  found=$(env -i ldd "$program" | awk '$1 ~ /^libnccl/ { print $3 }')
  expect "$program finds the NCCL that it was linked with" test "$(readlink -f "$found")" = "$(readlink -f "$linked")"
done
run 0 env -i moved/bin/shakedown report --results="$root/tests/data/h200-sxm-4ranks-full/1"
expect "it judges by its own profiles" prints '^VERDICT: PASS .*profile h200-sxm'
run 1 env -i moved/bin/shakedown demo --out=demo
expect "it shows a demo" prints "^VERDICT: FAIL .*profile h200-sxm"
run 0 env -i moved/bin/shakedown inventory
expect "it says what this machine is made of" prints '^  CPU '
mkdir work
(cd work && run 0 env -i OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SHAKEDOWN_RANKS=2 ../moved/bin/shakedown accept --families=preflight)
expect "it measures from an empty environment into the working folder" eval '[[ -s work/results/latest/preflight.json ]] && prints "^VERDICT: HOST-ONLY"'
finish
