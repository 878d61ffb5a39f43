#!/usr/bin/env bash
# 1,000 nodes, from the start of accept in a job of Slurm to the names of a bad GPU and of a node that does not answer:
# - 8 GPUs in each: the answers of the hosts and the results of pre-flight are generated, and printed by a stand-in for srun
# - the rendezvous of all ranks, which are threads
# - real ranks of the host backend, one for each host name, which a stand-in for srun starts on this machine
# Fewer nodes than at night, unless SHAKEDOWN_NIGHTLY=1; real ranks only as many as REAL_HOSTS says (8). docs/operating.md has
# the figures. Needs root (else exit code 77, skipped).
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs ip
namespaces
unset SHAKEDOWN_EXPECT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!OMPI_MCA_orte@}"
[[ -n ${SHAKEDOWN_NIGHTLY:-} ]] && nodes=1000 || nodes=100
real=${REAL_HOSTS:-8} limit=600

# on_nodes NODES TASKS BIN COMMAND...: runs it as in the script of a Slurm job of these nodes, whose srun is BIN/srun. All names
# are those of this machine, and the last node does not answer.
on_nodes() {
  export LAST
  LAST=$(printf 'node%04d' $(($1 - 1)))
  { echo "127.0.0.1 localhost" && for ((i = 0; i < $1; i++)); do printf '10.77.0.1 node%04d\n' "$i"; done; } >hosts
  run 1 unshare --net --mount bash -c 'ip link set lo up && ip link add net type bridge && ip addr add 10.77.0.1/24 dev net &&
    ip link set net up && mount --bind hosts /etc/hosts && exec "$@"' - env PATH="$scratch/$3:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES="$1" SLURM_NTASKS="$2" \
    "SLURM_JOB_NODELIST=node[0000-${LAST#node}]" SHAKEDOWN_RESULTS="$scratch/results" "${@:4}"
}
timed() {
  local began
  began=$(date +%s.%N)
  "$@"
  took=$(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $began }")
}
within() { awk "BEGIN { exit !($took < $1) }"; }

mkdir generated started
cat >generated/srun <<'END'
#!/usr/bin/env bash
case "$*" in
  *--mpi=list*) echo "MPI plugin types are... none pmix pmix_v4" ;;
  *" discover"*)
    cat answers
    echo "srun: error: Task launch for StepId=7.0 failed on node $LAST: Communication connection failure" >&2
    exit 1
    ;;
  *bench_preflight*)
    all=$* id=${all##*--run-id=}
    sed "s/\"run_id\": *\"[^\"]*\"/\"run_id\": \"${id%% *}\"/" preflight.json
    ;;
esac
END
cat >started/srun <<'END'
#!/usr/bin/env bash
[[ $* != *--mpi=list* ]] || { echo "MPI plugin types are... none pmix pmix_v4" && exit; }
while [[ $1 == -* ]]; do
  [[ $1 != -[Nnw] ]] || shift
  shift
done
mapfile -t names < <(awk '$2 ~ /^node/ { print $2 }' hosts)
unset 'names[-1]'
ranks=()
if [[ $2 == discover ]]; then
  echo "srun: error: Task launch for StepId=7.0 failed on node $LAST: Communication connection failure" >&2
else
  export WORLD_SIZE=${#names[@]} MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 RANK=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
fi
for i in "${!names[@]}"; do
  RANK=$i unshare --uts sh -c 'hostname "$0" && exec "$@"' "${names[i]}" "$@" &
done
code=0
for i in "${!names[@]}"; do wait -n || code=$?; done
exit $code
END
chmod +x generated/srun started/srun

"$build/tests/rehearsal/write_fleet" "$nodes" preflight lane "$scratch" || exit 1
timed on_nodes "$nodes" $((8 * nodes)) generated "$build/bin/shakedown" accept --families=preflight --allow-faults
echo "$nodes nodes of 8 GPUs: the verdict came $took s after the start of accept"
expect "the verdict is of all nodes but one" prints "^VERDICT: FAIL .*$((8 * (nodes - 1))) ranks, $((nodes - 1)) hosts"
expect "  and names the GPU, and the node that does not answer" eval 'prints "nvlinks_up" && grep -q "$LAST" out'
expect "  in 30 s" within 30
expect "  with a short text" test "$(wc -l <out)" -lt 60
[[ $failures == 0 ]] || tail -n 30 out err

run 0 "$build/tests/generated_ranks" $((8 * nodes)) 30
echo "$(<out)"
expect "all ranks find each other in 30 s" prints "^$((8 * nodes)) of $((8 * nodes)) ranks have the list of all ranks after "

before=$failures
timed on_nodes "$real" "$real" started env OPENBLAS_NUM_THREADS=1 "$build/bin/shakedown" accept --families=preflight,pairs --backend=host
echo "$real hosts with one rank each: the verdict came $took s after the start of accept"
expect "all real ranks but those of one host are measured" prints "^VERDICT: FAIL .*$((real - 1)) ranks, $((real - 1)) hosts"
expect "  and the host that does not answer is named" grep -q "$LAST" out
expect "  in 60 s" within 60
[[ $failures == "$before" ]] || tail -n 30 out err
finish
