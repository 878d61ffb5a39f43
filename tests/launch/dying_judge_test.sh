#!/usr/bin/env bash
# accept, with a judge that dies of a signal. It must end with the verdict of the raw rows and keep the results.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
hide_gpus
accept=(env SHAKEDOWN_RANKS=1 SHAKEDOWN_RESULTS="$scratch/results" LD_PRELOAD="$build/tests/libdying_judge.so"
  "$build/bin/shakedown" accept --families=jitter --allow-faults)
run 3 "${accept[@]}" --junit="$scratch/junit.xml"
expect "it is INCOMPLETE, in the last line" grep -q '^VERDICT: INCOMPLETE 0/1 ' <(tail -n 1 out)
expect "  which says why" grep -q 'SIGSEGV, results kept' out
expect "  in every report" grep -q 'SIGSEGV' junit.xml
expect "  and in verdict.json" grep -q '"verdict": "incomplete"' results/latest/verdict.json
expect "the results are there" test -s results/latest/jitter.json
run 3 "$build/bin/shakedown" report --results="$scratch/results/latest" --families=jitter --allow-faults
expect "and can be judged later" grep -q '^VERDICT: PARTIAL ' out
finish
