#!/usr/bin/env bash
# A soak as users call it, with programs that print a stored run: its end, a new start, a reboot, a round with wrong data.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2317,SC2030,SC2031,SC2154,SC1091
source "$(dirname "$0")/../shell.bash"
source "$root/tests/launch/front_door.bash"

# Few families and few rules make rounds short.
export SHAKEDOWN_RESULTS=$scratch/soaks
mkdir few
grep -vE 'benchmark: "(allreduce|collectives|decode|finetune|layer|lora_step|moe|p2p|pcie|preflight)' "$root/thresholds/h200-sxm.yaml" |
  sed 's/^include:.*/include: [memory-141gb.yaml]/' >few/h200-sxm.yaml
cp "$root/thresholds/memory-141gb.yaml" few/
accept+=(--thresholds="$scratch/few/h200-sxm.yaml")
latest_soak=$SHAKEDOWN_RESULTS/latest
rounds_of() { grep -c '"round":' "$1/rounds.jsonl"; }
after() { # waits until a new soak has $1 rounds
  for _ in {1..400}; do
    [[ $(readlink "$latest_soak") == "$before" || $(rounds_of "$latest_soak" 2>/dev/null) != "$1" ]] || return 0
    sleep 0.05
  done
}
run 0 "${accept[@]}" --for=10s --seed=3 --families=gemm,hbm --partial-ok --bencher=b.json --superbench=s.jsonl --github-benchmark=g.json
expect "a soak of healthy rounds of some families is good" eval '[[ $(tail -n 1 out) == "VERDICT: PARTIAL 1/1 (profile h200-sxm, 4 ranks, 2 of 3 families,"* ]]'
expect "  each GPU stands there over time" prints '^rank 3 .* gemm/dtype:bf16 +0\.0 '
expect "  in rounds whose order changes" eval '(($(rounds_of "$latest_soak") >= 2 && $(grep -o "\"order\":[^]]*" "$latest_soak/rounds.jsonl" | sort -u | wc -l) >= 2))'
expect "  its exports hold the figures of a round" eval 'grep -q "^  *\"gemm/.*{$" b.json && grep -q "\"gemm/" s.jsonl && grep -q "\"unit\": \"TFLOPS\"" g.json'
expect "  of which few stay whole" eval '[[ $(ls -d "$latest_soak"/rounds/*/ | grep -vc latest) -le 3 && $(ls "$latest_soak/kept" | wc -l) -eq 1 ]]'
orders=$(grep -o '"order":[^]]*' "$latest_soak/rounds.jsonl" | head -n 2)
run 3 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "  and is judged again from its rounds" prints '^VERDICT: PARTIAL 1/1'
run 2 "${accept[@]}" --for=10
expect "a time without a unit is refused" says "'10' has no unit: write 90s, 8m, 24h or 7d"
run 2 "${accept[@]}" --for=10s --resume
run 2 "${accept[@]}" --stop-on=fail

# A report that cannot be written causes a message, and exit code 3 instead of 0. It does not change the verdict.
run 3 "${accept[@]}" --families=gemm --partial-ok --verdict=kept.json --html=/nonexistent/page.html
expect "one report that cannot be written leaves verdict and others" eval 'says "/nonexistent/page.html: cannot be written" && prints "^VERDICT: PARTIAL" && grep -q "\"verdict\": \"partial\"" kept.json'

# The disk is full before there is a verdict: the run is INCOMPLETE, and no partial file can be taken for a verdict.
mkdir disk
run 3 unshare --mount bash -c "mount -t tmpfs -o size=64k tmpfs disk && exec ${accept[*]@Q} --folder=disk/run"
expect "a full disk ends with INCOMPLETE" eval 'says "disk/run/.*: cannot be written: No space left on device" && [[ $(tail -n 1 out) == "VERDICT: INCOMPLETE"* ]]'

# A soak that is killed in a round and resumed.
before=$(readlink "$latest_soak")
"${accept[@]}" --for=10s --seed=3 --families=gemm,hbm --partial-ok >out.txt 2>err.txt 3>&- &
front=$!
after 1
kill -KILL "$front"
wait "$front" 2>/dev/null
printf '{"round":2,"sta' >>"$latest_soak/rounds.jsonl"
run 3 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "a soak that was killed is INCOMPLETE, and it is said how to go on" eval 'prints "^VERDICT: INCOMPLETE" && prints "accept --resume"'
sleep 2
run 0 "${accept[@]}" --resume
expect "  it goes on to its end" eval '[[ $(tail -n 1 out) == "VERDICT: PARTIAL 1/1"* ]] && prints "did not measure"'
expect "  as it would have gone on, by the seed" test "$(grep -o '"order":[^]]*' "$latest_soak/rounds.jsonl" | head -n 2)" == "$orders"
expect "  and no round is there twice" eval '[[ -z $(grep -o "^{\"round\":[0-9]*" "$latest_soak/rounds.jsonl" | sort | uniq -d) ]]'

# A resumed soak keeps its expectations.
"${accept[@]}" --for=15s --families=gemm,hbm,memtest --expect=ranks=99 >out.txt 2>err.txt 3>&- &
front=$!
after 1
kill -TERM "$front"
wait "$front" 2>/dev/null
"${accept[@]}" --resume >out.txt 2>err.txt 3>&- &
front=$!
after 3
kill -TERM "$front"
wait "$front" 2>/dev/null
run 3 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "a soak that goes on expects what it was started with" prints '^series: 0 of'
run 1 "${accept[@]}" --resume --expect=ranks=4
expect "  but what is said anew counts from then on" eval 'prints "^series: [1-9][0-9]* of" && prints "^VERDICT: FAIL"'
run 2 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS" --expect=ranks=4
expect "  and nothing else, of rounds that were judged" says '^error: --expect: '
run 2 "$tree/bin/shakedown" nodes --results="$SHAKEDOWN_RESULTS"
expect "  whose verdict nodes is to be given" says 'verdict is .*/verdict.json'
run 3 "$tree/bin/shakedown" nodes --verdict="$latest_soak/verdict.json"

# A reboot of the host: the rounds before the pause have another boot id.
before=$(readlink "$latest_soak")
"${accept[@]}" --for=10s --families=gemm,hbm,memtest >out.txt 2>err.txt 3>&- &
front=$!
after 1
kill -TERM "$front"
wait "$front" 2>/dev/null
sed -i -E 's/("boots":\["[^ ]+ )[^"]*/\1earlier/' "$latest_soak/rounds.jsonl"
run 3 "${accept[@]}" --resume
expect "a reboot is named with its time, and is no pass" eval 'prints "restarted between minute" && prints "^VERDICT: INCONCLUSIVE"'

# Wrong data in one of several rounds.
cp stored/gemm.json gemm.good
python3 - <<'END'
import json
document = json.load(open("gemm.good"))
row = document["benchmarks"][0]
row.update({"error_occurred": True, "error_message": "wrong data: rank 2 (vm): 3 of 4096 comparisons failed", "wrong_ranks": [2]})
json.dump(document, open("gemm.bad", "w"), indent=1)
END
before=$(readlink "$latest_soak")
"${accept[@]}" --for=2m --families=gemm,hbm,memtest --stop-on=fail >out.txt 2>err.txt 3>&- &
front=$!
after 2
cp gemm.bad stored/gemm.json
code=0
wait "$front" || code=$?
expect "a soak that shall end with a failure ends with it" test "$code" = 1
expect "  which is named with its round, its time and the GPU" eval 'grep -q "watch/data/gemm/rank:2" out.txt && grep -qE "in 1 of [0-9]+ rounds, at minute " out.txt'
expect "  and whose files are kept" eval '[[ $(ls "$latest_soak/kept" | wc -l) -eq 2 ]]'
cp gemm.good stored/gemm.json
finish
