#!/usr/bin/env bash
# Runs COMMAND on a host with an MTU of 9000, beside the hosts m1, m2 and m3 with the same MTU, each on a switch port. Each of them
# answers on ssh's port. Needs root and python3.
#   mtu.sh DIR none|port=NUMBER|host=NUMBER|second=NUMBER COMMAND...
# This switch port, or this host, or this port of a second network has an MTU of 1500. The second network is eth1 on each host;
# MPI uses the first one.
# shellcheck source-path=SCRIPTDIR source=../rack.bash disable=SC2154
source "$(dirname "$(dirname "$(readlink -f "$0")")")/rack.bash"
smaller=$2
shift 2
rack_of head m1 m2 m3
ip link set rack mtu 9000
for number in 1 2 3; do
  mtu=9000
  [[ $smaller != host=$number ]] || mtu=1500
  run_host "$number" "m$number" "ip link set eth0 mtu $mtu && exec python3 -m http.server 22 --bind 10.78.0.1$number"
  [[ $smaller == port=$number ]] || ip link set "port$number" mtu 9000
  ip link set "port$number" up
done
if [[ $smaller == second* ]]; then
  ip link add second type bridge
  ip link set second up mtu 9000
  for number in 1 2 3; do
    until [[ -e $rack/m$number.pid ]]; do sleep 0.05; done
    ip link add "second$number" type veth peer name eth1 netns "$(<"$rack/m$number.pid")"
    nsenter -t "$(<"$rack/m$number.pid")" --net bash -c "ip link set eth1 up mtu 9000; ip addr add 10.79.0.1$number/24 dev eth1"
    [[ $smaller == second=$number ]] || ip link set "second$number" mtu 9000
    ip link set "second$number" master second up
  done
  export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0,rack NCCL_SOCKET_IFNAME=eth1
fi
cat >"$rack/agent" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
exec nsenter -t "\$(<$rack/\$1.pid)" --net --uts --ipc --mount -- bash -c "\${*:2}"
END
chmod +x "$rack/agent"
printf '%s slots=1\n' m1 m2 m3 >"$rack/hostfile"
for host in m1 m2 m3; do
  until [[ -e $rack/$host.pid ]] && (: </dev/tcp/$host/22) 2>/dev/null; do sleep 0.05; done
done
export OMPI_MCA_plm_rsh_agent=$rack/agent OMPI_MCA_orte_default_hostfile=$rack/hostfile OMPI_MCA_orte_keep_fqdn_hostnames=true
"$@"
