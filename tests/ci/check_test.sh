#!/usr/bin/env bash
# The Slurm check of a node: which verdicts mean fit, which unfit, and which faults are not faults of the node.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1

# An installation whose program answers as the test wants, and a Slurm that records its commands.
mkdir -p tree/bin tree/ci tools
cp -r "$root/ci/slurm" tree/ci/
cat >tree/bin/shakedown <<'END'
#!/usr/bin/env bash
printf '%s\n' "$*" >"$CALLED"
env >>"$CALLED"
[[ -z ${HANG:-} ]] || { trap '' TERM; while :; do sleep 1; done; }
{ echo "${REASON:-}" >&3; } 2>/dev/null
echo "VERDICT: ${REASON%%:*}"
exit "${CODE:-0}"
END
printf '#!/usr/bin/env bash\necho "$*" >>%q\nexit ${SCONTROL:-0}\n' "$scratch/scontrol.log" >tools/scontrol
chmod +x tree/bin/shakedown tools/scontrol
export CALLED=$scratch/called
check=$scratch/tree/ci/slurm/check
gate() { run "$1" env PATH="$scratch/tools:$PATH" REASON="$2" CODE="$3" "$check" "${@:4}"; }
told() { grep -q -- "$1" scontrol.log 2>/dev/null; }
fresh() { rm -f scontrol.log; }
prints() { grep -qE -- "$1" <(tr -d '\n' <out); }  # all lines joined

for reason in "FIT preflight judged by h200-sxm" "PASS gemm judged by h200-sxm" "HOST-ONLY preflight judged by host"; do
  gate 0 "$reason" 0
  expect "${reason%% *} is fit, without a word" silent
done
gate 0 "NO REFERENCE 3/9: no profile fits NVIDIA X1" 3
expect "GPUs that no profile knows are fit, and that is said" prints 'no profile .*as fit: '
gate 1 "FAIL 39/40: preflight/of:gpu gpu_ecc_errors 5, rank 3" 1 --drain
expect "a failed check is unfit" prints '^shakedown: FAIL 39/40: preflight/of:gpu'
expect "  and drains the node with the reason" told "state=drain reason=shakedown: FAIL 39/40"
fresh
for state in INCOMPLETE INCONCLUSIVE PARTIAL; do
  gate 1 "$state 0/0: no space left on device" 3 --drain
  expect "$state is unfit: nothing is known of the node" prints "^shakedown: not measured: $state"
  expect "  and drains it" told 'state=drain'
  fresh
  gate 0 "$state 0/0: no space left on device" 3 --drain --on-unmeasured=pass
  expect "  unless that is wanted to pass, and is said" eval 'prints "^shakedown: not measured, counted as fit: $state" && ! told drain'
done
gate 1 "" 139
expect "a program that dies is unfit" prints '^shakedown: not measured: '
gate 1 "INCOMPLETE 0/0: the driver of node3 does not answer: nvmlInit_v2, 30 s" 3 --drain
expect "a driver that does not answer is the node's" told 'the driver of node3 does not answer'
fresh

# Causes shared with other nodes.
gate 3 "INCOMPLETE 0/0: node3: open $scratch/tree/share/shakedown/thresholds/host.yaml does not answer, 20 s" 3 --drain
expect "a dead file server of the installation is shared" prints '^shakedown: shared: INCOMPLETE'
gate 3 "error: h100-sxm.yaml:3:1: unknown member" 2 --drain
expect "a profile that cannot be read is shared" prints '^shakedown: shared: error: h100'
gate 3 "INCOMPLETE 0/0: node3: getpwuid, the entry of this user does not answer, 20 s" 3 --drain
expect "a dead name service is shared" prints '^shakedown: shared: '
gate 3 "INCOMPLETE --ledger: /shared/ledger: is not a folder; create the folder once" 3 --gate=10 --drain
expect "a ledger that is away is shared" prints '^shakedown: shared: INCOMPLETE --ledger'
for wrong in --gate=ten --gate= --gate=4 --gate=601 --limit=30sec --limit=1x --limit= --limit=0 --limit=-5 --quik --on-unmeasured=fail; do
  gate 3 "FIT 1/1: preflight" 0 "$wrong" --drain
  expect "$wrong is refused before anything is asked" prints "^shakedown: shared: ci/slurm/check: $wrong: "
done
expect "  and drains nothing" eval '! told drain'
HANG=1 gate 3 "" 0 --limit=1
expect "a program that does not even keep its limit is shared" prints '^shakedown: shared: '
SLURM_SCRIPT_CONTEXT=prolog_slurmd SLURM_JOB_ID=17 gate 0 "error: h100.yaml" 2
expect "in a prolog the job is requeued instead, so that Slurm does not drain the node" told '^requeue 17$'
SCONTROL=1 SLURM_SCRIPT_CONTEXT=prolog_slurmd SLURM_JOB_ID=17 gate 3 "error: h100.yaml" 2
expect "  and if that fails the gate is closed" prints '^shakedown: shared: error'

# The arguments and environment of the program, and the output of the check.
SLURM_JOB_ID=5 SLURM_NTASKS=8 CUDA_VISIBLE_DEVICES=0 SLURMD_NODENAME=node9 gate 0 "FIT 1/1: preflight" 0 --limit=44
expect "the program has the limit" grep -q '^accept --limit=44 --families=preflight' called
expect "  nothing of the job" eval '! grep -qE "^(SLURM_|CUDA_VISIBLE_DEVICES)" called'
expect "  and the node's name in Slurm, whose promise of GPUs counts" grep -q '^SHAKEDOWN_SLURM_NODE=node9$' called
gate 0 "PASS all judged" 0 --quick
expect "--quick measures all families" eval '! grep -q families= called && grep -q "^accept --limit=120" called'
gate 0 "FIT gemm, hbm judged" 0 --gate=10
expect "--gate measures a gate, which has its own limit" grep -q '^accept --gate=10$' called
gate 1 "FAIL 1/9: $(printf 'a-long-word-of-this-reason %.0s' {1..12})" 1
expect "a long reason is printed in whole words, 80 bytes a line" eval '[[ $(awk "{ print length > 80 || /[a-z]$/ && !/reason$/ }" out | grep -c 1) == 0 ]]'

# Without a program.
mv tree/bin/shakedown . && gate 0 "" 0
expect "no program in a folder that can be listed is fit, and said" prints '^shakedown: no bin/shakedown .*as fit'
mv shakedown tree/bin/ && mv tree/bin tree/bin.away && ln -s loop tree/loop && ln -s loop tree/bin && gate 3 "" 0
expect "a folder that cannot be listed is not an empty one" prints '^shakedown: shared: the folder'
rm tree/bin tree/loop && mv tree/bin.away tree/bin

# array.sbatch: each node alone, and one of them gives no answer.
mkdir fakes && printf '#!/usr/bin/env bash\necho "VERDICT: FIT 40/40" >"$out/node-a1.log"\n' >fakes/srun
printf '#!/usr/bin/env bash\nprintf "node-a1\\nnode-a2\\n"\n' >fakes/scontrol && chmod +x fakes/*
run 3 env PATH="$scratch/fakes:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST=node-a[1-2] SLURM_SUBMIT_DIR="$scratch" \
  SHAKEDOWN_HOME="$scratch/tree" "$root/ci/slurm/array.sbatch"
expect "array.sbatch prints a line for a node that gave an answer" prints 'node-a1  FIT 40/40'
expect "  and for one that gave none" prints 'node-a2  no answer: .*node-a2.log '
expect "  and counts the good ones" prints '1 of 2 nodes'

# The real program: an attack on the launcher's folder, and a process without free descriptors.
mkdir -p real/ci && cp -r "$root/ci/slurm" real/ci/ && ln -s "$build" real/build
mkdir sticky && chmod 1777 sticky && ln -s /nowhere "sticky/ompi.$(uname -n | cut -d. -f1).$(id -u)"
TMPDIR=$scratch/sticky run 0 real/ci/slurm/check --limit=100
expect "a link that somebody plants for mpirun changes nothing" silent
for gpus in 8 0; do
  printf '#!/usr/bin/env bash\necho "NodeName=node9 State=IDLE Gres=gpu:h100:%s CfgTRES=cpu=2"\n' $gpus >tools/scontrol
  env PATH="$scratch/tools:$PATH" SLURMD_NODENAME=node9 real/ci/slurm/check --limit=100 >"gres$gpus" 2>/dev/null
  echo $? >>"gres$gpus"
done
expect "a node whose GPUs Slurm promises and which has none is unfit" eval '[[ $(tail -n 1 gres8) == 1 ]] && grep -q "slurm_gpus_missing is [1-9]" <(tr -d "\n" <gres8)'
expect "  and one without such a promise is fit" eval '[[ $(cat gres0) == 0 ]]'
run not0 bash -c 'ulimit -n 8; exec real/ci/slurm/check --limit=30'
expect "a node without descriptors is unfit" eval '! prints "as fit"'

finish
