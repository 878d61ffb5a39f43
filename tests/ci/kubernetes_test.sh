#!/usr/bin/env bash
# The manifests of ci/k8s: their fields, the shell commands of the daily rounds with a replacement for kubectl, the log of a pod,
# and the wait for a job. No test runs them in a cluster.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
python=/usr/bin/python3 # the Python of the distribution, which has yaml
needs $python shellcheck
"$python" -c 'import yaml' 2>/dev/null || needs python3-yaml
manifests=("$python" "$root/tests/ci/manifests.py")
fields=$root/tests/data/kubernetes/fields.yaml k8s=$root/ci/k8s shakedown=$build/bin/shakedown

run 0 "${manifests[@]}" check "$fields" "$k8s"/*.yaml
expect "all fields of the manifests exist, with these types" eval '[[ ! -s out || $(<out) == "" ]]'
# wrong WHAT FILE SED-COMMAND MESSAGE: this change of a manifest is found.
wrong() {
  local message=$4
  sed -E "$3" "$k8s/$2" >wrong.yaml
  run 1 "${manifests[@]}" check "$fields" wrong.yaml
  expect "$1 is found" eval '[[ $(wc -l <out) == 1 ]] && prints "$message"'
}
wrong "an unknown field" node-job.yaml 's/backoffLimitPerIndex/backoffLimitPerPod/' 'Job.spec: there is no field backoffLimitPerPod'
wrong "a field of an object that does not have it" daily.yaml 's/^  concurrencyPolicy: Forbid/  completions: 1/' 'CronJob.spec: there is no field completions'
wrong "a text for a number" mpijob.yaml 's/slotsPerWorker: 8/slotsPerWorker: eight/' "slotsPerWorker: 'eight' is not of type integer"
wrong "an unknown choice" activecheck.yaml 's/checkType: slurmJob/checkType: slurm/' "checkType: 'slurm' is not k8sJob.slurmJob"
wrong "a missing field" daily.yaml '/^  schedule:/d' 'CronJob.spec: schedule is missing'
wrong "a mistake in the job of one node" daily.yaml 's/ttlSecondsAfterFinished/ttlSeconds/' 'Job.spec: there is no field ttlSeconds'
wrong "a restart policy that JobSet does not have" jobset.yaml 's/maxRestarts: 0/restartStrategy: Always/' "restartStrategy: 'Always' is not Recreate"
wrong "a claim without a device class" dra.yaml 's/deviceClassName: gpu.nvidia.com, //' 'exactly: deviceClassName is missing'
wrong "a ComputeDomain without its template" dra.yaml 's/resourceClaimTemplate: .name: shakedown-channel./allocationMode: All/' 'channel: resourceClaimTemplate is missing'
wrong "a text for the nodes of a TrainJob" trainjob.yaml '0,/numNodes: 2/s//numNodes: two/' "numNodes: .two. is not of type integer"
wrong "a test of NVSentinel without its provider" nvsentinel-values.yaml '/ provider: shakedown-provider/d' 'tests.shakedown: provider is missing'
wrong "a mistake in the job of NVSentinel" nvsentinel-values.yaml 's/ backoffLimit:/ backoff:/' 'Job.spec: there is no field backoff'
wrong "a request without nodes" nvsentinel-request.yaml '/nodes:/,+1d' 'ValidationRequest.spec: nodes is missing'

# --- the results of a pod, and the end of its job ---
mkdir -p bin
ln -s "$shakedown" bin/shakedown
run 0 env PATH="$scratch/bin:$PATH" SHAKEDOWN_RANKS=1 sh "$k8s/accept" --families=preflight
expect "the last line of a pod's log is the verdict, and its exit code that of the verdict" eval '[[ $(tail -n 1 out) == VERDICT:* ]]'
sed -n '/^BEGIN SHAKEDOWN ARCHIVE$/,/^END SHAKEDOWN ARCHIVE$/{/ SHAKEDOWN /!p}' out | base64 -d >run.tar.gz
run 0 tar tzf run.tar.gz
expect "  and the log has the run" prints 'preflight.json'
# A program in place of shakedown. It sends SIGTERM to the command of the pod, and ends with a verdict when it gets SIGTERM.
mkdir -p stopped && cat >stopped/shakedown <<'END'
#!/bin/bash
case $1 in
  accept)
    sleep 20 &
    trap 'kill $! && mkdir -p "$SHAKEDOWN_RESULTS/latest" && echo "VERDICT: stopped" && exit 3' TERM
    kill -TERM $PPID
    wait
    ;;
  archive) echo run >"${3#--out=}" ;;
esac
END
chmod +x stopped/shakedown
# Process 1 of a namespace gets only the signals for which it has a trap, as in a pod.
as_process_1=()
unshare --pid --fork true 2>/dev/null && as_process_1=(unshare --pid --fork)
run 3 env PATH="$scratch/stopped:$PATH" "${as_process_1[@]}" sh "$k8s/accept"
expect "a pod that is deleted has the verdict and the archive of the rows measured until then" \
  eval '[[ $(tail -n 1 out) == "VERDICT: stopped" ]] && prints "^END SHAKEDOWN ARCHIVE$"'
expect "no manifest reads the log of a job only if it succeeds" eval '! grep -n "k8s/wait .*&&.*logs" "$k8s"/*.yaml'
printf '#!/bin/sh\n[ "$1 $2" = "get job/a" ] && echo "$STATES"\n' >bin/kubectl && chmod +x bin/kubectl
waits() { run "$1" env PATH="$scratch/bin:$PATH" STATES="$2" POLL_SECONDS=0.1 "$k8s/wait" "${3:-job/a}" 1; }
waits 0 "Suspended Complete"
waits 1 "FailureTarget Failed"
expect "a wait ends with the job, also if it fails" prints 'job/a: Failed'
waits 3 "Running"
expect "  and after the time" says 'job/a has not ended: Running'
waits 3 "" job/b

# --- the daily round ---
mkdir -p bin round template state jobs
cat >bin/kubectl <<'END'
#!/usr/bin/env bash
case "$1 $2" in
  "get nodes") printf 'node/%s\n' $NODES ;;
  "get job") [[ ! -e jobs/$3 ]] || echo "job.batch/$3" ;;
  "create -f") cat >created && name=$(sed -n 's/^  name: "\(.*\)"/\1/p' created) && [[ ! -e refused ]] && mv created "jobs/$name" && echo "$name" >>order ;;
  *) exit 9 ;;
esac
END
chmod +x bin/kubectl
export PATH=$scratch/bin:$PATH NODES="gpu-1.example gpu-2.example gpu-3.example" DAYS=7
for step in roster due submit; do
  "${manifests[@]}" script "$k8s/daily.yaml" $step | sed -E "s| /round| $scratch/round|g; s|([<>=])/round|\1$scratch/round|g; s|/shakedown/ledger|$scratch/state/ledger|g; s|/template|$scratch/template|g" >$step.sh
  run 0 shellcheck --shell=sh $step.sh
done
"${manifests[@]}" value "$k8s/daily.yaml" ConfigMap data job.yaml >template/job.yaml
round=(sh -ec 'for step in roster due submit; do sh -e $step.sh; done')
measured() { # NODE DAYS: it was measured so many days ago.
  rm -rf old && cp -r demo old
  sed -i "s/\"host\": *\"demo\"/\"host\": \"$1\"/g; s/\"started\": *\"[^\"]*\"/\"started\": \"$(date -u -d "$2 days ago" +%FT%TZ)\"/" old/*.json
  "$shakedown" ledger add --results=old --ledger=state/ledger --allow-faults >/dev/null
}
"$shakedown" demo --fault=none --out=demo >/dev/null
mkdir -p state/ledger
measured gpu-1.example 30
measured gpu-3.example 1
measured gone.example 30
run 0 "${round[@]}"
expect "a round starts a job on each node without a run in the last days" prints 'daily: 2 nodes'
expect "  first on the node that has none, then on the one with the oldest" eval '[[ $(while read -r job; do sed -n "s/.*shakedown.node: \"\(.*\)\"}/\1/p" "jobs/$job"; done <order | paste -sd" ") == "gpu-2.example gpu-1.example" ]]'
expect "  pinned to the node, with its results in a folder of their own" eval '[[ $(grep -l "values: \[\"gpu-2.example\"\]" jobs/*) == $(grep -l "value: \"/shakedown/results/gpu-2.example\"" jobs/*) ]]'
expect "  and the manifest of the job is valid" "${manifests[@]}" check "$fields" jobs/*
expect "  and the log has the state of the nodes" prints '^LEDGER: 3 nodes'
run 0 "${round[@]}"
expect "a node whose job still waits gets no second one" prints 'daily: 0 nodes'
rm -rf jobs/* && touch refused
run 1 "${round[@]}"
expect "a job that the cluster refuses makes the round fail, after the other nodes" prints 'daily: 0 nodes'

# --- soperator ---
"${manifests[@]}" value "$k8s/activecheck.yaml" ActiveCheck spec slurmJobSpec sbatchScript >check.sh
run 0 shellcheck check.sh
mkdir -p home/bin
printf '#!/bin/bash\n[[ $1 == accept ]] || exec "%s" "$@"\necho "accepts $SHAKEDOWN_RESULTS"\nexit $CODE\n' "$shakedown" >home/bin/shakedown
chmod +x home/bin/shakedown
# check NODE CODE WANTED: runs the job on a node whose measurement ends with CODE. The job ends with WANTED.
check() { run "$3" env SLURMD_NODENAME="$1" CODE="$2" SHAKEDOWN_HOME="$scratch/home" SHAKEDOWN_LEDGER="$scratch/state/ledger" bash check.sh; }
check gpu-3.example 1 0
expect "soperator: a node with a run in the last days is not measured" silent
check gpu-2.example 1 1
expect "  the job of a node that fails fails, so that soperator drains it" prints 'accepts .*/shakedown-results/gpu-2.example'
for code in 0 3; do check gpu-2.example $code 0; done
expect "  and that of an incomplete run does not" prints accepts
SHAKEDOWN_HOME=none run 0 bash check.sh
expect "  nor where the program is not installed" prints 'no bin/shakedown in none'
finish
