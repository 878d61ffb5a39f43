#!/usr/bin/env bash
# Pair rounds on eight hosts in namespaces, each with its own network on a bridge. Cases: healthy, one host at half the rate,
# one pair that cannot communicate, one host that is unplugged in a round, one that is powered off. The culprit must be named, and
# the other hosts must finish.
# Needs root (else exit code 77, skipped).
#
#   tests/faults/pairs_test.sh BUILD [--only=REGEX]                 the cases that match: healthy slow pair dies late off
#   tests/faults/pairs_test.sh BUILD --healthy=RUNS [--cores=0,1]   healthy runs of four hosts whose cables are as fast as these cores
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2154,SC2317
source "$(dirname "$0")/../shell.bash"
only=. runs=0 hosts=(n1 n2 n3 n4 n5 n6 n7 n8) cores=()
for flag in "${@:2}"; do
  case $flag in
    --only=*) only=${flag#*=} ;;
    --healthy=*) runs=${flag#*=} hosts=(n1 n2 n3 n4) ;;
    --cores=*) cores=(taskset -c "${flag#*=}") ;;
  esac
done
if ! unshare --uts --net true 2>/dev/null || ! command -v tc >/dev/null; then
  echo "SKIP: namespaces need root, and tc"
  exit 77
fi
id=$((BASHPID % 9000 + 1000))
bridge=sd$id net=10.$((id / 100)).$((id % 100))
cd "$scratch" || exit 1
count() { grep -oE "$1" "$2" | wc -l; }
address() { echo "$net.1${1#n}"; }

clean() {
  [[ ! -e running ]] || kill -KILL -- "-$(<running)" 2>/dev/null
  for h in "${hosts[@]}"; do
    [[ ! -e $h.pid ]] || kill -KILL "$(<"$h.pid")" 2>/dev/null
    ip netns pids "$bridge$h" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del "$bridge$h" 2>/dev/null
  done
  ip link del "$bridge" 2>/dev/null
  rm -rf "$scratch"
}
trap clean EXIT

# Sets the rate of a host's cable in both directions. The rate is far below that of the cores, so that the network is the limit.
# The queue is short: in a long one, acknowledgements of one direction wait for the data of the other, and the directions
# alternate.
shape() {
  tc qdisc replace dev "$bridge${1#n}" root tbf rate "$2" burst 64kb latency 10ms
  nsenter --net="/run/netns/$bridge$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 64kb latency 10ms
}
unhear() { # HOST OTHER: redirects packets from HOST to OTHER to an address that does not exist
  nsenter --net="/run/netns/$bridge$1" ip neigh replace "$(address "$2")" lladdr 02:00:00:00:00:99 nud permanent dev eth0
}

ip link add "$bridge" type bridge && ip link set "$bridge" up || exit 1
cp /etc/hosts hosts
for h in "${hosts[@]}"; do echo "$(address "$h") $h" >>hosts; done
for h in "${hosts[@]}"; do
  ip netns add "$bridge$h"
  ip link add "$bridge${h#n}" type veth peer name eth0 netns "$bridge$h"
  ip link set "$bridge${h#n}" master "$bridge" up
  ip -n "$bridge$h" addr add "$(address "$h")/24" dev eth0
  ip -n "$bridge$h" link set eth0 up
  ip -n "$bridge$h" link set lo up
  setsid ip netns exec "$bridge$h" unshare --uts --ipc --mount --propagation private bash -c \
    "hostname $h; mount --bind $scratch/hosts /etc/hosts; mount -t tmpfs tmpfs /dev/shm; exec sleep 3600" \
    </dev/null >/dev/null 2>&1 &
  echo $! >"$h.pid"
  disown
done
cat >inside <<EOF
#!/bin/bash
host=\$1
shift
exec nsenter -t "\$(<$scratch/\$host.pid)" --net --uts --ipc --mount -- "\$@"
EOF
cat >agent <<EOF
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
exec $scratch/inside \$host bash -c "\$*"
EOF
chmod +x inside agent
cat >site.yaml <<EOF
schema: 2
site: namespaces
topology: {$(for ((i = 0; i < ${#hosts[@]}; i++)); do echo "${hosts[i]}: $([[ $i -lt $((${#hosts[@]} / 2)) ]] && echo a || echo b),"; done)}
EOF
for h in "${hosts[@]}"; do
  for _ in $(seq 50); do
    [[ $(./inside "$h" hostname 2>/dev/null) != "$h" ]] || break
    sleep 0.1
  done
  ((runs > 0)) || shape "$h" 200mbit
done

# measure NAME CODE [LINE COMMAND...]: runs the rounds, and runs the command when the output has LINE. CODE is 0 or not0.
measure() {
  local name=$1 wanted=$2 code=0 line=${3:-}
  shift 2
  [[ $# -eq 0 ]] || shift
  mkdir "$name.tmp"  # the previous run may still be removing its own folder
  : >"$scratch/err"  # and its output must not be read
  setsid timeout -k 5 400 "${cores[@]}" ./inside n1 mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 \
    --host "$(IFS=,; echo "${hosts[*]}")" --mca plm_rsh_agent "$scratch/agent" --mca orte_tmpdir_base "$scratch/$name.tmp" -np ${#hosts[@]} \
    "$build/bench/bench_pairs" --backend=host --site="$scratch/site.yaml" --benchmark_out="$scratch/$name.json" \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  echo $! >running
  local began=$SECONDS
  if [[ -n $line ]]; then
    until says "$line" || ! kill -0 "$(<running)" 2>/dev/null; do sleep 0.05; done
    "$@"
  fi
  wait "$(<running)" || code=$?
  rm running
  echo "$name: exit code $code after $((SECONDS - began)) s"
  grep -a 'shakedown:' "$scratch/err" | tail -n 2
  if [[ $wanted == "$code" || ($wanted == not0 && $code != 0) ]]; then return; fi
  fail "$name: exit code $code, wanted $wanted"
  tail -n 5 "$scratch/err"
}
# accused NAME: prints the judge's suspects, one per line.
accused() {
  "$build/tests/acceptance_test" --results="$1.json" --families=pairs --verdict="$1.verdict" --gtest_brief=1 >/dev/null 2>&1
  grep -oE '"detail": "[^"]*(% slow|not answer)[^"]*"' "$1.verdict" | sort -u
}
# suspects NAME: the same, of the faults of this test. The cables use the cores of this machine, and other work on it slows some by
# a fifth. Suspects that are less than 30 % slow are left out; the planted host is 50 % slow.
suspects() { accused "$1" | grep -E '([3-9][0-9]|100) % slow|not answer'; }
names_only() {
  local said
  said=$(suspects "$1")
  echo "$1: $said"
  grep -qE "$2" <<<"$said" || return 1
  [[ $(grep -cvE "$2|all pairs alike" <<<"$said") == 0 ]]
}
wants() { [[ $1 =~ $only ]]; }

if ((runs > 0)); then
  only=none named=0
  for ((run = 1; run <= runs; run++)); do
    measure "run$run" 0 >>log
    [[ -z $(accused "run$run") ]] || { named=$((named + 1)) && echo "run $run: $(accused "run$run")"; }
  done
  grep -vE 'run[0-9]+: exit code 0' log
  expect "$runs healthy runs accuse no host: $named did" test "$named" = 0
fi
if wants healthy; then
  measure healthy 0
  expect "eight healthy hosts: nobody is named" test "$(suspects healthy | grep -cE 'slow|answer')" = 0
  expect "three rounds inside leaves and three across" test "$(count '"run_name": ?"pairs/op:sendrecv/scope:(leaf|across)/round' healthy.json)" = 6
  expect "each round has the share of time in which ranks waited for cores" test "$(count '"waited"' healthy.json)" -ge 8
  expect "AllReduce of two hosts, one round of each" test "$(count '"run_name": ?"pairs/op:allreduce/scope:(leaf|across)/round:0' healthy.json)" = 2
fi
if wants slow; then
  shape n5 100mbit
  measure slow 0
  expect "the host behind half the rate is named, and no other" names_only slow 'rail 0 of n5 is [0-9]+ % slow'
  shape n5 200mbit
fi
if wants pair; then
  cut_pair() { unhear n3 n4; unhear n4 n3; }
  measure pair not0 '^\[2/' cut_pair
  expect "two that do not hear each other are named, and no other" names_only pair 'n3 and n4 do not answer each other'
  expect "the others finished their rounds" test "$(count '"run_name": ?"pairs[^"]*round' pair.json)" = 8
  expect "standard error says so" says 'no answer in time: rank 2 \(n3\) and rank 3 \(n4\)'
  for h in n3 n4; do nsenter --net="/run/netns/$bridge$h" ip neigh flush dev eth0 nud permanent; done
fi
if wants dies; then
  measure dies not0 '^\[2/' ip link set "${bridge}7" down
  expect "the host that died is named, and no other" names_only dies 'n7 does not answer'
  expect "the others finished their rounds" test "$(count '"run_name": ?"pairs[^"]*round' dies.json)" = 8
  expect "standard error says so" says 'no answer in time: rank 6 \(n7\)'
  ip link set "${bridge}7" up
fi
if wants late; then
  measure late not0 '^\[7/.*allreduce' ip link set "${bridge}7" down
  expect "the host that died in an AllReduce is named, and no other" names_only late 'n7 does not answer any of its partners in an AllReduce'
  expect "the others finished their rounds" test "$(count '"run_name": ?"pairs[^"]*round' late.json)" = 8
fi
if wants off; then
  power_off() {
    ip link set "${bridge}7" down
    # Nothing there answers any more. A process that is killed would end mpirun's agent, which a host without power does not.
    ip netns pids "${bridge}n7" | xargs -r kill -STOP
  }
  measure off not0 '^\[2/' power_off
  expect "the host that was powered off is named, and no other" names_only off 'n7 does not answer'
  expect "the others finished their rounds" test "$(count '"run_name": ?"pairs[^"]*round' off.json)" = 8
fi
finish
