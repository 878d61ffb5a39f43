# The cable between two hosts fails: sourced by faults_test.sh, on the host backend only. mpirun runs on the host nodea, as on
# real hosts.
# shellcheck shell=bash disable=SC2154,SC2034,SC2054
other=$scratch/other
printf '#!/bin/sh\nexec %s --agent %s "$@"\n' "$here/two_nets.sh" "$other" >link_agent
chmod +x link_agent
printf '#!/bin/sh\nhostname nodea\nexec "$@"\n' >on_nodea
chmod +x on_nodea
hosts_launch=("${launch[@]}")
could_not_run=not0  # of mpirun, without shakedown launch
cable=(unshare --uts ./on_nodea "$here/two_nets.sh" "$other" mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1
  --host nodea:2,nodeb:2 --mca plm_rsh_agent "$scratch/link_agent" -np 4)

# cut_link WHERE LIMIT PATTERN [SETTING...]: cuts the cable during a job, which must end within LIMIT with a matching line.
cut_link() {
  local where=$1 limit=$2 pattern=$3
  shift 3
  rm -f "$other"
  launch=(env "$@" "${cable[@]}")
  local watch=$limit
  start "${sweep[@]}"
  until_line '^\[3/'
  struck=$(now)
  "$here/two_nets.sh" --cut "$other" "$launcher" || fail "the cable could not be cut"
  ends "dead link" "$where" "$limit" "$pattern"
  # Open MPI's daemon on the disconnected host waits for its own time limit.
  local network process
  network=$(readlink "/proc/$(<"$other")/ns/net")
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/ns/net" 2>/dev/null) == "$network" ]] && kill -KILL "${process#/proc/}"
  done
}
# The watchdog reports first. If its limit is long, Open MPI does, whose keepalive time shakedown launch shortens.
cut_link watchdog 4 "timeout: .*$(named 2), $(named 3) send no heartbeats"
cut_link keepalive 60 'Remote daemon: .* on node nodeb' OMPI_MCA_oob_tcp_keepalive_time=8 OMPI_MCA_oob_tcp_keepalive_intvl=2 OMPI_MCA_oob_tcp_keepalive_probes=3
launch=("${hosts_launch[@]}")
