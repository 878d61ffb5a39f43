#!/usr/bin/env bash
# The ledger as people use it: what was done to nodes, their states, return to service, and folders that cannot be written.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
shakedown=$build/bin/shakedown
cd "$scratch" || exit 1
mkdir ledger
export SHAKEDOWN_LEDGER=$scratch/ledger

# record DAY FAULT: a generated run of the node demo as an event.
record() {
  "$shakedown" demo --out="run$1" --fault="$2" >/dev/null
  sed -i "s/\"run_id\": *\"demo\"/\"run_id\": \"run$1\"/; s/\"started\": *\"[^\"]*\"/\"started\": \"2026-03-0$1T06:00:00Z\"/" "run$1"/*.json
  "$shakedown" ledger add --results="run$1" --allow-faults
}
run 3 "$shakedown" history
expect "an empty ledger is no proof" prints '^LEDGER: 0 nodes$'
record 1 none
record 2 slow-hbm
echo spare >roster
run 1 "$shakedown" history --roster=roster
expect "a node that failed is bad, with its GPU" prints '^demo +bad +2026-03-02 +FAIL 2026-03-02 +0 of 2 good runs .*demo GPU 3'
expect "a node of the roster is never tested" prints '^spare +never tested '
expect "  and both are counted" prints '^LEDGER: 2 nodes: 1 bad, 1 never tested$'
run 1 "$shakedown" retest demo
expect "its retest reserves the node and loads what failed" prints '^sbatch --reservation=shakedown_demo --nodelist=demo --array=1-2%1 .* --families=[a-z,]*hbm[a-z,]* --tier=quick --ledger=/'
sed -i.kept 's/"tier":"quick"/"tier":"gate"/' ledger/*.json
run 1 "$shakedown" retest demo
expect "  after a failed gate with the rows of the quick tier" eval 'prints "^sbatch .*hbm" && ! prints "--tier="'
for kept in ledger/*.kept; do mv "$kept" "${kept%.kept}"; done
record 3 none
run 1 "$shakedown" retest demo
expect "one good run is no proof" prints '^# demo: bad .*; 1 of 2 good'
record 4 none
run 0 "$shakedown" history demo --json=demo.json --prometheus=demo.prom
expect "after two it is good" prints '^demo: good since 2026-03-04'
expect "  and its runs are listed" prints '^2026-03-02T06:00:00Z +demo +FAIL +bad '
expect "as JSON" python3 -c 'import json; d = json.load(open("demo.json")); assert d["nodes"][0]["state"] == "good" and len(d["gpus"]) == 8 and len(d["courses"][0]["values"]) == 4'
expect "for Prometheus" grep -q '^shakedown_node_state{node="demo",state="good"} 1$' demo.prom
run 0 "$shakedown" history demo-3 --all
expect "a GPU is found by its serial number" prints '^GPU demo-3 is GPU 3 .* 2026-03-01'
expect "  with its figures" prints '^demo-3 hbm/op:copy/.* hbm_gb_per_s: '
run 0 "$shakedown" history hbm
expect "a metric has the figures of all GPUs" prints '^[0-9]+ figures .* 4 runs: '
run 2 "$shakedown" history hbmm
expect "what is none of these is refused" says 'history: "hbmm" is no node, GPU or metric of the ledger'

run 0 "$shakedown" ledger add --node='demo,n[1-2]' --event=drained --reason="fan"
run 1 "$shakedown" history
expect "nodes are drained with a reason" eval '[[ $(grep -cE "^(demo|n[12]) +drained .* fan " out) == 3 ]]'
run 0 "$shakedown" ledger add --node=demo --event=repaired --reason="new fan"
sed -i 's/2026-03-0[0-9]T/2099-03-01T/' run3/*.json run4/*.json
for i in 3 4; do sed -i "s/\"run$i\"/\"proof$i\"/" "run$i"/*.json; "$shakedown" ledger add --results="run$i" --allow-faults; done
run 0 "$shakedown" retest demo
expect "a repaired node with its proof returns by command" prints '^scontrol update nodename=demo state=undrain$'
expect "  and the ledger is told" prints '^shakedown ledger add --event=returned --node=demo --ledger=/'
run 3 "$shakedown" history demo
expect "a repair is shown with its proof" prints '^repair of .*: new fan; before: FAIL 2026-03-02 \(run run2\); after: PASS .*\(run proof3\) PASS .*\(run proof4\)'
run 0 "$shakedown" history --due=10000
expect "nodes that are due are printed alone, never tested ones first" eval '[[ $(paste -sd" " out) == "n1 n2" ]]'

run 2 "$shakedown" ledger add --node='a b' --event=drained
expect "a node that is no host name is refused" says '^error: --node: "a b" is not a host name'
run 2 "$shakedown" ledger add --node=n1
expect "an event without its kind is refused" says '^error: ledger add: give --event and --node, or --results'
run not0 "$shakedown" accept --ledger="$PWD/none" --results="$PWD/results"
expect "a missing ledger is refused before the measurement" says 'none: is not'
expect "  and nothing was measured" [ ! -e results ]

# A writer that is killed leaves nothing that is read.
mkdir killed
for i in {1..40}; do timeout -s KILL "0.0$((i % 10))$i" "$shakedown" ledger add --ledger=killed --node="k$i" --event=drained; done 2>/dev/null
whole=$(find killed -name '*.json' | wc -l)
run not0 "$shakedown" history --ledger=killed
expect "killed writers: $whole whole events, $(find killed -name '*.tmp' | wc -l) in part" eval '[[ ! -s err ]] && prints "^LEDGER: $whole node"'

echo '{"schema":1' >ledger/20260301T060000Z-n1-run-x.json
run 1 "$shakedown" history
expect "a file that is no event is named" says '20260301T060000Z-n1-run-x.json: is not JSON; '
run 3 "$shakedown" retest n1
expect "  and its node is not returned" says 'failure of n1'

if unshare --mount true 2>/dev/null; then
  # unwritable WHY: adds an event to a folder of 8 kB after WHY.
  unwritable() { run 3 unshare --mount bash -c "mkdir -p m && mount -t tmpfs -o size=8k tmpfs m && $1; exec \"\$0\" ledger add --ledger=m --node=n1 --event=drained" "$shakedown"; }
  unwritable 'mount -o remount,ro m'
  expect "a folder that is read-only is named in one line" eval '[[ $(wc -l <err) == 1 ]] && says "^shakedown: --ledger: m: .*Read-only file system"'
  unwritable 'head -c 8k /dev/zero >m/full'
  expect "  and one that is full" eval '[[ $(wc -l <err) == 1 ]] && says "^shakedown: m/.*-n1-drained-.*: .*No space left on device"'
fi
finish
