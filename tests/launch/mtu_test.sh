#!/usr/bin/env bash
# accept on hosts with an MTU of 9000, of which one is behind a switch port with an MTU of 1500: programs on it start and then hang.
# Needs root, mpirun and python3 (else exit code 77, skipped).
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
hosts=$root/tests/launch/mtu.sh
if ! command -v mpirun python3 >/dev/null || ! unshare --net --uts true 2>/dev/null || ! command -v ip >/dev/null; then
  echo "SKIP: namespaces need root, ip, mpirun and python3"
  exit 77
fi
mkdir "$scratch/rack" && cd "$scratch" || exit 1
unset SHAKEDOWN_EXPECT SHAKEDOWN_RANKS SHAKEDOWN_TIMEOUT SHAKEDOWN_ROSTER SHAKEDOWN_LAUNCH "${!SLURM_@}" "${!OMPI_MCA_orte@}" "${!PRTE_MCA_@}"

# measured CODE SMALLER: pre-flight of three hosts, one of which may have a smaller MTU, ends with this exit code.
measured() {
  local began=$SECONDS
  run "$1" env SHAKEDOWN_RESULTS="$scratch/results" "$hosts" "$scratch/rack" "$2" "$build/bin/shakedown" accept \
    --families=preflight
  seconds=$((SECONDS - began))
}
measured 0 none
expect "healthy hosts with large frames are all measured" prints '^VERDICT: HOST-ONLY .*3 ranks, 3 hosts'
measured 1 port=3
expect "a host behind a switch port with a smaller MTU is named" prints '^FAIL m3: .* 9000 bytes .*head '
expect "  with what to compare" prints 'Next: ssh m3 ip -br link; compare the MTU'
expect "  long before a launcher would give it up" eval '[[ $seconds -lt 60 ]]'
expect "  and the others are measured" prints '^VERDICT: FAIL .*2 ranks, 2 hosts'
run 1 "$build/bin/shakedown" nodes --results="$scratch/results"
expect "  and it is a bad node" prints '"m3"'
measured 0 host=2
expect "a host with a smaller MTU of its own works, since TCP adapts to it" prints '^VERDICT: HOST-ONLY .*3 ranks, 3 hosts'
run 0 "$build/bin/shakedown" report --results="$scratch/results/latest" --all
expect "  with a warning that names host, interface and both MTUs" \
  prints '^  interface_mtu 1500 on m2, 9000 on 2 others; m2 eth0 10\.78\.0\.12$'
measured 0 second
expect "a healthy second network, which NCCL uses, is no finding" prints '^VERDICT: HOST-ONLY .*3 ranks, 3 hosts'
measured 1 second=3
expect "a smaller MTU in the second network is a failure that names both ends" \
  prints 'm3 eth1 10.79.0.13 port [0-9]+: .* 8948 bytes'
expect "  and says how to choose another interface" \
  prints 'if eth1 .* --interface=NAME: eth0 10\.78\.0\.1[123]'
finish
