#!/usr/bin/env bash
# The shakedown command, the job scripts and the node check on a real Slurm with nodes in namespaces.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
limit=400
needs slurmctld slurmd munged srun ip
namespaces

# A built tree, for scripts that search next to themselves.
mkdir -p tree/ci && ln -s "$root/ci/slurm" tree/ci/slurm && ln -s "$build" tree/build
slurm=$root/ci/slurm
cluster() { mkdir -p "$1" && "$root/tests/slurm/cluster.sh" "$@"; }
export -f cluster
export accept=$root/ci/accept slurm SHAKEDOWN_HOME=$PWD/tree
# Two GPUs on the bus of each node, which the front door counts; nothing is measured on them.
for address in 0000:01:00.0 0000:02:00.0; do
  mkdir -p "two_gpus/bus/pci/devices/$address" two_gpus/module
  echo 0x10de >"two_gpus/bus/pci/devices/$address/vendor"
  echo 0x030200 >"two_gpus/bus/pci/devices/$address/class"
done

run 0 "$root/tests/slurm/cluster.sh" "$PWD" 3 2 bash -c '
  "$slurm/smoke" --gpus=2; echo "smoke $?"
  scontrol update nodename=node-a2 state=drain reason="bad fan"
  "$slurm/smoke" --gpus=2; echo "smoke $?"
  scontrol update nodename=node-a2 state=resume
  export SHAKEDOWN_SYSFS=$PWD/two_gpus
  launch="$SHAKEDOWN_HOME/build/bin/shakedown launch hostname"
  # Slurm may choose any node, because a job that still completes keeps its node. On a busy machine srun and mpirun add
  # warnings to stderr.
  for mpi in none pmi2 pmix; do
    echo "one task, $mpi: $(srun --mpi=$mpi -N1 --gpus-per-node=2 $launch 2>>one_task.log | paste -sd" ")"
  done
  echo "one GPU: $(srun -N1 --gpus-per-node=1 $launch 2>>one_task.log | paste -sd" ")"
  echo "two tasks: $(srun -N1 -n2 --gpus-per-node=2 $launch 2>&1 | paste -sd" ")"
  echo "salloc: $(salloc -Q -N1 -n1 -w node-a3 --gpus-per-node=2 $launch 2>/dev/null | paste -sd" ")"
  echo "$launch" | sed "1i #!/bin/bash" | sbatch -Q -W -N1 --ntasks-per-node=1 --gpus-per-node=2 -w node-a2 -o batch.out
  echo "batch: $(paste -sd" " batch.out)"'
expect "a Slurm in order passes its smoke test" prints '^smoke 0$'
expect "a job runs on all idle nodes" prints '^ok: .* 3 idle nodes'
expect "each task has a GPU of its own" prints '^ok: each of 2 tasks'
expect "a drained node is found and named" prints '^FAIL: node-a2 is drained: bad fan'
expect "  and fails the smoke test" prints '^smoke 1$'
for mpi in none pmi2 pmix; do
  expect "one task of srun --mpi=$mpi starts a rank for each GPU of its node" prints "^one task, $mpi: (node-a[123]) \\1\$"
done
expect "  for those that srun gave it" prints '^one GPU: node-a[123]$'
expect "  and two tasks are refused, not two measurements at once" prints '^two tasks: .* 2 times'
expect "a batch script of one task starts a rank for each GPU" prints '^batch: node-a2 node-a2$'
expect "salloc from a login node starts ranks on the node of its job" prints '^salloc: node-a3 node-a3$'
[[ $failures == 0 ]] || cat out

rm -rf state spool
run 0 "$root/tests/slurm/cluster.sh" "$PWD" 2 0 bash -c '
  sbatch -W -N2 --ntasks-per-node=2 -o both.log "$slurm/accept.sbatch" --families=preflight --all; echo "both $?"
  sbatch -W -N2 -o each.log "$slurm/array.sbatch" --families=preflight; echo "each $?"
  env -i SLURMD_NODENAME=node-a1 "$slurm/check" --limit=100; echo "check $?"
  export SHAKEDOWN_BUILD=$SHAKEDOWN_HOME/build
  (SHAKEDOWN_LAUNCH="srun --mpi=none --kill-on-bad-exit=1 -N2 --ntasks-per-node=2" SHAKEDOWN_EXPECT=ranks=4,hosts=2 SHAKEDOWN_RESULTS=$PWD/of-prefix \
    "$accept" --families=preflight >prefix.log 2>&1; echo "prefix $?"; cat of-prefix/2*/log >>prefix.log)
  (SHAKEDOWN_LAUNCH="srun --mpi=none --kill-on-bad-exit=1 -N2 --ntasks-per-node=2" SHAKEDOWN_EXPECT=ranks=6,hosts=3 SHAKEDOWN_RESULTS=$PWD/of-more \
    "$accept" --families=preflight >more.log 2>&1; echo "more $?"; cat of-more/2*/log >>more.log)
  (SHAKEDOWN_RESULTS=$PWD/of-salloc salloc -N2 --ntasks-per-node=2 "$accept" --families=preflight >salloc.log 2>&1; echo "salloc $?"; cat of-salloc/2*/log >>salloc.log)
  (SHAKEDOWN_RESULTS=$PWD/of-task srun --mpi=pmix -N1 "$accept" --families=preflight >task.log 2>&1; echo "task $?")
  for mpi in none pmix; do
    mkdir "by-$mpi"
    for try in 1 2 3; do # pmix sometimes loses a rank
      salloc -N2 --ntasks-per-node=2 srun --mpi=$mpi --kill-on-bad-exit=1 "$SHAKEDOWN_BUILD/bench/bench_all" \
        --families=gemm,collectives --benchmark_filter="m:1024/|bytes:8(/|$)" --benchmark_min_time=0.001 --out-dir="by-$mpi" >"by-$mpi.log" 2>&1 && break
    done
    echo "by $mpi $? try $try"
  done
  (SHAKEDOWN_RESULTS=$PWD/of-killed SHAKEDOWN_FAULT=kill@3:init salloc -N2 --ntasks-per-node=2 "$accept" --families=preflight >killed.log 2>&1; echo "killed $?")
  unset SHAKEDOWN_BUILD
  export SHAKEDOWN_RESULTS=$PWD/of-drained
  sbatch -W -N2 --exclusive -o drained.log --wrap "scontrol update nodename=node-a2 state=drain reason=\"bad fan\"
    $SHAKEDOWN_HOME/build/bin/shakedown accept --families=preflight"; echo "drained $?"
  scontrol update nodename=node-a2 state=resume
  sinfo -h -N -o "%N %T"
  export SHAKEDOWN_RESULTS=$PWD/of-dead
  salloc -N2 --ntasks-per-node=2 bash -c "kill -KILL \$(<node-a2.pid); $SHAKEDOWN_HOME/build/bin/shakedown accept --families=preflight,jitter --all" >dead.log 2>&1; echo "dead $?"'
keys_of() { grep -ho '"name": *"[a-z]*/[^"]*"' "$1"/*.json | sort; }
expect "a job of two nodes is measured and judged as one" grep -qE '^VERDICT: HOST-ONLY .*4 ranks, 2 hosts' both.log
expect "  and its exit code is the verdict's" prints '^both 0$'
expect "a launch prefix of srun, from a login node, is used as it stands" eval 'grep -qE "^VERDICT: HOST-ONLY .*4 ranks, 2 hosts" prefix.log && prints "^prefix 0$"'
expect "  and what it does not start is missed" eval 'grep -q "^VERDICT: FAIL" more.log && prints "^more 1$"'
expect "what salloc runs starts ranks on all its nodes" eval 'grep -qE "^VERDICT: HOST-ONLY .*4 ranks, 2 hosts" salloc.log && prints "^salloc 0$"'
expect "one task of srun starts two ranks of MPI where there are no GPUs" eval 'grep -qE "^VERDICT: HOST-ONLY .*2 ranks" task.log && prints "^task 0$"'
expect "ranks that meet over TCP measure what ranks of MPI do" eval 'prints "^by none 0 try 1$" && prints "^by pmix 0 " && [[ -n $(keys_of by-none) && $(keys_of by-none) == "$(keys_of by-pmix)" ]]'
expect "a rank that dies in its start is started twice more, and named" eval 'grep -q "in each of 3 launches: rank 3 on node-a2: Killed" killed.log && prints "^killed 3$"'
expect "  and no machine is at fault" grep -q '^VERDICT: INCOMPLETE 0/0' killed.log
expect "a node whose daemon is dead is named with the word of srun" grep -q 'host node-a2 .*srun: error: ' dead.log
expect "  and the rest is measured" eval 'ls of-dead/latest/jitter.json && grep -q "^machine/hosts  *1 hosts .* pass" dead.log && prints "^dead 1$"'
expect "each node alone is measured and judged" eval '[[ $(grep -cE "^node-a[12]  HOST-ONLY" each.log) == 2 ]]'
expect "  and counted" grep -qE '^2 of 2 nodes' each.log
expect "what Slurm says of its nodes is judged" grep -qE '^preflight/of:slurm slurm_answers .* pass$' both.log
expect "a node that was drained meanwhile is warned of" grep -q '^warn: preflight/of:slurm slurm_drained' drained.log
expect "  with the reason" grep -q 'DRAIN: bad fan' drained.log
expect "  and the run passes all the same" prints '^drained 0$'
expect "the node check needs nothing in its environment" prints '^check 0$'

rm -rf state spool
# node-a3 is the first component, so the alphabetical order of the nodes is not that of the ranks.
export more_slurm_conf=$'SchedulerType=sched/backfill\nSchedulerParameters=bf_interval=1,bf_resolution=1'
run 0 "$root/tests/slurm/cluster.sh" "$PWD" 3 2 bash -c '
  het() { sbatch -Q -W -o "$1" -N1 -n1 --mem=100 -w node-a3 ${first:-} : -N2 -n4 --mem=100 --overcommit ${second:-} "${@:2}"; }
  printf "#!/bin/bash\\n%s accept --families=jitter --results=$PWD/of-het\\n" "$SHAKEDOWN_HOME/build/bin/shakedown" >het.sbatch
  het het.log het.sbatch; echo "het $?"
  export SHAKEDOWN_SYSFS=$PWD/two_gpus
  printf "#!/bin/bash\n%s launch hostname\n" "$SHAKEDOWN_HOME/build/bin/shakedown" >hostname.sbatch
  second=--gpus-per-node=2 het cpu_node.log hostname.sbatch; echo "cpu node $?"
  first=--gres=gpu:1 second=--gres=gpu:2 het gpus.log hostname.sbatch; echo "gpus $?"
  unset SHAKEDOWN_SYSFS
  sed "s/.*/kill -KILL $(<node-a2.pid); &/;1s/.*/#!\/bin\/bash/" hostname.sbatch >dead.sbatch
  het het_dead.log dead.sbatch; echo "dead $?"'
expect "a heterogeneous job is measured and judged as one, on all its components" eval 'grep -qE "^VERDICT: PARTIAL .*5 ranks, 3 hosts" het.log && prints "^het 3$"'
expect "a component for which the job asked for no GPU is left out, with a note" eval 'grep -q "node-a3: the job asked for no GPU there" cpu_node.log && [[ $(grep -c "^node-a[12]$" cpu_node.log) == 4 ]]'
expect "components with GPUs have a rank for each of them" eval '[[ $(grep "^node-a" gpus.log | sort | uniq -c | tr -s " " | paste -sd,) == " 2 node-a1, 2 node-a2, 1 node-a3" ]]'
expect "a node of a component that does not answer is left out and named" eval 'grep -q "host node-a2 " het_dead.log && grep -q node-a1 het_dead.log && grep -q node-a3 het_dead.log'

[[ $failures == 0 ]] || tail -n 20 ./*.log
finish
