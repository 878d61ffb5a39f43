#!/usr/bin/env bash
# The shakedown command as the program of pods that each have several ranks, as of a PyTorchJob or a TrainJob.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs ip
namespaces
limit=100
export SHAKEDOWN_SECRET=0123456789abcdef
accept=("$build/bin/shakedown" accept "--families=preflight,jitter")
# pods NAME PODS COMMAND...: its output is in out (of the master) and err (of the worker), the exit codes are in codes.
pods() {
  local name=$1
  shift
  mkdir "$name"
  run 0 "$root/tests/launch/pods.sh" "$name" "$@"
  touch "$name/job-master-0.log" "$name/job-worker-0.log"
  cp "$name/job-master-0.log" out
  cp "$name/job-worker-0.log" err
  codes=$(cat "$name"/*.code | paste -sd' ')
}

pods job "0 1" "${accept[@]}"
expect "each pod starts its ranks, and all are measured and judged as one machine" eval 'prints "^VERDICT: PARTIAL .*4 ranks, 2 hosts" && [[ $codes == "3 0" ]]'
expect "  with the pod's number and its ranks" says 'pod 1 of 2 starts ranks 2 to 3 of 4; .* job-master-0:23456'
expect "  and only the first pod has the verdict" eval 'says "rank 2 of 4 has measured" && ! says VERDICT'
expect "  and all families are those of four ranks" grep -q '"size": *4\|"world": *{[^}]*4' job/results0/latest/jitter.json

changed='unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT; export PET_MASTER_ADDR=job-master-0 PET_MASTER_PORT=29500' \
  pods train "0 1" "${accept[@]}"
expect "the variables of torchrun alone are enough" eval 'prints "^VERDICT: PARTIAL .*4 ranks, 2 hosts" && [[ $codes == "3 0" ]]'

pods launch "0 1" "$build/bin/shakedown" launch sh -c 'echo "$RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $WORLD_SIZE $MASTER_ADDR $(hostname)"'
expect "a user's program gets the variables of a rank" eval '[[ $(grep -h ^[0-3] out err | sort | paste -sd,) == "0 0 2 4 job-master-0 job-master-0,1 1 2 4 job-master-0 job-master-0,2 0 2 4 job-master-0 job-worker-0,3 1 2 4 job-master-0 job-worker-0" ]]'
pods code "0 1" "$build/bin/shakedown" launch sh -c 'exit $((RANK == 3 ? 7 : 0))'
expect "  and its exit code is that of the pod" eval '[[ $codes == "0 7" ]]'
began=$SECONDS
pods ended 1 "$build/bin/shakedown" launch sh -c '[ $RANK = 2 ] || kill -KILL $$; exec sleep 60'
expect "a rank that a signal ends is named, and its pod ends soon" eval 'says "rank 3 was ended by SIGKILL" && [[ $codes == 3 && $((SECONDS - began)) -lt 30 ]]'
pods none 1 "$build/bin/shakedown" launch nosuch
expect "a program that is not there is named" eval 'says "nosuch: No such file or directory" && [[ $codes == 2 ]]'

pods alone 0 "${accept[@]}" --startup-timeout=3
expect "ranks of a pod that does not start are named" eval 'prints "ranks? 2.* did not connect" && [[ $codes == 3 ]]'
changed='export SHAKEDOWN_FAULT=kill@3:sample' pods dies "0 1" "${accept[@]}" --timeout=5 --allow-faults
expect "a rank that dies in another pod is the verdict's culprit" eval 'prints "^VERDICT: FAIL" && prints "rank 3 \\(job-worker-0\\)|job-worker-0.*rank 3"'
expect "  and no process is left" eval '[[ $codes == "1 3" ]]'
[[ $failures == 0 ]] || { tail -n 30 ./*/*.log; }
finish
