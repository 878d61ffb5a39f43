#!/usr/bin/env bash
# The shakedown command as the launcher of an MPIJob: the operator's environment, and a real sshd on two hosts in namespaces.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs mpirun sshd ssh-keygen ip
namespaces
limit=100
user=$(sed -n 's/.*useradd .*-u \([0-9]*\) mpiuser.*/\1/p' "$root/ci/container/Dockerfile")
expect "jobs run as the image's user" eval '[[ -n $user && $(grep -oE "runAsUser: *[0-9]+" "$root/ci/k8s/mpijob.yaml" | sort -u) == "runAsUser: $user" ]]'
as_launcher() { mkdir -p "$1" && run "$2" "$root/tests/launch/operator.sh" "$1" bash -c 'cd "$0" && export SHAKEDOWN_RESULTS=$PWD/results; build='"$build"'; '"$3" "$scratch/$1"; }

as_launcher well 0 '
  "$build/bin/shakedown" accept --families=preflight --tier=quick; code=$?
  grep -oE "\"host\": ?\"[^\"]*\"" results/latest/preflight.json | sort -u | tr "\n" " "
  exit $code'
expect "all workers are measured, on all of their slots" prints '^VERDICT: .*4 ranks, 2 hosts'
expect "  under the names of their nodes, which is what a cluster drains" prints '"gpu-1" .*"gpu-2"'
expect "  and no result is refused as made up" eval '! prints "fault"'

as_launcher told 0 '
  export SHAKEDOWN_CUDA_LIBRARIES=/a:/b CUDA_HOME=/c VIRTUAL_ENV=/d CONDA_PREFIX=/e
  "$build/bin/shakedown" launch sh -c "echo \$(hostname) \$SHAKEDOWN_CUDA_LIBRARIES \$CUDA_HOME \$VIRTUAL_ENV \$CONDA_PREFIX"'
expect "ranks on all hosts know where a small bundle shall look for CUDA" eval '[[ $(grep -c "^shakedown-worker-[01] /a:/b /c /d /e$" out) -eq 4 ]]'

# mpirun runs neither on the host that fails nor on the host of rank 0.
as_launcher dies 3 '
  "$build/bin/shakedown" accept --families=allreduce --timeout=4 2>err & job=$!
  until grep -q "^\[2/" results/latest/log 2>/dev/null; do sleep 0.05; done
  ip link set port2 down; began=$SECONDS
  wait $job; code=$?; cat err >&2; echo "took $((SECONDS - began))"
  exit $code'
expect "one whose network dies is named, with its ranks" says 'timeout: .*rank 2 \(gpu-2\), rank 3 \(gpu-2\) '
expect "  and mpirun, which would wait for it, is ended" eval '[[ $(sed -n "s/^took //p" out) -lt 40 ]]'
finish
