#!/usr/bin/env bash
# The shakedown command under schedulers that list hosts and have an agent of their own: LSF, and MPI operators of MPICH and Intel
# MPI. The agents are stand-ins that run the command here, under the name of the host.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154,SC2317

# Open MPI connects the ranks of different hosts over a network that is not the loopback. Not every machine reaches itself over
# one, so the test brings its own.
if [[ -z ${inside_network-} ]] && unshare --net true 2>/dev/null; then
  inside_network=yes exec unshare --net -- "$0" "$@"
fi
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs mpirun ip
namespaces
ip link set lo up && ip link add eth0 type veth peer name eth1 && ip addr add 10.77.0.1/24 dev eth0 && ip link set eth0 up && ip link set eth1 up || exit 1
limit=60
unset SHAKEDOWN_EXPECT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!LSB_@}" "${!HYDRA_@}" "${!I_MPI_@}" "${!OMPI_MCA_orte@}" "${!OMPI_MCA_plm@}" "${!PRTE_MCA_@}"
export SHAKEDOWN_RESULTS=$scratch/results SCRATCH=$scratch

# agent FOLDER/NAME: AGENT [-o OPTION] [-x] HOST COMMAND. The host in REFUSED does not start anything.
agent() {
  mkdir -p "$(dirname "$1")"
  cat >"$1" <<'END_OF_AGENT'
#!/bin/bash
echo "$(basename "$0") $*" >>"$SCRATCH/calls"
while [[ $1 == -* ]]; do [[ $1 != -o ]] || shift; shift; done
[[ " ${REFUSED:-} " != *" $1 "* ]] || { echo "$1: Permission denied (publickey)." >&2 && exit 255; }
exec unshare --uts sh -c "hostname $1; ${*:2}"
END_OF_AGENT
  chmod +x "$1"
}
agent lsf/blaunch
agent ssh/ssh
agent kube/kubexec.sh
accept=("$build/bin/shakedown" accept --families=preflight --startup-timeout=20)
measured() { # 2 hosts with these names, 2 ranks on each, in one verdict
  prints '^VERDICT: HOST-ONLY .*4 ranks, 2 hosts' &&
    [[ $("$build/bin/shakedown" nodes --results=results/latest | grep -oE '"host": ?"[^"]*"' | cut -d'"' -f4 | paste -sd' ') == "$1 $2" ]]
}
with() { run "$1" env PATH="$scratch/$2:$PATH" "${@:3}" "${accept[@]}"; }

# --- LSF ------------------------------------------------------------------------------------------------------------------------
printf 'c05n14\nc05n14\nc05n15\nc05n15\n' >slots
with 0 lsf LSB_DJOB_HOSTFILE="$scratch/slots" LSB_MCPU_HOSTS="c05n14 2 c05n15 2 "
expect "the hosts of LSF's file are measured, on all of their slots" measured c05n14 c05n15
expect "  and blaunch has started each" eval '[[ $(cut -d" " -f1,2 calls | sort -u | paste -sd,) == "blaunch c05n14,blaunch c05n15" ]]'
with 0 lsf LSB_MCPU_HOSTS="$(hostname) 1 c05n14 2 c05n15 2 "
expect "so are those of the variable, without the launch node" eval 'measured c05n14 c05n15 && says "$(hostname) has one"'
with 0 lsf LSB_HOSTS="c05n14 c05n15 c05n14 c05n15"
expect "so are those of the variable without numbers" measured c05n14 c05n15
mkdir bus && for address in 1 2 3; do
  mkdir -p "bus/bus/pci/devices/0000:0$address:00.0" bus/module
  echo 0x10de >"bus/bus/pci/devices/0000:0$address:00.0/vendor"
  echo 0x030200 >"bus/bus/pci/devices/0000:0$address:00.0/class"
done
run 0 env PATH="$scratch/lsf:$PATH" SHAKEDOWN_SYSFS="$scratch/bus" LSB_MCPU_HOSTS="c05n14 42 c05n15 42" "$build/bin/shakedown" launch hostname
expect "the GPUs of a host, and not its slots, are its ranks" eval '[[ $(sort out | uniq -c | tr -s " " | paste -sd,) == " 3 c05n14, 3 c05n15" ]]'

with 1 lsf REFUSED=c05n15 LSB_DJOB_HOSTFILE="$scratch/slots"
expect "a host that the agent cannot start is named and missing" eval 'says "host c05n15 does not answer.*Permission denied" && prints "machine/absent/host:c05n15" && prints "2 ranks"'
with 3 lsf REFUSED="c05n14 c05n15" LSB_DJOB_HOSTFILE="$scratch/slots"
expect "if it can start none, the run is INCOMPLETE, with the cause" eval 'says "no host of c05n14, c05n15 has answered: .*Permission denied" && prints "^VERDICT: INCOMPLETE"'
with 3 ssh LSB_DJOB_HOSTFILE="$scratch/slots"
expect "without blaunch nothing is started" says 'add blaunch'
with 3 lsf LSB_DJOB_HOSTFILE="$scratch/slots" SHAKEDOWN_RANKS=2
expect "nor with a number of ranks that is for one host" says 'SHAKEDOWN_RANKS '
: >empty
with 3 lsf LSB_DJOB_HOSTFILE="$scratch/empty"
expect "nor from an empty file" says 'empty, .* no hosts'
with 3 lsf LSB_DJOB_HOSTFILE="$scratch/nosuch"
expect "nor from a file that is not there" says 'nosuch, .*cannot be'
with 2 lsf LSB_MCPU_HOSTS="c05n14 0 c05n15 8"
expect "nor on a host without a slot" says 'LSB_MCPU_HOSTS:2:1: "0" '

# --- operators of MPI -----------------------------------------------------------------------------------------------------------
printf 'job-worker-0.job.default.svc:2\njob-worker-1.job.default.svc:2\n' >workers
rm -f calls
with 0 ssh HYDRA_HOST_FILE="$scratch/workers" HYDRA_LAUNCH_EXTRA_ARGS="-o ConnectionAttempts=10"
expect "the workers of an MPIJob of MPICH are measured" measured job-worker-0 job-worker-1
expect "  by ssh with the operator's options" eval '[[ $(grep -cE "^ssh -o ConnectionAttempts=10 (-x )?job-worker-[01]" calls) == $(wc -l <calls) ]]'
for variables in "HYDRA_HOST_FILE HYDRA_LAUNCHER_EXEC" "I_MPI_HYDRA_HOST_FILE I_MPI_HYDRA_BOOTSTRAP_EXEC"; do
  read -r file exec <<<"$variables"
  rm -f calls
  with 0 ssh "$file=$scratch/workers" "$exec=$scratch/kube/kubexec.sh"
  expect "the agent that $exec names starts them" eval 'measured job-worker-0 job-worker-1 && [[ $(cut -d" " -f1 calls | sort -u) == kubexec.sh ]]'
done
echo "job-worker-0:2" >worker
with 0 ssh I_MPI_HYDRA_HOST_FILE="$scratch/worker"
expect "one worker is measured, and not the launcher" eval 'prints "on 2 ranks" && grep -q job-worker-0 <("$build/bin/shakedown" nodes --results=results/latest)'
with 3 ssh HYDRA_HOST_FILE="$scratch/workers" HYDRA_LAUNCHER_EXEC=/etc/nosuch/kubexec.sh
expect "an agent that is not there is named" says 'add /etc/nosuch/kubexec.sh to PATH'
mkdir mpich && printf '#!/bin/sh\necho "HYDRA build details:"\n' >mpich/mpirun && chmod +x mpich/mpirun
with 3 mpich HYDRA_HOST_FILE="$scratch/workers"
expect "the mpirun of another MPI is not used" says "workers .*another MPI"
finish
