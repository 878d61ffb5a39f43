#!/usr/bin/env bash
# shakedown tune with programs that print a stored run, whose AllReduce depends on NCCL's variables: planted costs and gains,
# settings that NCCL refuses, that crash and that hang, and wrong usage.
# shellcheck source-path=SCRIPTDIR source=../shell.bash source=front_door.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
source "$(dirname "$0")/front_door.bash"
unset "${!NCCL_@}"
tune=("$tree/bin/shakedown" tune '--sizes=8M,1G')
latest=$SHAKEDOWN_RESULTS/tune/latest

# The figures of a launch: GB/s that differ by up to 0.5 % at random, times what the setting costs.
cat >"$tree/bin/bench_allreduce" <<'END'
#!/bin/bash
"$(dirname "$0")/shakedown" event '{"event": "row", "key": "allreduce/of:all", "row": 1, "rows": 1}'
[[ ${NCCL_PROTO:-} != crash ]] || kill -SEGV $$
[[ ${NCCL_PROTO:-} != hang ]] || exec sleep 1000
for flag; do case $flag in --run-id=*) id=${flag#*=} ;; --sizes=*) sizes=${flag#*=} ;; esac; done
rows=
for bytes in ${sizes//,/ }; do
  percent=100
  [[ ${NCCL_MAX_NCHANNELS:-} != 1 ]] || percent=40
  [[ ${NCCL_ALGO:-} != Tree ]] || percent=110
  [[ ${NCCL_ALGO:-} != Ring ]] || percent=$((bytes > 10000000 ? 120 : 80))
  error=
  [[ ${NCCL_PROTO:-} != refused ]] || error='"error_occurred": true, "error_message": "NCCL: invalid usage",'
  rate=$(awk -v p="$percent" -v r=$RANDOM 'BEGIN { printf "%.4f", 4 * p * (1 + 0.005 * r / 32768) }')
  rows+=",{\"name\": \"allreduce/dtype:f32/bytes:$bytes/manual_time\", \"run_name\": \"allreduce\", \"run_type\": \"iteration\",
    \"repetitions\": 1, \"repetition_index\": 0, \"threads\": 1, \"iterations\": 1, \"real_time\": 1, \"cpu_time\": 1,
    \"time_unit\": \"ms\", $error \"busbw_gb_per_s\": $rate}"
done
echo "{"
python3 - "$id" "[${rows#,}]" "$STORED" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[3]))
document["context"]["shakedown"]["run_id"] = sys.argv[1]
document["benchmarks"] = json.loads(sys.argv[2])
print(json.dumps(document)[1:])
PYTHON
END
export STORED=$stored/allreduce.json

run 0 "${tune[@]}" --candidates=NCCL_ALGO=Tree,NCCL_ALGO=Ring,NCCL_PROTO=LL
expect "a faster setting is recommended with its gain" prints '^TUNE: recommended: NCCL_ALGO=Tree, \+(9|10)\.[0-9] % on average$'
expect "  by size, with an interval" prints '^ +1 GiB +\+(9|10)\.[0-9] %, 95 %: \+.* to \+.*: better$'
expect "a setting that wins in one size and loses in another is not" prints '^NCCL_ALGO=Ring: mixed$'
expect "a setting without effect is the same" prints '^NCCL_PROTO=LL: same$'
expect "the file for NCCL has the recommended line only" eval '[[ $(grep -v "^#" "$latest/nccl.conf") == NCCL_ALGO=Tree ]]'
expect "the JSON has the value of each launch" python3 - "$latest/tune.json" <<'END'
import json, sys
tuning = json.load(open(sys.argv[1]))
assert tuning["recommended"] == "NCCL_ALGO=Tree" and tuning["exit_code"] == 0
rounds = tuning["needed_rounds"]
assert tuning["rounds"] == rounds and len(tuning["defaults"]["busbw_gb_per_s"]["1073741824"]) == 2 * rounds
assert all(len(s["busbw_gb_per_s"]["8388608"]) == rounds for s in tuning["settings"])
END

run 1 env NCCL_MAX_NCHANNELS=1 NCCL_BUFFSIZE=8388608 "${tune[@]}" --candidates=NCCL_PROTO=LL
expect "a costly variable of the environment is priced" prints '^TUNE: NCCL_MAX_NCHANNELS=1 costs (59|60)\.[0-9] % at .*: unset it$'
expect "  and the others are measured without it" prints '^NCCL_PROTO=LL: same$'
expect "  and so is what they cost together" prints '^NCCL_MAX_NCHANNELS=1 NCCL_BUFFSIZE=8388608 \(in use\): slower$'
expect "a variable without effect is the same" prints '^NCCL_BUFFSIZE=8388608 \(in use\): same$'

run 0 "${tune[@]}" --candidates=NCCL_PROTO=refused,NCCL_PROTO=crash,NCCL_PROTO=LL
expect "a setting that NCCL refuses is not available" prints '^NCCL_PROTO=refused: not available: .*invalid usage'
expect "nor is one that crashes" prints '^NCCL_PROTO=crash: not available: .*(SIGSEGV|Segmentation)'
expect "  while the default is best" eval '! grep -v "^#" "$latest/nccl.conf"'
limit=60
run 0 "${tune[@]}" --candidates=NCCL_PROTO=hang,NCCL_PROTO=LL
expect "a setting that hangs ends in bounded time" prints '^NCCL_PROTO=hang: not available: .*longer than 15 s'
run 3 "${tune[@]}" --candidates=NCCL_PROTO=LL --time=1
expect "without enough time there is no answer" prints '^TUNE: INCONCLUSIVE: [0-9] of [0-9]+ rounds .*--time'
expect "  and no setting in the file" eval '! grep -v "^#" "$latest/nccl.conf"'

run 2 "${tune[@]/--sizes=8M,1G/--sizes=5}"
expect "a size that is none is refused" says "sizes: '5'"
run 2 "${tune[@]}" --candidates=NCCL_ALGO
expect "a candidate without a value is refused" says "candidates: 'NCCL_ALGO'"
run 3 env -u SHAKEDOWN_LAUNCH RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=4711 "${tune[@]}"
expect "ranks of another launcher cannot be started again" says 'unset these'
run 3 env SHAKEDOWN_LAUNCH=no-such-launcher "${tune[@]}"
expect "an absent launcher is named" says 'no-such-launcher'
run 3 env NCCL_PROTO=crash SHAKEDOWN_LAUNCH="env NCCL_PROTO=crash" "${tune[@]}"
expect "defaults that crash have no comparison" says 'measured|crashed'
finish
