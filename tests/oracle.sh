#!/usr/bin/env bash
# Everything that the judge says of what is stored, in files that diff can compare: a change of the structure must not
# change them, and of a change of meaning they show each difference.
#
#   tests/oracle.sh BUILD OUT [DATA]      DATA: the source tree with the stored runs (default: the tree of this script)
#   diff -r OLD NEW                       with OLD made by the build of an earlier commit, on the same DATA
#
# Of every stored run: the table, verdict.json, --explain of every sixth of its keys and the exit codes; each broken sample;
# baselines against each other. Paths and times are left out.
set -uo pipefail

[[ $# -ge 2 ]] || { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
tree=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$(readlink -f "$1")
mkdir -p "$2"
out=$(readlink -f "$2")
data=$(readlink -f "${3:-$tree}")
shakedown=$build/bin/shakedown
[[ -x $shakedown ]] || shakedown=$build/report/shakedown  # of an older commit
cd "$data" || exit 2

# Rules are named by file and line, and those move when a profile is written differently.
plain() {
  sed -E "s#(/[^ ,\":]*)?/thresholds/([a-z0-9-]+\.yaml):[0-9]+#\2#g; s#$build#BUILD#g; s# \([0-9]+ ms( total)?\)##; /^\[-+\]/d"
}
keep() {  # NAME COMMAND...: its output and exit code
  local name=$1 code=0
  shift
  "$@" >"$out/$name.raw" 2>&1 || code=$?
  { plain <"$out/$name.raw"; echo "exit code $code"; } >"$out/$name.txt"
  rm "$out/$name.raw"
}
keys_of() { grep -ho '"run_name": *"[^"]*"' "$1"/*.json | sed -E 's/.*: *"([^"]*)"/\1/; s#/(manual_time|repeats:.*|iterations:.*)##g' | sort -u; }

judge() {  # NAME RESULTS
  keep "$1.report" "$shakedown" report --results="$2" --verdict="$out/$1.raw.json"
  plain <"$out/$1.raw.json" >"$out/$1.verdict.json" && rm "$out/$1.raw.json"
  keep "$1.acceptance" "$build/tests/acceptance_test" --results="$2" --gtest_brief=0
  keep "$1.nodes" "$shakedown" nodes --results="$2"
}

for run in ci/baselines/*/*ranks ci/baselines/*/*ranks/[0-9] tests/data/*; do
  compgen -G "$run/*.json" >/dev/null || continue
  name=${run//\//.}
  if [[ $run == tests/data/broken || $run == tests/data/preflight ]]; then
    for file in "$run"/*.json; do judge "$name.$(basename "$file" .json)" "$file"; done
    continue
  fi
  judge "$name" "$run"
  # An explanation reads the run again: every sixth key shows each family and kind of rule.
  while read -r key; do
    "$shakedown" report --results="$run" --explain="$key" 2>&1 | plain
  done < <(keys_of "$run" | awk 'NR % 6 == 1') >"$out/$name.explain.txt"
done
for baseline in ci/baselines/*/*ranks/1; do
  for now in "$(dirname "$baseline")"/[2-9]; do
    [[ -d $now ]] && keep "${now//\//.}.against.1" "$shakedown" report --results="$now" --baseline="$baseline"
  done
done
echo "oracle: $(find "$out" -type f | wc -l) files in $out" >&2
