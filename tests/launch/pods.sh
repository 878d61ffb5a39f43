#!/usr/bin/env bash
# Runs a command in two pods of a PyTorchJob, with the variables that Kubeflow's training operator (1.8) sets. The pods are hosts
# in namespaces; each has two processes for torchrun.
#   tests/launch/pods.sh DIR PODS COMMAND...
# DIR keeps logs (tests/rack.bash) and the exit code of each pod, DIR/NAME.code. PODS are those that are started: "0 1". The line
# of shell in `changed` changes the variables of each pod. Needs root and ip.
# shellcheck source-path=SCRIPTDIR source=../rack.bash disable=SC2154
source "$(dirname "$(dirname "$(readlink -f "$0")")")/rack.bash"
started=$2
shift 2
names=(job-master-0 job-worker-0)
rack_of node "${names[@]}"
for pod in $started; do
  {
    echo "export RANK=$pod WORLD_SIZE=4 MASTER_ADDR=${names[0]} MASTER_PORT=23456"
    echo "export PET_NNODES=2 PET_NODE_RANK=$pod PET_NPROC_PER_NODE=2 SHAKEDOWN_RESULTS=$rack/results$pod"
    echo "${changed:-}"
    printf '%q ' "$@"
    printf '\necho $? >%q\n' "$rack/${names[$pod]}.code"
  } >"$rack/pod$pod"
  run_host $((pod + 1)) "${names[$pod]}" "bash $rack/pod$pod"
done
wait
