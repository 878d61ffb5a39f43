#!/usr/bin/env bash
# Writes everything that the judge says about stored runs to files, for a comparison with diff. A refactoring must not change
# them; after a change of behaviour they show each difference.
#
#   tests/oracle.sh BUILD OUT [DATA]      DATA: the source tree with the stored runs (default: the tree of this script)
#   diff -r OLD NEW                       with OLD made by the build of an earlier commit, on the same DATA
#
# For every stored run: the table, verdict.json, --explain of every sixth key, and exit codes. Also each broken sample, and
# baselines compared with each other. Omits paths and times.
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

# Removes the line numbers of rules, which change when a profile is reformatted.
plain() {
  sed -E "s#(/[^ ,\":]*)?/thresholds/([a-z0-9-]+\.yaml):[0-9]+#\2#g; s#$build#BUILD#g; s# \([0-9]+ ms( total)?\)##; /^\[-+\]/d"
}
keep() {  # NAME COMMAND...: keeps its output and exit code
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
  # An explanation reads the run again. Every sixth key covers each family and kind of rule.
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
