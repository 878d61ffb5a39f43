#!/usr/bin/env bash
# Runs a command in its own network, connected by one cable to another network for the host nodeb. Needs root.
#   two_nets.sh FILE COMMAND...     writes the id of a process in the other network to FILE; the caller must end it
#   two_nets.sh --agent FILE ...    the rsh agent for mpirun: nodeb in the other network, the other host in this one
#   two_nets.sh --cut FILE PID      makes the cable of the network of PID drop all packets without an error
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
nobody=02:00:00:00:00:99

case $1 in
  --agent)
    other=$(<"$2")
    shift 2
    [[ " $* " == *" nodeb "* ]] && exec nsenter "--net=/proc/$other/ns/net" "$here/fakehost.sh" "$@"
    exec "$here/fakehost.sh" "$@"
    ;;
  --cut)
    # All packets go to an unused address: no error and no lost carrier, as with a remote switch that is off.
    nsenter "--net=/proc/$3/ns/net" ip neigh replace 10.99.0.2 lladdr $nobody nud permanent dev cable
    nsenter "--net=/proc/$(<"$2")/ns/net" ip neigh replace 10.99.0.1 lladdr $nobody nud permanent dev cable
    ;;
  --inside)
    file=$2
    shift 2
    ip link set lo up
    unshare --net sleep 600 </dev/null >/dev/null 2>&1 &
    other=$!
    while [[ $(readlink "/proc/$other/ns/net") == "$(readlink /proc/self/ns/net)" ]]; do sleep 0.05; done
    ip link add cable type veth peer name end
    ip link set end netns $other
    ip addr add 10.99.0.1/24 dev cable
    ip link set cable up
    nsenter "--net=/proc/$other/ns/net" sh -c \
      'ip link set end name cable; ip link set lo up; ip addr add 10.99.0.2/24 dev cable; ip link set cable up'
    echo "$other" >"$file"
    exec "$@"
    ;;
  *) exec unshare --net "$0" --inside "$@" ;;
esac
