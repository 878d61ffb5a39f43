#!/usr/bin/env bash
# Ranks of one host that the shakedown command starts itself, because mpirun starts many ranks slowly.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
shakedown=$build/bin/shakedown
unset SHAKEDOWN_SECRET SHAKEDOWN_SECRET_FILE MASTER_PORT

run 0 env SHAKEDOWN_RANKS=129 MASTER_PORT=1 "$shakedown" launch sh -c 'echo "$RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $SHAKEDOWN_SECRET"'
expect "129 ranks of one host start without mpirun" says '129 ranks .*without mpirun'
expect "  each once" eval '[[ $(cut -d" " -f1 out | sort -n | paste -sd,) == "$(seq -s, 0 128)" ]]'
expect "  with one port, which is free, and one secret" eval '[[ $(cut -d" " -f2- out | sort -u | grep -cE "^129 127.0.0.1 [0-9]{2,5} [0-9a-f]{64}$") == 1 && $(cut -d" " -f2- out | sort -u | wc -l) == 1 ]]'
port=$(cut -d' ' -f4 out | head -n 1)
run 0 env SHAKEDOWN_RANKS=129 SHAKEDOWN_SECRET=0123456789abcdef "$shakedown" launch sh -c 'echo "$MASTER_PORT $SHAKEDOWN_SECRET"'
expect "  and the secret of the user, if there is one, and another port" eval '[[ $(sort -u out) == *" 0123456789abcdef" && $(sort -u out) != "$port "* ]]'
run 7 env SHAKEDOWN_RANKS=129 "$shakedown" launch sh -c 'exit $((RANK == 3 ? 7 : 0))'
expect "  and the exit code of a rank is handed on" test ! -s out

# The same start with few ranks, which measure.
ranks=(env WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 SHAKEDOWN_EXPECT=ranks=4 "$shakedown" ranks 0 4)
run 0 "${ranks[@]}" "$build/bench/bench_jitter" --backend=host --benchmark_out=jitter.json
expect "ranks that start in this way find each other" grep -q '"size": 4,' <(grep -A 1 '"world":' jitter.json)
expect "  by a secret that no other program knows" eval '! grep -q strangers_could_join.*true jitter.json'
accept=(env WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 SHAKEDOWN_LAUNCH="$shakedown ranks 0 4" SHAKEDOWN_RESULTS="$scratch/results"
  "$shakedown" accept --families=jitter --backend=host --timeout=60 --allow-faults)
SHAKEDOWN_FAULT=kill@2:sample run 3 "${accept[@]}"
expect "a rank that is killed is named" eval 'says "rank 2" || prints "rank 2"'
rm -r results
SHAKEDOWN_FAULT=hang@2:sample run 3 "${accept[@]}" &
job=$!
for ((i = 0; i < 600; i++)); do ! grep -qs '^.1/1' results/latest/log || break; sleep 0.1; done
launcher=$(pgrep -f "^$shakedown ranks 0 4")
mapfile -t running < <(pgrep -P "$launcher")
kill -KILL "$launcher"
wait $job
expect "the end of their launcher is not a fault of the machine" says 'ended by SIGKILL'
for ((i = 0; i < 100; i++)); do kill -0 "${running[@]}" 2>/dev/null || break; sleep 0.1; done
expect "  and no rank is left ten seconds later" eval '[[ ${#running[@]} == 4 ]] && ! kill -0 "${running[@]}" 2>/dev/null'
finish
