#!/usr/bin/env bash
# Flags and verbs as users type them: help, versions, typos, wrong usage, values after a blank, the width of tables.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
unset COLUMNS SHAKEDOWN_THRESHOLDS
shakedown=$build/bin/shakedown stored=$root/tests/data/h200-sxm-4ranks-full/1

mkdir empty
run 2 "$shakedown" roll
expect "the old name of a verb is refused with its new one" eval 'says "roll is now called discover" && [[ $(wc -l <err) == 1 ]]'
for typo in "acept|unknown verb .acept. .did you mean accept\?." "baseline creat --out=x|unknown action .creat. .did you mean create\?." \
  "accept --familes=gemm|unknown flag .--familes=gemm.; see --help .did you mean --families\?." \
  "report --result=x|did you mean --results\?" "accept --tolerance=-1|--tolerance: .-1. must be at least 0" \
  "report --width=1 --results=x|--width: .1. must be a number of columns, at least 40" "accept --family=gemm|--family is now called --families" \
  "nodes --scontrol --kubectl --results=x|--scontrol and --kubectl cannot be combined" "repotr|unknown verb .repotr. .did you mean report\?." \
  "accept --families=gem|.gem. is not one of .*.did you mean gemm\?." "report --results=$stored --families=hbn|--families: .hbn. is not a family .did you mean hbm\?." \
  "report --results=$stored --thresholds=h200-smx|--thresholds: h200-smx: no such file .did you mean h200-sxm\?." \
  "report --results --all|--results: needs a value: --results=F" "nodes --width 39 --results=x|--width: .39. must be a number of columns, at least 40" \
  "baseline|baseline: an action is missing" "archive --results=$stored/gemm.json|is a file; archive packs the folder of a run" \
  "archive --results=nosuch|nosuch: no such folder" "measure --for=8m|--for: measure does not take it; it is a flag of accept" "baseline --out=x|unknown action" \
  "versoin|unknown verb .versoin. .did you mean version\?." "hlep|.did you mean help\?." "--hlep|a verb is missing before .--hlep. .did you mean --help\?." \
  "accept --gate=0|--gate: .0. must be seconds from 5 to 600" "accept --gate=abc|--gate: .abc. must be seconds" "accept --gate=2|--gate: .2. must be" \
  "accept --gate=10 --tier=full|--gate and --tier cannot be combined" "accept --gate=10 --families=pcie|--families: pcie is not in a gate" "accept --families=storage|storage needs --storage-dir=DIR" "accept --waiting=7|--waiting needs --gate" "accept --gate=10 --waiting=7 --families=p2p|--families: p2p is not in" "accept --gate=10 --waiting=0|--waiting: .0. must be ids of processes" \
  "accept --gate=10 --dcgm=1|--gate and --dcgm cannot" "accept --gate=10 --limit=5|--gate and --limit cannot" "measure --gate=10|--gate: measure does not take it" \
  "accept --tier=gate|--tier: .gate. is not one of quick, full" \
  "launch --ranks=2|launch: --ranks=2 is not a program" "accept --again --results=empty|--again: empty/latest has no verdict of an earlier run" \
  "history --ledger=empty --due=7 node1|--due lists nodes, so it takes no node" "retest nosuch --ledger=empty|retest: .nosuch. has no event in" \
  "claim --node=a|it is a flag of ledger add" "accept --folder=$stored|has files that belong to no run" \
  "accept --tier=ful|.ful. is not one of quick, full .did you mean full\?." "rehearse --hosts=2 --noise=mixd|.did you mean mixed\?." \
  "help nodse|unknown verb .nodse. .did you mean nodes\?." "regress --min-effect=2|--min-effect: .2. must be above 0"; do
  # shellcheck disable=SC2086  # words
  run 2 "$shakedown" ${typo%%|*}
  expect "wrong usage is refused in one line: ${typo%%|*}" eval '[[ $(wc -l <err) == 1 ]] && says "^error: .*${typo##*|}"'
done
for asked in help -h --help "help|VERB .flags.$" "accept -h|accept .flags.$" "help accept|accept .flags.$" "nodes --results=x --help|nodes " "launch -h|launch PROGRAM" "baseline -h|baseline merge "; do
  # shellcheck disable=SC2086  # words
  run 0 "$shakedown" ${asked%|*}
  expect "help by ${asked%|*}" eval '[[ $asked != *"|"* ]] && prints "^usage: shakedown VERB .flags.$" || prints "^usage: shakedown ${asked#*|}"'
done
run 0 "$shakedown" nodes -h
expect "the help of a verb has its flags alone, in groups" eval 'prints "^output:$" && prints "^  --scontrol  *print Slurm commands" && ! prints "--tier|--explain"'
for asked in version -V --version "report -V" "accept --version"; do
  # shellcheck disable=SC2086  # words
  run 0 "$shakedown" $asked
  expect "the version by $asked" prints '^shakedown [0-9.]+'
done
run 0 "$shakedown" report --results "$stored" --thresholds h200-sxm --verdict spaced.json
expect "a value may be the next word, and a profile is found by its name" eval 'prints "^VERDICT: PASS .*profile h200-sxm" && grep -q "\"verdict\": \"pass\"" spaced.json'
COLUMNS=64 run 0 "$shakedown" report --results="$stored"
cp out narrow
run 0 "$shakedown" report --results="$stored" --width=64
expect "tables are as wide as the terminal" eval 'cmp -s out narrow && ! cmp -s out <("$shakedown" report --results=$stored)'
"$shakedown" report --results="$stored" --verdict=stored.json >/dev/null && cp stored.json kept.json
run 2 "$shakedown" report --verdict=stored.json --html=stored.json
expect "no output replaces the stored verdict that it shows" cmp stored.json kept.json
mkdir -p fleet/node1/run && cp "$stored"/*.json fleet/node1/run && cp fleet/node1/run/gemm.json kept
run 2 "$shakedown" report --results="$stored" --verdict=fleet/node1/run/gemm.json
expect "no output replaces results of another run" eval 'says "^error: --verdict: .*gemm.json has results" && cmp kept fleet/node1/run/gemm.json'
run 3 "$shakedown" fleet --results=fleet --csv=nosuch/x.csv
expect "a file that cannot be written does not cost the verdict of a fleet" eval 'prints "^FLEET: PASS" && says "nosuch/x.csv: "'
run 0 "$shakedown" help help
expect "help helps with itself" prints "^usage: shakedown VERB"
head -c 3000 /dev/urandom >random.tar && : >signers
run 1 "$shakedown" verify random.tar --signers=signers
expect "a certificate of random bytes is refused in printable words" eval 'LC_ALL=C prints "^REFUSED random.tar: [ -~]*$" && [[ $(wc -c <out) -lt 200 ]]'
run 2 "$shakedown" fleet --results=fleet --json=fleet/node1/run/gemm.json
expect "no file of a fleet is written over a result of it" eval 'says "^error: --json: the file is input" && cmp kept fleet/node1/run/gemm.json'
run 2 "$shakedown" report --results nosuch --verdict spaced.json
expect "  and such an old report is replaced as well" grep -q '"verdict": "incomplete"' spaced.json
run 2 "$shakedown" accept --families=preflight --backend=virtual --chip=h300 --results=runs
expect "what ranks refuse is wrong usage" says "^error: --chip: .h300. "
run 2 env SHAKEDOWN_INTERFACE=eth99 "$shakedown" accept --families=preflight --backend=host --results=runs
expect "an interface that this host lacks is wrong usage, and no fault of it" says "^error: --interface: .* eth99 .* lo"
SHAKEDOWN_RANKS=0 run 2 "$shakedown" accept --families=preflight --backend=host --results=runs
expect "a wrong number of ranks too" says "^error: SHAKEDOWN_RANKS=0 measures nothing"
echo 0123456789abcdef >others_may_read && chmod 644 others_may_read
for wrong in "SHAKEDOWN_SECRET=12345|has 5 characters" "SHAKEDOWN_SECRET_FILE=/nosuch|SHAKEDOWN_SECRET_FILE=/nosuch: " \
  "SHAKEDOWN_SECRET_FILE=others_may_read|only this user may read" "SHAKEDOWN_TIER=ful|SHAKEDOWN_TIER, which stands for --tier: .ful. is not one of" \
  "SHAKEDOWN_DESPITE_PREFLIGHT=maybe|SHAKEDOWN_DESPITE_PREFLIGHT=maybe is neither 1 nor 0"; do
  run 2 env "${wrong%%|*}" "$shakedown" accept --families=preflight --backend=host --results=never
  expect "a wrong value is refused in one line before anything starts: ${wrong%%|*}" eval '[[ $(wc -l <err) == 1 && ! -e never ]] && says "^error: .*${wrong##*|}"'
done
SHAKEDOWN_SECRET=12345 run 2 "$build/bench/bench_jitter" --backend=host
expect "  and by a rank that a user starts" eval '[[ $(wc -l <err) == 1 ]] && says "has 5 characters"'
SHAKEDOWN_TIRE=full run 0 "$shakedown" report --results="$stored"
expect "an unknown variable is a warning with the most similar name" says "^shakedown: warning: SHAKEDOWN_TIRE .* SHAKEDOWN_TIER\?"
SHAKEDOWN_TIRE=full run 0 "$build/bench/bench_jitter" --backend=host --benchmark_list_tests
expect "  also of a program that a user starts" eval '[[ $(grep -c SHAKEDOWN_TIRE err) == 1 ]]'
finish
