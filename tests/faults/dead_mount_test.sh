#!/usr/bin/env bash
# Results, programs and temporary files on a file server that does not answer. Each program must end in time, with one line
# that names the call. FUSE makes a mount that never answers.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
here=$(dirname "$(readlink -f "$0")")
namespaces
needs python3
if [[ -z ${DEAD_MOUNT:-} ]]; then
  rm -rf "$scratch" && dead=$(mktemp -d)
  DEAD_MOUNT=$dead unshare --mount python3 "$here/dead_mount.py" "$dead" "$0" "$1"
  code=$?
  rmdir "$dead"
  exit $code
fi
hide_gpus
dead=$DEAD_MOUNT
cd "$scratch" || exit 1
export SHAKEDOWN_LIMITS_SCALE=0.1 SHAKEDOWN_RANKS=2  # a call on a file has 2 s instead of 20 s
shakedown=$build/bin/shakedown
stored=$root/tests/data/h200-sxm-4ranks-full/1

# dies "what it proves" COMMAND...: exit code 3 within the limit of 2 s + 5 s, with one line that names the call.
dies() {
  local what=$1 began=${EPOCHREALTIME/./}
  shift
  limit=30 run 3 "$@"
  local ms=$(((${EPOCHREALTIME/./} - began) / 1000))
  expect "$what: ends after $ms ms" test $ms -lt 7000
  expect "  and names the call, in one line" eval 'says ": [a-z ]+ $dead[^ ]* does not answer, 2 s$" && [[ $(grep -c "not answer" err) == 1 ]]'
}

echo old >verdict.json
dies "report of results on a dead mount" "$shakedown" report --results="$dead/run" --verdict=verdict.json
expect "  and leaves no old verdict" grep -q '"verdict": "incomplete"' verdict.json
expect "  and says INCOMPLETE" prints '^VERDICT: INCOMPLETE'
echo old >verdict.json
dies "acceptance_test" "$build/tests/acceptance_test" --results="$dead/run" --verdict=verdict.json
expect "  and leaves no old verdict" grep -q '"verdict": "incomplete"' verdict.json
expect "  and says INCOMPLETE" prints '^VERDICT: INCOMPLETE'
dies "nodes" "$shakedown" nodes --results="$dead/run"
dies "archive" "$shakedown" archive --results="$dead/run" --out=run.tar
dies "accept into a dead mount" "$shakedown" accept --families=jitter --results="$dead/results"
expect "  and says INCOMPLETE" prints '^VERDICT: INCOMPLETE'
dies "accept with a dead folder in PATH" env PATH="$dead:$PATH" "$shakedown" accept --families=jitter --results=results

# A report that cannot be written is lost, and the verdict is said.
limit=60 run not0 "$shakedown" report --results="$stored" --markdown="$dead/report.md"
expect "a report on a dead mount ends in time" says ": write $dead/report.md does not answer, 2 s"
expect "  and says its verdict or INCOMPLETE" prints '^VERDICT: '

# The gate refuses the job for a cause that all nodes share, and drains no node.
mkdir -p tree/ci && cp -r "$root/ci/slurm" tree/ci/ && ln -s "$dead/bin" tree/bin
limit=60 run 3 tree/ci/slurm/check --drain
expect "a gate whose program is on a dead mount is closed" prints '^shakedown: shared: the folder of the program does not'

# The kernel does not end a process that waits for an answer to a request that the server has read.
mkdir stuck
# shellcheck disable=SC2016
if ! unshare --mount python3 "$here/dead_mount.py" --unkillable stuck bash -c 'cat stuck/file & sleep 1; kill -KILL $!
    sleep 1; grep -q "^State:.*D" /proc/$!/status' 2>/dev/null; then
  echo "SKIP: a part: this kernel ends processes that wait for FUSE"
  finish
fi
for command in "report --results=$scratch/stuck/run" "nodes --results=$scratch/stuck/run" \
  "accept --families=jitter --results=$scratch/stuck/results"; do
  began=${EPOCHREALTIME/./}
  # shellcheck disable=SC2086
  limit=60 run 3 unshare --mount python3 "$here/dead_mount.py" --unkillable "$scratch/stuck" "$shakedown" $command
  expect "${command%% *}: a process that SIGKILL does not end is left alone" \
    says "stuck[^ ]* does not answer, 2 s; process [0-9]+ is blocked in the kernel and cannot be killed"
  expect "  in time" test $(((${EPOCHREALTIME/./} - began) / 1000)) -lt 10000
done
finish
