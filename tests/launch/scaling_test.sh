#!/usr/bin/env bash
# accept --scaling on hosts in namespaces, with the programs of the build on the CPU. Each number of nodes is a separate launch.
# Also tests impossible requests, and a node that dies in a launch. Needs root and mpirun (else exit code 77, skipped).
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
agent=$root/tests/faults/fakehost.sh
if ! command -v mpirun >/dev/null || ! "$agent" probe true 2>/dev/null; then
  echo "SKIP: namespaces need root, and mpirun"
  exit 77
fi
cd "$scratch" || exit 1
unset SHAKEDOWN_EXPECT SHAKEDOWN_RANKS SHAKEDOWN_TIMEOUT SHAKEDOWN_ROSTER SHAKEDOWN_LAUNCH "${!SLURM_@}" "${!OMPI_MCA_orte@}" "${!PRTE_MCA_@}"

# Hosts that can be switched off: a host with a file in dead/ does not answer.
mkdir dead
cat >rsh <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
[[ ! -e $scratch/dead/\$1 ]] || exec sleep 1000
exec setsid -w bash -c 'echo \$\$ >"$scratch/\$1.pid"; exec "$agent" "\$@"' - "\$@"
END
chmod +x rsh
printf 'node%s slots=1\n' a b c >hosts
accept=(env OMPI_MCA_orte_default_hostfile="$scratch/hosts" OMPI_MCA_plm_rsh_agent="$scratch/rsh"
  OMPI_MCA_orte_keep_fqdn_hostnames=true SHAKEDOWN_RESULTS="$scratch/results" "$build/bin/shakedown" accept)
latest=$scratch/results/latest
few=--families=lora_step  # AllReduce of a tier takes minutes if three hosts share four cores

run 2 "${accept[@]}" --scaling=2,1
expect "numbers of nodes that do not rise are refused" says "'2,1' must be increasing"
run 2 "${accept[@]}" --scaling=two
run 2 "${accept[@]}" --scaling --for=1m
run 2 "${accept[@]}" --scaling=2,4
expect "more nodes than there are are refused" says '4 nodes .* 3: '
run 2 "${accept[@]}" --scaling --families=gemm
expect "and what does not depend on nodes" says 'compares AllReduce'
run 2 env -u OMPI_MCA_orte_default_hostfile SHAKEDOWN_RESULTS="$scratch/one" "$build/bin/shakedown" accept --scaling
expect "one node is nothing to compare" says 'ci/scaling'
run 3 env SHAKEDOWN_LAUNCH=env SHAKEDOWN_RESULTS="$scratch/one" "$build/bin/shakedown" accept --scaling
expect "nor are nodes that are not ours to choose" says 'SHAKEDOWN_LAUNCH fixes'

# The hosts share the cores of this machine, so the scaling efficiency is not known in advance.
"${accept[@]}" "$few" --scaling >out 2>err
code=$?
echo "exit code $code"
points() { sed -n '/"scaling": \[/,$p' "$latest/verdict.json" | grep -oE '"hosts": [0-9]+' | sort | uniq -c | tr -s ' \n' ' '; }
expect "it ends with a verdict" eval '[[ $code -le 1 || $code -eq 3 ]] && prints "^VERDICT: "'
expect "one and two nodes are launches of their own" eval '[[ $(ls "$latest/scaling" | grep -v choices | tr "\n" " ") == "1node 2nodes " ]] && says "scaling: lora_step on 2 nodes of 3: nodea, nodeb"'
expect "  on as many hosts" grep -qE '"hosts": ?2' "$latest/scaling/2nodes/lora_step.json"
expect "  and stand in the verdict, with those of all" eval '[[ $(points) == *"2 \"hosts\": 1 2 \"hosts\": 2 2 \"hosts\": 3 "* ]]'
expect "  and in a table" prints '^lora_step.* 3 +3 '
# A single requested family is also judged separately.
run "$code" "$build/bin/shakedown" report --results="$scratch/results" --families=lora_step --html="$scratch/page.html"
expect "judged again it is the same" prints '^lora_step.* 2 +2 '
expect "  and on the page" grep -q '"scaling":\[' page.html

# lose HOST LAUNCH NODES: kills HOST during that launch. The launch must end without results, and no launch may wait for HOST.
lose() {
  local host=$1 launch=$2 nodes=$3
  rm -f dead/* err
  {
    until grep -qs "on $nodes of" err && grep -qs '^\[1/' "$latest/scaling/$launch/log"; do sleep 0.05; done
    touch "dead/$host"
    kill -KILL -- "-$(<"$host.pid")"
  } &
  # Slowed down, so that the host dies before the launch is complete.
  env SHAKEDOWN_FAULT=slow:10@0 "${accept[@]}" "$few" --scaling=1,2 --startup-timeout=8 --allow-faults >out 2>err
  code=$?
  wait
  expect "$host dies on $nodes: it is named" eval '[[ $code -eq 1 ]] && says "scaling: $launch: without $host"'
  expect "  and that launch is missing" eval 'prints "^missing: machine/scaling" && prints "$nodes: $host " && [[ ! -e $latest/scaling/$launch/lora_step.json ]]'
}
lose nodeb 2nodes "2 nodes"
expect "  but not the others" eval '[[ -e $latest/scaling/1node/lora_step.json && -e $latest/lora_step.json ]]'
lose nodea 1node "1 node"
expect "  and the next launch is of others" says '2 nodes of 3: nodeb, nodec'
finish
