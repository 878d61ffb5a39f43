# Hosts in namespaces, for scripts that are run as SCRIPT DIR ... COMMAND. Each host has its own network on one bridge
# (10.78.0.0/24), host name, shared memory and temporary folder. All of them see the same DIR; it must not be below /run,
# /dev/shm or /var/tmp. Sourced; needs root. Everything ends with the script, even if it is killed.
# shellcheck shell=bash
set -euo pipefail

if [[ -z ${inside_rack:-} ]]; then
  # A separate process namespace: when its first process ends, the kernel ends all others.
  inside_rack=yes exec unshare --net --mount --pid --uts --fork --mount-proc --kill-child -- "$0" "$@"
fi
unset inside_rack
rack=$(readlink -f "$1")

# rack_of NAME HOST...: this host becomes NAME, 10.78.0.1. The HOSTs, from 10.78.0.11 on, get names but are not started.
rack_of() {
  local host address=11
  hostname "$1"
  mount -t tmpfs tmpfs /run
  ip link set lo up
  ip link add rack type bridge
  ip addr add 10.78.0.1/24 dev rack
  ip link set rack up
  {
    echo "127.0.0.1 localhost"
    echo "10.78.0.1 $1"
    for host in "${@:2}"; do echo "10.78.0.$((address++)) $host"; done
  } >"$rack/hosts"
  mount --bind "$rack/hosts" /etc/hosts
}

# run_host NUMBER NAME COMMAND: runs a line of shell on the host NUMBER (1, 2, ...). Its process is in DIR/NAME.pid, its output
# in DIR/NAME.log. Port NUMBER of the bridge is its cable.
run_host() {
  unshare --net --uts --ipc --mount -- bash -c "hostname $2 && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /var/tmp &&
    until ip link set eth0 up 2>/dev/null; do sleep 0.02; done; ip link set lo up && ip addr add 10.78.0.$((10 + $1))/24 dev eth0 &&
    echo \$\$ >$rack/$2.pid && $3" >"$rack/$2.log" 2>&1 </dev/null &
  while [[ $(readlink "/proc/$!/ns/net") == "$(readlink /proc/self/ns/net)" ]]; do sleep 0.02; done
  ip link add "port$1" type veth peer name eth0 netns "$!"
  ip link set "port$1" master rack up
}
