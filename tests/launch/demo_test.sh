#!/usr/bin/env bash
# shakedown demo and shakedown compare: what they show, and that nothing of a demo is taken for a machine.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
unset COLUMNS NO_COLOR CLICOLOR_FORCE
shakedown=$build/bin/shakedown stored=$root/tests/data/h200-sxm-4ranks-full

began=$SECONDS
run 1 "$shakedown" demo
expect "a demo takes seconds" test $((SECONDS - began)) -le 10
expect "  it fails, and names the slow GPU" eval '[[ $(tail -n 1 out) == "VERDICT: FAIL "*", 8 ranks"* ]] && prints "^slow GPU: rank 3, demo GPU 3, .*serial demo-3"'
expect "  its last lines say that it is a demo, and how to see it again" eval 'tail -n 5 out | grep -q "^demo: no machine was measured.*--fault=slow-hbm.*shakedown-demo/page.html" && prints "^  shakedown nodes --results=shakedown-demo --allow-faults$"'
expect "  and name the slow GPU" eval 'tail -n 2 out | head -n 1 | grep -q "^FAIL demo GPU 3 "'
expect "  its page and its verdict are there" eval 'grep -q "demo GPU 3" shakedown-demo/page.html && grep -q "\"verdict\": \"fail\"" shakedown-demo/verdict.json'
run 2 "$shakedown" report --results=shakedown-demo
expect "its results are refused as those of a machine" says 'injected fault .demo: slow-hbm.'
run 2 "$shakedown" baseline create --results=shakedown-demo --out=baselines
expect "  and are no baseline" test ! -e baselines
run 1 "$shakedown" nodes --results=shakedown-demo --allow-faults
expect "  but the commands that it prints run" prints '"action": "ISOLATE"'
run 0 "$shakedown" demo --fault=none --out=good
expect "without a fault it passes" prints '^VERDICT: PASS '
run 1 "$shakedown" demo --fault slow-link --out link --html=link.html
expect "another fault has another page where the user wants it" test -s link.html
run 1 "$shakedown" demo
run 2 "$shakedown" demo --junit=shakedown-demo/gemm.json
expect "no output replaces results" eval 'says "^error: --junit: shakedown-demo/gemm.json has results" && grep -q "\"context\"" shakedown-demo/gemm.json'
run 2 "$shakedown" demo --fault=slow-hmb
expect "an unknown fault is refused with the known ones" says "^error: --fault: 'slow-hmb' is not one of slow-hbm, slow-gpu, slow-link, none"
mkdir other && run 2 "$shakedown" demo --out=other
expect "a folder of something else is left alone" eval 'says "other exists and is not a demo" && [[ -z $(ls other) ]]'

run 0 "$shakedown" compare good shakedown-demo --allow-faults --width=200
expect "two runs stand side by side" prints '^figure +A: good +B: shakedown-demo +difference +95 % interval'
expect "  with figures, difference, spread and whether it is real" prints '^HBM read by kernel, 4 GiB .* 4[0-9.]+ GB/s +4[0-9.]+ GB/s +-1[12]\.[0-9] % +-1[23]\.[0-9] % to -1[01]\.[0-9] % +B is worse'
expect "  and what is equal is called so" prints '^GEMM bf16, 8192 x 8192 x 8192 .*\+0\.0 % .* same'
expect "  the largest losses first" eval 'sed -n "2,9p" out | grep -c "B is worse" | grep -qx 8'
expect "  and counted in the last line" eval 'tail -n 1 out | grep -qE "^COMPARE: B is worse in [0-9]+ and better in 0 of [0-9]+ figures in both: HBM .* -1[12]\.[0-9] %$"'
expect "  and no costs without a price" eval '! prints EFLOP'
run 0 "$shakedown" compare "$stored/1" "$stored/1" --price=3.6,7.2 --width=200 --all
expect "with prices, the costs of operations and tokens stand there" eval 'prints "^costs at 3.6 for a GPU hour in A and 7.2 in B" &&
  prints "^1,000,000 tokens: lora_step/[^ ]+ +0\.0[0-9]+ +0\.[01][0-9]+ +\+100.0 %"'
expect "  which follow from rate and price" awk '/^gemm\/dtype:bf16\/m:8192\/n:8192\/k:8192 tflops/ {rate = $3}
  /EFLOP: gemm\/dtype:bf16\/m:8192\/n:8192\/k:8192 / {cost = $(NF - 3)} END {exit !(cost * rate > 999 && cost * rate < 1001)}' out
run 2 "$shakedown" compare "$stored/1" "$stored/2" --price=1,2,3
expect "  and three prices are refused" says "must be one or two positive numbers"
run 2 "$shakedown" compare good shakedown-demo
expect "  made-up results only if that is allowed" says 'injected fault'
run 0 "$shakedown" archive --results="$stored/1" --out=one.tar
run 0 env TMPDIR="$scratch/other" "$shakedown" compare one.tar "$stored/2" --width=200
expect "an archive is compared like its run" prints '^AllReduce bf16, 1 GiB .* +354 GB/s +356.14 GB/s +\+0\.6 %'
head -c 1000 /dev/urandom >broken.tar
run 2 env TMPDIR="$scratch/other" "$shakedown" compare broken.tar "$stored/2"
expect "  a file that is none is refused in one line" eval 'says "broken.tar: is not an archive of a run" && [[ $(wc -l <err) == 1 ]]'
expect "  and nothing stays in TMPDIR" test -z "$(ls other)"
for wrong in "" one.tar "one.tar one.tar one.tar"; do
  # shellcheck disable=SC2086  # words
  run 2 "$shakedown" compare $wrong
  expect "it compares two runs, not '$wrong'" test "$(wc -l <err)" = 1
done
finish
