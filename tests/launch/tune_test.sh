#!/usr/bin/env bash
# shakedown tune with programs that print a stored run, whose AllReduce depends on NCCL's variables: planted costs and gains,
# settings that NCCL refuses, that crash and that hang, and wrong usage.
# shellcheck source-path=SCRIPTDIR source=../shell.bash source=front_door.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
source "$(dirname "$0")/front_door.bash"
unset "${!NCCL_@}" OMP_NUM_THREADS CUDA_DEVICE_MAX_CONNECTIONS
tune=("$tree/bin/shakedown" tune '--sizes=8M,1G')
latest=$SHAKEDOWN_RESULTS/tune/latest

# The figures of a launch: GB/s that differ by up to 0.5 % at random, times what the setting costs.
cat >"$tree/bin/bench_allreduce" <<'END'
#!/bin/bash
"$(dirname "$0")/shakedown" event '{"event": "row", "key": "allreduce/of:all", "row": 1, "rows": 1}'
[[ ${NCCL_PROTO:-} != crash ]] || kill -SEGV $$
[[ ${NCCL_PROTO:-} != hang ]] || exec sleep 1000
for flag; do case $flag in --run-id=*) id=${flag#*=} ;; --sizes=*) sizes=${flag#*=} ;; esac; done
rows= row=allreduce
[[ $0 != *collectives ]] || row=collectives/op:alltoall
for bytes in ${sizes//,/ }; do
  percent=100
  [[ ${NCCL_MAX_NCHANNELS:-} != 1 ]] || percent=40
  [[ ${NCCL_ALGO:-} != Tree ]] || percent=110
  [[ ${NCCL_ALGO:-} != Ring ]] || percent=$((bytes > 10000000 ? 120 : 80))
  error=
  [[ ${NCCL_PROTO:-} != refused ]] || error='"error_occurred": true, "error_message": "NCCL: invalid usage",'
  rate=$(awk -v p="$percent" -v r=$RANDOM 'BEGIN { printf "%.4f", 4 * p * (1 + 0.005 * r / 32768) }')
  rows+=",{\"name\": \"$row/dtype:f32/bytes:$bytes/manual_time\", \"run_name\": \"allreduce\", \"run_type\": \"iteration\",
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
# The training step: 1 % of noise at random, and what a variable costs.
echo train_step >>"$tree/share/shakedown/families"
cat >"$tree/bin/bench_train_step" <<'END'
#!/bin/bash
"$(dirname "$0")/shakedown" event '{"event": "row", "key": "train_step/of:all", "row": 1, "rows": 1}'
for flag; do case $flag in --run-id=*) id=${flag#*=} ;; --benchmark_filter=*) key=${flag#*=} ;; esac; done
percent=100
[[ ${OMP_NUM_THREADS:-} != 1 ]] || percent=70
[[ ${CUDA_DEVICE_MAX_CONNECTIONS:-} != 32 ]] || percent=108
echo "$key $percent" >>"$STEPS"
rate=$(awk -v p="$percent" -v r=$RANDOM 'BEGIN { printf "%.2f", 4000 * p * (1 + 0.01 * r / 32768) }')
echo "{"
python3 - "$id" "${key%?}" "$rate" "$STORED" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[4]))
document["context"]["shakedown"]["run_id"] = sys.argv[1]
document["benchmarks"] = [{"name": sys.argv[2] + "/manual_time", "run_name": "train_step", "run_type": "iteration", "repetitions": 1,
  "repetition_index": 0, "threads": 1, "iterations": 1, "real_time": 1, "cpu_time": 1, "time_unit": "ms",
  "tokens_per_s": float(sys.argv[3])}]
print(json.dumps(document)[1:])
PYTHON
END
chmod +x "$tree/bin/bench_train_step"
export STEPS=$scratch/steps
run 1 env OMP_NUM_THREADS=1 "${tune[@]}" --step --candidates=CUDA_DEVICE_MAX_CONNECTIONS=32,NCCL_PROTO=LL
expect "a variable that slows down the training step is priced" prints '^TUNE: OMP_NUM_THREADS=1 costs (29|30|31)\.[0-9] % '
expect "one that speeds it up is recommended" prints '^CUDA_DEVICE_MAX_CONNECTIONS=32: recommended$'
expect "  by tokens per second" prints '^ +step +\+[78]\.[0-9] %, 95 %: .* tokens/s, .*: better$'
expect "the table has the step and the sizes" prints '^NCCL_PROTO=LL +[+-]0\.[0-9]\?? +[+-]0\.[0-9]\?? +-$'
expect "the step variables are no lines of nccl.conf" eval '! grep -v "^#" "$latest/nccl.conf"'
expect "the JSON has the step of each launch" python3 - "$latest/tune.json" <<'END'
import json, sys
tuning = json.load(open(sys.argv[1]))
key = "train_step/model:gpt2_124m/batch:32/seq:1024"
assert tuning["recommended"] is None and tuning["recommended_for_step"] == "CUDA_DEVICE_MAX_CONNECTIONS=32"
assert len(tuning["defaults"]["tokens_per_s"][key]) == 2 * tuning["rounds"]
settings = {s["setting"]: s for s in tuning["settings"]}
assert set(settings["NCCL_PROTO=LL"]["busbw_gb_per_s"]) == {"8388608", "1073741824"}
change, = settings["OMP_NUM_THREADS=1"]["changes"]
assert change["key"] == key and change["status"] == "worse" and change["tokens_per_s"] < change["default_tokens_per_s"]
END
run 0 "${tune[@]}" --candidates=CUDA_DEVICE_MAX_CONNECTIONS=32
expect "a gain in the step has its own line" prints '^TUNE: recommended: CUDA_DEVICE_MAX_CONNECTIONS=32, \+[78]\.[0-9] % '

printf '%s\n' '# settings of a guide' 'NCCL_ALGO=Tree NCCL_PROTO=LL  # a comment' '' 'NCCL_MAX_NCHANNELS=1' >settings.conf
run 0 "${tune[@]}" --settings=settings.conf
expect "a file of settings is priced as a table" prints '^NCCL_ALGO=Tree NCCL_PROTO=LL +\+(9|10)\.[0-9] +\+(9|10)\.[0-9]$'
expect "  with what costs" prints '^NCCL_MAX_NCHANNELS=1 +-(59|60)\.[0-9] +-(59|60)\.[0-9]$'
run 3 "${tune[@]}" --settings=guides --time=1
expect "the settings of guides have their sources" python3 - "$latest/tune.json" <<'END'
import json, sys
settings = json.load(open(sys.argv[1]))["settings"]
assert len(settings) >= 8 and all(s["source"] for s in settings)
assert not any("NCCL_IB_" in s["setting"] for s in settings), "there is one host"
END
echo 'NCCL_ALGO' >settings.conf
run 2 "${tune[@]}" --settings=settings.conf
expect "a line that is no setting is refused" says "settings.conf: line 1: 'NCCL_ALGO'"
echo '# nothing' >settings.conf
run 2 "${tune[@]}" --settings=settings.conf
expect "a file without settings is refused" says 'settings.conf: has no '
run 2 "${tune[@]}" --settings=absent.conf
expect "an absent file is refused" says 'absent.conf: '

cp "$tree"/bin/bench_{allreduce,collectives}
run 0 "${tune[@]}" --op=alltoall --candidates=NCCL_ALGO=Tree
expect "another collective is compared on request" prints '^ +alltoall, 1 GiB +\+(9|10)\.[0-9] %'
expect "  with its rows in the JSON" python3 - "$latest/tune.json" <<'END'
import json, sys
rows = json.load(open(sys.argv[1]))["defaults"]["busbw_gb_per_s"]
assert set(rows) == {f"collectives/op:alltoall/bytes:{n}" for n in (8388608, 1073741824)}
END
run 2 "${tune[@]}" --op=all_to_all
expect "an unknown collective is refused" says "op: 'all_to_all'"

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
