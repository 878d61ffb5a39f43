#!/usr/bin/env bash
# Runs a command on a real Slurm with nodes in namespaces, each with its own network, host name, shared memory and mounts.
#   tests/slurm/cluster.sh DIR NODES GPUS COMMAND...
# DIR keeps logs (tests/rack.bash). The command runs on the login node; node-a1 to node-aN are in the partition main. Each node
# has 4 cores and GPUS devices that srun counts and binds, but that do not exist. more_slurm_conf has further lines of slurm.conf.
# Everything ends with the command, even if it is killed. Needs root, slurmctld, slurmd and munged.
# shellcheck source-path=SCRIPTDIR source=../rack.bash disable=SC2154
source "$(dirname "$(dirname "$(readlink -f "$0")")")/rack.bash"
dir=$rack nodes=$2 gpus=$3
shift 3
names=()
for ((i = 1; i <= nodes; i++)); do names+=("node-a$i"); done
rack_of login "${names[@]}"
mkdir -p "$dir/state" "$dir/spool" /run/munge
export SLURM_CONF=$dir/slurm.conf

head -c 1024 /dev/urandom >"$dir/munge.key"
chmod 400 "$dir/munge.key"
munged --force --key-file="$dir/munge.key" --socket=/run/munge/munge.socket --pid-file=/run/munge/pid \
  --log-file="$dir/munged.log" --seed-file=/run/munge/seed

for ((i = 0; i < gpus; i++)); do [[ -e $dir/gpu$i ]] || mknod "$dir/gpu$i" c 1 3; done
cat >"$SLURM_CONF" <<EOF
ClusterName=shakedown
SlurmctldHost=login(10.78.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=/run/munge/munge.socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
# A busy machine answers late. Slurm marks a node without an answer as down and kills its jobs.
SlurmdTimeout=120
MessageTimeout=60
TCPTimeout=6
KillWait=5
NodeName=node-a[1-$nodes] CPUs=4 RealMemory=2000 $([[ $gpus == 0 ]] || echo "Gres=gpu:h200:$gpus")
PartitionName=main Nodes=node-a[1-$nodes] Default=YES State=UP DefMemPerCPU=400
${more_slurm_conf:-}
EOF
if [[ $gpus == 0 ]]; then : >"$dir/gres.conf"; else
  echo "NodeName=node-a[1-$nodes] Name=gpu Type=h200 File=$dir/gpu[0-$((gpus - 1))] Flags=nvidia_gpu_env" >"$dir/gres.conf"
fi
echo "PMIxCliTmpDirBase=/var/tmp" >"$dir/mpi.conf"  # private to each node; otherwise a step on two nodes fails
slurmctld -c

for ((i = 1; i <= nodes; i++)); do
  mkdir -p "$dir/spool/node-a$i"
  run_host $i "node-a$i" "exec slurmd -D -N node-a$i"
done
for ((i = 0; i < 200; i++)); do
  [[ $(sinfo -h -t idle -o %D 2>/dev/null) != "$nodes" ]] || exec "$@"
  sleep 0.1
done
echo "cluster.sh: the nodes did not come up: $(sinfo -h -N -o '%N %T' 2>&1 | tr '\n' ' '); $dir has the logs" >&2
exit 1
