# Hosts made of namespaces, for scripts that are run as SCRIPT DIR ... COMMAND: each has a network of its own on one bridge
# (10.78.0.0/24), its own host name, shared memory and temporary folder. DIR is seen alike by all of them; it must not be below
# /run, /dev/shm or /var/tmp. Sourced; needs root. All of it ends with the script, however that ends.
# shellcheck shell=bash
set -euo pipefail

if [[ -z ${inside_rack:-} ]]; then
  # A process namespace of its own: when its first process ends, the kernel ends every other.
  inside_rack=yes exec unshare --net --mount --pid --uts --fork --mount-proc --kill-child -- "$0" "$@"
fi
unset inside_rack
rack=$(readlink -f "$1")

# rack_of NAME HOST...: this host becomes NAME, 10.78.0.1; the HOSTs, 10.78.0.11 and on, have names but do not run yet.
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

# run_host NUMBER NAME COMMAND: the host NUMBER (1, 2, ...) runs a line of shell; its process is in DIR/NAME.pid, what it says
# in DIR/NAME.log. port NUMBER of the bridge is its cable.
run_host() {
  unshare --net --uts --ipc --mount -- bash -c "hostname $2 && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /var/tmp &&
    until ip link set eth0 up 2>/dev/null; do sleep 0.02; done; ip link set lo up && ip addr add 10.78.0.$((10 + $1))/24 dev eth0 &&
    echo \$\$ >$rack/$2.pid && $3" >"$rack/$2.log" 2>&1 </dev/null &
  while [[ $(readlink "/proc/$!/ns/net") == "$(readlink /proc/self/ns/net)" ]]; do sleep 0.02; done
  ip link add "port$1" type veth peer name eth0 netns "$!"
  ip link set "port$1" master rack up
}
