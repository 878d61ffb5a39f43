#!/usr/bin/env bash
# Twelve ways to lose a host, with a host file, a launch prefix and Slurm (lost_hosts.sh): the host is named, the other hosts are
# measured, and the verdict comes within the limit, 10 s, and the time of healthy runs. Six cases, or all 36 with
# SHAKEDOWN_NIGHTLY=1. Needs root, mpirun and Slurm (else exit code 77, skipped).
#
#   tests/faults/lost_hosts_test.sh BUILD [--only=REGEX]     the cases that match, such as 'srun cut'
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs mpirun ip slurmctld slurmd munged srun
namespaces
unset SHAKEDOWN_EXPECT SHAKEDOWN_ROSTER SHAKEDOWN_TIMEOUT "${!SLURM_@}" "${!OMPI_MCA_orte@}" "${!PRTE_MCA_@}"
limit=300 startup=15 timeout=20
only='^(file (refused|start|cut)|prefix start|srun (missing|init))$'
[[ -z ${SHAKEDOWN_NIGHTLY:-} ]] || only=.
[[ ${2:-} != --only=* ]] || only=${2#--only=}

# measured LAUNCHER WAY: runs accept on the three hosts; sets $code and $took. After pre-flight, they measure GEMM.
measured() {
  local began=$SECONDS
  rm -rf rack results
  mkdir rack
  code=0
  timeout -k 5 "$limit" env SHAKEDOWN_RESULTS="$scratch/results" "$root/tests/faults/lost_hosts.sh" "$scratch/rack" "$build" "$1" "$2" \
    bash -c '"$0" accept --families=preflight,gemm --all --allow-faults "$@" 2> >(tee err | while IFS= read -r line; do
      [[ $line != "[1/2] preflight"* ]] || touch rack/measures; done)' "$build/bin/shakedown" --startup-timeout=$startup --timeout=$timeout \
    >out 2>launch_err </dev/null || code=$?
  took=$((SECONDS - began))
}
for launcher in file prefix srun; do
  victim=m3
  [[ $launcher != srun ]] || victim=node-a3
  healthy=
  for way in refused password key route missing other slow start init middle cut off; do
    [[ "$launcher $way" =~ $only ]] || continue
    if [[ -z $healthy ]]; then
      measured "$launcher" none
      healthy=$took
      expect "$launcher: three healthy hosts are measured in $took s" prints '^VERDICT: (HOST-ONLY|PARTIAL) .*3 ranks, 3 hosts'
    fi
    measured "$launcher" "$way"
    allowed=$startup
    [[ $way != @(middle|cut|off) ]] || allowed=$timeout
    echo "$launcher $way: exit code $code after $took s: $(tail -n 1 out)"
    expect "$launcher, $way: the host is named in the verdict" eval 'prints "^VERDICT: (FAIL|INCOMPLETE)" && grep -q "$victim" out'
    expect "  the others are measured" grep -qE '"world": ?\{"size": ?2, ?"hosts": ?2\}' <(tr -d '\n' <results/latest/gemm.json | tr -s ' ')
    expect "  in time" test "$took" -le $((allowed + 10 + 2 * healthy))
    [[ $failures == "${before:-0}" ]] || { before=$failures && tail -n 12 out err launch_err; }
  done
done
finish
