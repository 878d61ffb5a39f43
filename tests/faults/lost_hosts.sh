#!/usr/bin/env bash
# Loses the third of three hosts in namespaces in one of twelve ways, while COMMAND measures them. Needs root.
#   lost_hosts.sh DIR BUILD file|prefix|srun WAY COMMAND...
# file: a host file of mpirun; prefix: mpirun --host as SHAKEDOWN_LAUNCH; srun: a real Slurm. Ways before the start: refused,
# password, key, route (ssh or slurmd does not start anything there), missing (no build), other (another build), slow (no answer).
# Ways of a rank there: start and init (it dies before and in MPI_Init), middle (it dies while it measures). Ways of the host while
# it measures, after DIR/measures exists: cut (no packet arrives), off (all processes are gone too). none: a healthy run.
# shellcheck source-path=SCRIPTDIR disable=SC2154
here=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$2 launcher=$3 way=$4

# spoil COMMAND...: runs it in the mounts of the host whose process is in $pid.
spoil() { nsenter -t "$pid" --mount --net -- "$@"; }
# lose: what is lost before the start, of the host whose process is in $pid; and a watch for the rest.
lose() {
  local program
  case $way in
    missing) spoil mount -t tmpfs tmpfs "$build/bin" ;;
    other | start)
      for program in "$build"/bin/bench_* "$build"/bench/bench_*; do  # of an installed copy, or of a build
        [[ -f $program && -x $program ]] || continue
        if [[ $way == other ]]; then (cat "$program" && echo) >"$rack/changed"; else printf '#!/bin/sh\nkill -SEGV $$\n' >"$rack/changed"; fi
        chmod +x "$rack/changed"
        cp "$rack/changed" "$rack/$(basename "$program")"
        spoil mount --bind "$rack/$(basename "$program")" "$program"
      done
      ;;
    init) export SHAKEDOWN_FAULT=kill@2:init ;;
    middle) export SHAKEDOWN_FAULT=kill@2 ;;
    cut | off) watch & ;;
  esac
}
watch() {
  local net process
  net=$(readlink "/proc/$pid/ns/net")
  until [[ -e $rack/measures ]]; do sleep 0.05; done
  ip link set port3 down
  [[ $way == off ]] || return 0
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/ns/net" 2>/dev/null) != "$net" ]] || kill -KILL "${process#/proc/}"
  done
}

if [[ $launcher == srun ]]; then
  if [[ ${inside_cluster:-} != yes ]]; then
    dir=$1
    shift 4
    export inside_cluster=yes
    exec "$here/slurm/cluster.sh" "$dir" 3 0 salloc -Q -N3 --ntasks-per-node=1 "$0" "$dir" "$build" srun "$way" "$@"
  fi
  rack=$1
  pid=$(<"$rack/node-a3.pid")
  shift 4
  case $way in
    refused) kill -KILL "$pid" ;;
    password) spoil mount --bind /dev/null /run/munge/munge.socket ;;
    key)
      head -c 1024 /dev/urandom >"$rack/other.key" && chmod 400 "$rack/other.key"
      munged --force --key-file="$rack/other.key" --socket="$rack/other.socket" --pid-file="$rack/other.pid" \
        --log-file="$rack/other.log" --seed-file="$rack/other.seed"
      spoil mount --bind "$rack/other.socket" /run/munge/munge.socket
      ;;
    route) ip link set port3 down ;;
    slow) kill -STOP "$pid" ;;
    *) lose ;;
  esac
  "$@"
  exit
fi

# shellcheck source=../rack.bash
source "$here/rack.bash"
shift 4
rack_of head m1 m2 m3
for number in 1 2 3; do
  run_host "$number" "m$number" "exec sleep 3600"
  ip link set "port$number" up
done
for host in m1 m2 m3; do until [[ -e $rack/$host.pid ]]; do sleep 0.05; done; done
pid=$(<"$rack/m3.pid")
cat >"$rack/agent" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
case "\$1 $way" in
  "m3 refused") echo "ssh: connect to host m3 port 22: Connection refused" >&2; exit 255 ;;
  "m3 password") echo "root@m3: Permission denied (publickey,password)." >&2; exit 255 ;;
  "m3 key") echo "Host key verification failed." >&2; exit 255 ;;
  "m3 route") echo "ssh: connect to host m3 port 22: No route to host" >&2; exit 255 ;;
  "m3 slow") sleep 3600 ;;
esac
exec nsenter -t "\$(<$rack/\$1.pid)" --net --uts --ipc --mount -- bash -c "\${*:2}"
END
chmod +x "$rack/agent"
printf '%s slots=1\n' m1 m2 m3 >"$rack/hostfile"
export OMPI_MCA_plm_rsh_agent=$rack/agent OMPI_MCA_orte_keep_fqdn_hostnames=true
if [[ $launcher == file ]]; then
  export OMPI_MCA_orte_default_hostfile=$rack/hostfile
else
  export SHAKEDOWN_LAUNCH="mpirun --bind-to none --oversubscribe --host m1,m2,m3 -np 3" SHAKEDOWN_EXPECT=hosts=3
fi
[[ $way != route ]] || ip link set port3 down
lose
"$@"
