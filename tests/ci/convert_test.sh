#!/usr/bin/env bash
# ci/convert_results on a made-up result of schema 1 that says everything in words, and on stored files.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
command -v python3 >/dev/null || { echo "python3 is missing: nothing is converted" && exit 0; }

rank() { echo "{\"rank\": $1, \"host\": \"node\", \"local_rank\": $1, \"device\": \"NVIDIA H200\"}"; }
row() { echo "{\"name\":\"gemm/m:$1/manual_time\",\"run_type\":\"iteration\",\"time_unit\":\"us\",\"real_time\":1.50e1,$2}"; }
cat >old.json <<END
{
"context": {
  "shakedown": {
    "schema": 1, "suite": {"version": "0.1.0", "dirty": false, "build_type": "Release"}, "run_id": "run-1", "complete": true, "backend": "cuda", "tier": "quick",
    "world": {"size": 3, "hosts": 1}, "ranks": [$(rank 0), $(rank 1), $(rank 2)],
    "nccl": {"transport": "P2P,SHM", "fallbacks": "0 to 1 by SHM/direct/direct,1 to 0 by SHM/direct/direct and 7 more"}
  }
},
"benchmarks": [
$(row 1 '"copy_gbps":700.10,"by_rank":{"copy_gbps":[700.10,null,1e2],"throttled":[0.38,0,null]},"text_by_rank":{"model":["a","b",null],"throttle":["sw_power_cap 38 %, hw_thermal 2 %",null,null],"errors":[null,"ECC uncorrected +2; NVLink 3 CRC errors +1; XID 48, 3 times in 7 rows",null]}'),
$(row 2 '"by_rank":{"seconds":[1,2,3]},"text_by_rank":{"throttle":[null,null,null],"errors":[null,null,null]}'),
$(row 3 '"error_occurred":true,"error_message":"wrong data: rank 2 (node): block of rank 1 differs; also wrong: rank 0 (node)"'),
$(row 4 '"error_occurred":true,"error_message":"wrong data: rank 2 (node): 3 of 64; and 1 more ranks"'),
$(row 5 '"error_occurred":true,"error_message":"rank 0 (node) computed other bits than 1 of its peers"')
]
}
END
cp old.json new.json
run 0 "$root/ci/convert_results" new.json
for part in '"schema": 2' '"converted_from": 1' '"src": 1' '"via": "SHM/direct/direct"' '"links_left_out": 7' \
  '"copy_gb_per_s":700.10,"by_rank":{"copy_gb_per_s":[700.10,null,1e2],"throttled":[0.38,0,null]},"text_by_rank":{"model":["a","b",null]}' \
  '"throttle":{"sw_power_cap":[0.38,0,null],"hw_thermal":[0.02,0,null]}' \
  '"errors":{"ecc_uncorrected":[0,2,0],"nvlink_3_crc":[0,1,0],"xid_48":[0,3,0]},"errors_rows":7}' \
  '"real_time":1.50e1,"by_rank":{"seconds":[1,2,3]}},' '"wrong_ranks":[2,0]}'; do
  expect "it says $part" grep -qF -- "$part" new.json
done
expect "whose data were wrong is said only where all of them are known" test "$(grep -c wrong_ranks new.json)" = 1
expect "no row is added or split" test "$(grep -c '^{"name"' new.json)" = 5
run not0 "$build/report/shakedown" report --results=new.json
expect "the judge reads it" prints 'XID 48 \(3 times, first in gemm/m:1\)'
run not0 "$build/report/shakedown" report --results=old.json
expect "and takes none of it from the words" eval '! prints "XID 48" && prints "is of schema 1: what held clocks down"'

cp new.json again.json
run 0 "$root/ci/convert_results" again.json
expect "what is converted is left alone" cmp -s new.json again.json

cp -r "$root/tests/data/h200-sxm-1rank" stored
before=$(verdict_of stored)
run 0 "$root/ci/convert_results" stored/*.json
expect "a stored run has the same verdict" test "$(verdict_of stored)" = "$before"

launches=$root/tests/data/h200-sxm-2ranks-launches.json
sed 's/_gb_per_s"/_gbps"/; s/"schema": 2/"schema": 1/' "$launches" >launches.json
run 0 "$root/ci/convert_results" launches.json
expect "a baseline has new names" cmp -s launches.json "$launches"

echo '{"inventory": {}}' >other.json
run 2 "$root/ci/convert_results" other.json missing.json
expect "what is no result is refused by name" says 'other.json: cannot be converted: it is neither a result nor a baseline'
finish
