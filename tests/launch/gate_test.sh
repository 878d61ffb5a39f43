#!/usr/bin/env bash
# accept --gate on the host backend: a healthy node, a slow rank, a rank that hangs or dies, and a gate without enough time.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
unset SHAKEDOWN_EXPECT SHAKEDOWN_RESULTS SHAKEDOWN_LEDGER "${!SLURM_@}"
export SHAKEDOWN_RANKS=2
accept=("$build/bin/shakedown" accept --backend=host --results=runs)
# gate CODE ARGUMENT...: runs a gate with this exit code; $took has its seconds.
gate() {
  local began=$SECONDS
  run "$1" "${accept[@]}" "${@:2}"
  took=$((SECONDS - began))
}

SHAKEDOWN_TIER=full gate 0 --gate=60
expect "a gate accepts a healthy node" prints '^VERDICT: HOST-ONLY .*, 2 ranks, gate of 5 of [0-9]+ families\)$'
expect "  within its time, and says how much of it was the start" eval '[[ $took -le 60 ]] && says "^shakedown: gate: the ranks started in [0-9.]+ s$" && says "^shakedown: gate: [0-9.]+ s in all$"'
expect "  of the families of a gate" eval '[[ $(cd runs/latest && ls *.json | tr "\n" " ") == "allreduce.json gemm.json hbm.json p2p.json preflight.json verdict.json " ]]'
expect "  in a tier of its own, whatever SHAKEDOWN_TIER is" eval 'grep -qE "\"tier\": ?\"gate\"" runs/latest/gemm.json && grep -q "\"gate\": true" runs/latest/verdict.json'
run 0 "$build/bin/shakedown" report --results=runs/latest
expect "  and its results give the same verdict again" prints '^VERDICT: HOST-ONLY .*gate of 5'

mkdir ledger
gate 0 --gate=60 --ledger=ledger
expect "without an accepted run in the ledger that is said" prints '^baseline: no accepted run'
expect "  and a good gate adds no event" eval '[[ -z $(ls ledger) ]]'

SHAKEDOWN_FAULT=slow:4@1 gate 0 --gate=60 --allow-faults
expect "a slow rank is named" prints '.warning.: rank 1, '
SHAKEDOWN_FAULT=corrupt@1 gate 1 --gate=60 --allow-faults --ledger=ledger
expect "wrong bits fail, with the rank" prints '^FAIL .*rank 1.*wrong data'
expect "  and are the only event in the ledger" eval '[[ $(ls ledger | wc -l) == 1 ]]'
SHAKEDOWN_FAULT=hang@1 gate 3 --gate=6 --allow-faults
expect "a rank that hangs makes the gate INCOMPLETE, with its row and the rank" eval 'prints "^VERDICT: INCOMPLETE" && prints "^INCOMPLETE .*--gate=6: .* in gemm/.*rank 1"'
expect "  in bounded time" test "$took" -le 14
expect "  and nothing is measured after it" eval '[[ ! -e runs/latest/hbm.json ]]'
SHAKEDOWN_FAULT=kill@1 gate 3 --gate=60 --allow-faults
expect "a rank that dies too" prints '^INCOMPLETE .* in gemm/.*rank 1 .*ended '
SHAKEDOWN_FAULT=hang@1:init gate 3 --gate=6 --allow-faults
expect "a rank that does not start too" eval 'prints "^VERDICT: INCOMPLETE" && [[ $took -le 14 ]]'
SHAKEDOWN_FAULT=slow:40@1 gate 3 --gate=8 --allow-faults
expect "a gate whose time does not suffice is INCOMPLETE, with the row" eval 'prints "^INCOMPLETE .*--gate=8: .* in .*/.*: (the time ended|timeout: .* not done after)" && [[ $took -le 16 ]]'
finish
