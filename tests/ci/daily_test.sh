#!/usr/bin/env bash
# ci/slurm/daily.sbatch on a real Slurm with eight nodes in namespaces: users' jobs preempt its jobs five times (20 at
# night), and each node is measured all the same. The measurement is a generated run that waits while a file exists.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
limit=500
[[ -n ${SHAKEDOWN_NIGHTLY:-} ]] && preemptions=20 || preemptions=5
export preemptions
needs slurmctld slurmd munged srun ip
namespaces

mkdir -p tree/ci tree/bin ledger
ln -s "$root/ci/slurm" tree/ci/slurm
export SHAKEDOWN_HOME=$PWD/tree SHAKEDOWN_LEDGER=$PWD/ledger real=$build/bin/shakedown
"$real" demo --fault=none --out=demo >/dev/null
cat >tree/bin/shakedown <<'EOF'
#!/usr/bin/env bash
# accept: records that it began, waits, and adds the run of this node to the ledger.
[[ $1 == accept ]] || exec "$real" "$@"
node=$SLURMD_NODENAME here=$(dirname "$SHAKEDOWN_LEDGER")
echo "$node" >>"$here/starts"
while [[ -e $here/hold ]]; do sleep 0.1; done
rm -rf "$here/run-$node" && cp -r "$here/demo" "$here/run-$node"
sed -i "s/\"host\": *\"demo\"/\"host\": \"$node\"/g; s/\"run_id\": *\"demo\"/\"run_id\": \"$SLURM_JOB_ID\"/; s/\"started\": *\"[^\"]*\"/\"started\": \"$(date -u +%FT%TZ)\"/" "$here/run-$node"/*.json
exec "$real" ledger add --results="$here/run-$node" --allow-faults
EOF
chmod +x tree/bin/shakedown
export more_slurm_conf='PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=1,batch_sched_delay=0
PartitionName=idle Nodes=ALL State=UP PriorityTier=0 DefMemPerCPU=400'

cat >rounds <<'EOF'
within() { for ((i = 0; i < 400; i++)); do eval "$1" && return 0; sleep 0.1; done; echo "not within 40 s: $1"; squeue; return 1; }
starts() { wc -l <starts; }
: >starts; : >hold
# node-a4 was measured today, node-a3 a month ago, the others never.
for node in node-a4 node-a3; do
  day=$(date -u +%FT%TZ); [[ $node == node-a4 ]] || day=$(date -u -d '30 days ago' +%FT%TZ)
  cp -r demo old; sed -i "s/\"host\": *\"demo\"/\"host\": \"$node\"/g; s/\"started\": *\"[^\"]*\"/\"started\": \"$day\"/" old/*.json
  "$real" ledger add --results=old --allow-faults; rm -r old
done
# The second of two jobs on one node begins later.
sbatch -Q -p main --exclusive -w node-a1 --wrap "sleep 3" >/dev/null
"$SHAKEDOWN_HOME/ci/slurm/daily.sbatch" 7 --partition=idle; echo "daily $?"
squeue -h -S -p -o '%j %p' | grep daily-node | sort -k2 -g -r | sed 's/^/queue: /'
sbatch -Q -W -o again.log "$SHAKEDOWN_HOME/ci/slurm/daily.sbatch" 7 --partition=idle; echo "as a job $? $(<again.log)"
within '[[ $(starts) == 7 ]]'
job=none
for ((preemption = 1; preemption <= preemptions; preemption++)); do
  # Not the job that has just started again: Slurm cancels a job that it cannot requeue while its start is under way.
  read -r job node < <(squeue -h -p idle -t running -o '%A %N' | grep -v "^$job " | shuf -n 1)
  before=$(starts)
  sbatch -Q -p main --exclusive -w "$node" --wrap true >/dev/null
  within "[[ -z \$(squeue -h -j $job -t running) ]]" || break
  # Slurm starts a job that it has requeued after two minutes.
  within "scontrol update jobid=$job starttime=now 2>/dev/null; [[ \$(starts) -gt $before ]]" || break
done
rm hold
within '[[ -z $(squeue -h) ]]'
echo "starts $(starts)"
"$real" history --all
cat shakedown-daily-*.log | sed 's/^/state: /'

# Return to service, by the commands that retest prints.
PATH=$SHAKEDOWN_HOME/bin:$PATH
scontrol update nodename=node-a1 state=drain reason="shakedown: fan"
shakedown ledger add --node=node-a1 --event=drained --reason=fan
sleep 1 # events have times in seconds
(cd "$SHAKEDOWN_HOME" && shakedown retest node-a1 | bash)
within '[[ -z $(squeue -h) ]]'
echo "proof: $(shakedown history node-a1 | head -n 1)"
shakedown retest node-a1 | bash
within '[[ $(sinfo -h -n node-a1 -p main -o %T) == idle* ]]' # a busy machine ends the job's step late
echo "returned: $(sinfo -h -n node-a1 -p main -o %T), $(scontrol show reservation), $(shakedown history node-a1 | head -n 1)"
EOF
run 0 "$root/tests/slurm/cluster.sh" "$PWD" 8 0 bash rounds
expect "nodes without a run in the last days get a job each" prints '^daily: 7 nodes '
expect "  those never tested before the oldest" eval 'grep "^queue" out | tail -n 1 | grep -q "daily-node-a3 "'
expect "a second round, as a job, adds none while they wait or run" prints '^as a job 0 daily: 0 nodes'
expect "jobs that are preempted start again: $preemptions preemptions" prints "^starts $((7 + preemptions))\$"
expect "  and no run is lost" prints '^LEDGER: 8 nodes: 8 good$'
expect "the last job prints the state of the nodes" prints '^state: LEDGER: 8 nodes: 8 good$'
expect "retest reserves a drained node, and runs there what proves it" prints '^proof: node-a1: .*; 2 of 2 good runs$'
expect "  and returns it" prints '^returned: idle[*]?, .*, node-a1: good since '
[[ $failures == 0 ]] || cat out err
finish
