#!/usr/bin/env bash
# Plants faults in ranks on two hosts made of namespaces and checks what becomes of the job: the right rank and host named,
# an exit code that is not 0, an end in time, no process left behind. Prints the table. Needs root; else exit 77 (skipped).
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
agent=$(dirname "$(readlink -f "$0")")/fakehost.sh
cd "$scratch" || exit 1
if ! "$agent" probe true 2>/dev/null; then
  echo "skipped: namespaces need root"
  exit 77
fi

limit=80
watch=3
cat >hosts <<END
#!/usr/bin/env bash
exec mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 --host nodea:2,nodeb:2 --mca plm_rsh_agent $agent -np 4 \\
  -x SHAKEDOWN_FAULT -x SHAKEDOWN_RUN_ID $build/bench/bench_allreduce --backend=host --timeout=$watch \\
  --startup-timeout=\${STARTUP:-40} --benchmark_filter='f32/bytes:(8|32)\$' "\$@"
END
chmod +x hosts
export SHAKEDOWN_RUN_ID=faults-test

# Two healthy hosts first: what fails below fails for its fault.
unset SHAKEDOWN_FAULT
run 0 ./hosts --benchmark_out=healthy.json
expect "four ranks stand on two hosts" eval 'grep -qE "\"hosts\": ?2" healthy.json && grep -q nodea healthy.json && grep -q nodeb healthy.json'
expect "local ranks are counted per host" test "$(grep -oE '"local_rank": ?1' healthy.json | wc -l)" = 2

printf '%-20s %-10s %-6s %s\n' fault outcome time said >table
# fault FAULT PATTERN: the job must end in time, with a line that matches.
fault() {
  local began=$SECONDS code=0 outcome=ok line
  export SHAKEDOWN_FAULT=$1
  echo precious >kept.json
  timeout -k 5 "$limit" ./hosts --benchmark_out="$scratch/kept.json" >out 2>err </dev/null || code=$?
  local seconds=$((SECONDS - began))
  line=$(grep -m1 -E "$2" err)
  [[ -n $line ]] || outcome=unnamed
  [[ $code -ne 0 ]] || outcome=exit-0
  # The start of four ranks may take long on a loaded machine; what counts from then on is 3 s and the end of the job.
  [[ $seconds -le $((watch + 35)) ]] || outcome=late
  [[ $code -ne 124 && $seconds -lt $limit ]] || outcome=hung
  grep -qx precious kept.json || outcome=overwrote
  sleep 0.5
  if pgrep -f "bench_allreduce.*$scratch/" >/dev/null; then
    outcome=orphans
    pkill -9 -f "bench_allreduce.*$scratch/"
  fi
  printf '%-20s %-10s %-6s %s\n' "$1" "$outcome" "${seconds}s" "${line:-$(tail -n 1 err)}" >>table
  expect "$1" test "$outcome" = ok
  [[ $outcome == ok ]] || sed 's/^/    /' err | head -n 20
}

fault throw@2 'shakedown: rank 2 \(nodeb\): injected fault'
fault throw@1:prepare 'shakedown: rank 1 \(nodea\): injected fault'
fault exit@2 'shakedown: rank 2 \(nodeb\) ended unexpectedly in allreduce'
fault exit@0 'shakedown: rank 0 \(nodea\) ended'
fault kill@3 'shakedown: rank 3 \(nodeb\) ended unexpectedly in allreduce'
fault kill@3:connect 'shakedown: rank 3 \(nodeb\) ended unexpectedly in allreduce'
fault kill@2:init 'node nodeb.*signal 9|rank 2.*nodeb'
fault hang@2 'shakedown: timeout: allreduce/dtype:f32/bytes:8 \(sample\).*rank 2 \(nodeb\) did not advance, 3 ranks wait'
fault hang@0 'shakedown: timeout: .*rank 0 \(nodea\) did not advance, 3 ranks wait'
fault hang@3:prepare 'shakedown: timeout: .*\(prepare\).*rank 3 \(nodeb\) did not advance'
fault hang@1:connect 'shakedown: timeout: .*\(connect\).*rank 1 \(nodea\) did not advance'
fault hang@1:verify 'shakedown: timeout: .*\(verify\).*rank 1 \(nodea\) did not advance'
STARTUP=8 fault hang@2:init 'shakedown: timeout: rank 2 \(nodeb\).*before MPI_Init'

# A stopped rank must be named, not those that wait for it.
unset SHAKEDOWN_FAULT
stopped() {
  local victim=$1 began=$SECONDS code=0
  # shellcheck disable=SC2034
  local named="rank $1 \\($2\\) gives no sign of life"
  ./hosts --benchmark_min_time=100 --timeout=4 --benchmark_out="$scratch/kept.json" >out 2>err </dev/null &
  local launcher=$! i
  for ((i = 0; i < 300; ++i)); do
    grep -q '^\[1/' err && break
    sleep 0.1
  done
  sleep 0.5
  local pid
  for pid in $(pgrep -f "$build/bench/bench_allreduce.*min_time=100"); do
    if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$victim"; then kill -STOP "$pid"; fi
  done
  wait "$launcher" || code=$?
  expect "stopped rank $victim" eval '[[ $code -ne 0 ]] && grep -qE "$named" err && [[ $((SECONDS - began)) -le 50 ]]'
  printf '%-20s %-10s %-6s %s\n' "SIGSTOP rank $victim" "exit $code" "$((SECONDS - began))s" "$(grep -m1 shakedown: err)" >>table
  sleep 0.5
  expect "  and no process is left" eval '! pgrep -f "bench_allreduce.*$scratch/" >/dev/null'
}
stopped 2 nodeb
stopped 0 nodea

cat table
finish
