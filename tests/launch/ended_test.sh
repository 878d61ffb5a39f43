#!/usr/bin/env bash
# An interrupted run is judged by its results so far. A soak continues after a round that cannot be measured.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2054,SC2154,SC2317
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs mpirun
unset SHAKEDOWN_EXPECT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!OMPI_MCA_orte@}"
export SHAKEDOWN_RESULTS=$scratch/results
ends() { # WHEN SIGNAL: starts an acceptance, sends the signal once WHEN succeeds, and waits; sets $code to the exit code
  rm -rf results
  env --default-signal=INT,TERM,HUP "$build/bin/shakedown" accept >out 2>err 3>&- &
  front=$!
  until "$1" || ! kill -0 "$front"; do sleep 0.01; done 2>/dev/null
  kill "-$2" "$front"
  began=$SECONDS code=0
  wait "$front" || code=$?
  took=$((SECONDS - began))
}
begun() { local mask; [[ $(<"/proc/$front/comm") == shakedown ]] && mask=$(sed -n 's/^SigBlk:\s*//p' "/proc/$front/status") && ((0x$mask & 0x4000)); }
one_family() { [[ -s results/latest/preflight.json ]]; }

for signal in TERM INT HUP; do
  ends one_family $signal
  expect "SIG$signal ends a run within 5 s with what was measured" eval '[[ $code == 3 && $(tail -n 1 out) == "VERDICT: INCOMPLETE "[1-9]* ]] && ((took <= 5))'
  expect "  says so, and keeps the verdict" eval 'says "ended by SIG$signal" && grep -q "\"verdict\": \"incomplete\"" results/latest/verdict.json'
  verdict=$(tail -n 1 out)
  run 3 "$build/bin/shakedown" report --results=results
  expect "  which is the same wherever the run is judged" eval '[[ $(tail -n 1 out) == "$verdict" ]] && prints "not completed: ended by SIG$signal"'
  ends begun $signal
  expect "  at its very start it ends with a verdict, too" eval '[[ $code == 3 && $(tail -n 1 out) == "VERDICT: INCOMPLETE 0/0"* ]]'
done

SLURM_JOB_END_TIME=$(($(date +%s) + 3)) ends one_family TERM
expect "a plan that the job's time limit cuts short is said" says 'about [0-9]+ s, and .* -?[0-9]+ s: .*time limit'
SLURM_JOB_END_TIME=$(($(date +%s) + 9999)) ends one_family TERM
expect "  and nothing else" eval '! says "raise the job.s time limit"'

# Rank 1 dies at the start of launches 2 to 4, which are the second round.
cat >dies <<END
#!/bin/bash
if [[ \$1 == */bench_* && \$OMPI_COMM_WORLD_RANK == 1 ]]; then
  echo >>"$scratch/launches"
  [[ \$(wc -l <"$scratch/launches") != [234] ]] || kill -KILL \$\$
fi
exec "\$@"
END
chmod +x dies
run 3 env SHAKEDOWN_LAUNCH="mpirun --bind-to none --oversubscribe -np 2 $scratch/dies" "$build/bin/shakedown" accept --for=12s --families=preflight
expect "a soak goes on after a round whose ranks die" eval '[[ $(grep -c "\"round\":" results/latest/rounds.jsonl) -ge 3 ]]'
expect "  which is a round with its finding, and names the rank" prints 'in 1 of [0-9]+ rounds, at .*machine/round: .* rank 1 on '
expect "  and no failure of the machine" prints '^VERDICT: INCOMPLETE '
finish
