#!/usr/bin/env bash
# Ranks that die during startup are restarted up to twice. After that the run is INCOMPLETE, and no machine is at fault.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2054,SC2154,SC2317
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs mpirun
limit=60
unset SHAKEDOWN_EXPECT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!OMPI_MCA_orte@}"
export SHAKEDOWN_RESULTS=$scratch/results
# Runs between mpirun and each rank. Rank 1 of a benchmark dies before MPI_Init in the first launches; the file deaths has
# their number.
cat >dies <<END
#!/bin/bash
if [[ \$1 == */bench_* && \$OMPI_COMM_WORLD_RANK == 1 ]]; then
  echo >>"$scratch/launches"
  [[ \$(wc -l <"$scratch/launches") -gt \$(cat "$scratch/deaths") ]] || kill -SEGV \$\$
fi
exec "\$@"
END
chmod +x dies
export SHAKEDOWN_LAUNCH="mpirun --bind-to none --oversubscribe -np 2 $scratch/dies"

# Pre-flight alone is FIT, two families are PARTIAL. accept handles each of these cases separately.
for families in preflight preflight,jitter; do
  [[ $families == preflight ]] && code=0 || code=3
  rm -f launches
  echo 2 >deaths
  run "$code" "$build/bin/shakedown" accept --families="$families"
  expect "$families: a rank that dies in its start twice is started a third time, and that is said" \
    eval 'says "crashed during startup, launch 2 of 3 .rank 1 on .*: signal 11 .Segmentation fault" && [[ -s results/latest/preflight.json && $(wc -l <launches) -eq 3 ]]'
  expect "  the result warns of it, and nothing crashed" eval 'prints "^warn: machine/start_attempts: 3 launches" && ! prints machine/crashed'
  "$build/bin/shakedown" report --results=results >out
  expect "  wherever it is judged" prints "^warn: machine/start_attempts: 3 launches"
  rm -f launches
  echo 9 >deaths
  run 3 "$build/bin/shakedown" accept --families="$families"
  expect "  one that dies each time makes the run INCOMPLETE, with rank, host and reason" \
    eval 'says "in each of 3 launches: rank 1 on $(hostname): signal 11" && [[ $(tail -n 1 out) == "VERDICT: INCOMPLETE 0/0"* && $(wc -l <launches) -eq 3 ]]'
done
finish
