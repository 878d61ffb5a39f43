#!/usr/bin/env bash
# The shakedown command as users call it, with programs that print a stored run: verdict, folders, faults, ctest.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2317,SC2030,SC2031,SC2154,SC1091
source "$(dirname "$0")/../shell.bash"
source "$root/tests/launch/front_door.bash"

# --- a verdict ------------------------------------------------------------------------------------------------------------
run 0 "${accept[@]}" --tier=full --timeout=77 --dcgm=2
expect "a stored healthy run passes" eval '[[ $(tail -n 1 out) == "VERDICT: PASS 1"*"(profile h200-sxm, 4 ranks)" ]]'
expect "  its verdict is kept" grep -q '"verdict": "pass"' "$latest/verdict.json"
expect "  progress goes to standard error, and everything into the log" eval 'says "^\[[0-9]/[0-9]\] gemm: ok, [0-9]+ s; closest to its limit: .* TFLOPS .min [0-9.]*.  gemm/dtype" && ! says "^\[1/1\]" && grep -q "gemm, 0 s" "$latest/log"'
expect "  the flags are handed on" grep -qE -- '--tier=full --timeout=77 .*--expect=hosts=1' arguments.gemm
expect "  DCGM's to pre-flight alone" eval 'grep -q -- --dcgm=2 arguments.preflight && ! grep -q dcgm arguments.gemm'
expect "  nothing is provisional" eval '! says provisional'
run 0 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "the folder of runs means its latest" eval '[[ $(tail -n 1 out) == "VERDICT: PASS"* ]]'
exec 4>reason
run 0 bash -c '"$0" "$@" 3>&4' "${accept[@]}"
expect "the reason is given on descriptor 3" grep -q '^PASS preflight, .* judged by h200-sxm' reason
expect "each run has a folder of its own" eval '[[ $(ls -d "$SHAKEDOWN_RESULTS"/2* | wc -l) -eq 2 ]]'

# Makes the memory of all GPUs slow.
sed -E 's/"hbm_gb_per_s": ?4([0-9]{3})/"hbm_gb_per_s":3\1/g; s/([ [,])4([0-9]{3}\.[0-9]+)/\13\2/g' "$stored/hbm.json" >stored/hbm.json
run 1 "${accept[@]}"
expect "what fails already is said at once, as provisional" says '^shakedown: provisional: (fail|invalid): hbm/'
expect "  and the verdict fails" prints '^VERDICT: FAIL'
failed=$(basename "$(readlink "$latest")")
run 1 "${accept[@]}" --again
expect "--again repeats what failed, and nothing else" eval '[[ $(cd "$latest" && ls *.json | tr "\n" " ") == "hbm.json preflight.json verdict.json " ]]'
expect "  it still fails: none is good now" prints '^again: of [0-9]+ .*, 0 are good'
cp "$stored/hbm.json" stored/
run 3 "${accept[@]}" --again
cp "$scratch/out" again.out
expect "  after the remedy all are good" prints '^again: of ([0-9]+) .*, \1 are good'
expect "  before and after in one row" prints '^HBM read by kernel, 4 GiB .* 3[0-9.]+ GB/s +45[0-9.]+ GB/s +pass$'
expect "  the verdict is of a part" prints '^VERDICT: PARTIAL .* 2 of [0-9]+ families,'
run 0 "${accept[@]}" --again="$failed" --partial-ok
expect "  a run can be named" prints "^failed in $failed "
run 2 "${accept[@]}" --again
expect "  of a good run there is nothing to repeat" says 'nothing failed .*VERDICT: PARTIAL'
run 2 "${accept[@]}" --again=nosuch
run 2 "${accept[@]}" --again --families=hbm
run 3 "${accept[@]}" --families=preflight,gemm
expect "families that were not asked for are not missed" prints '^VERDICT: PARTIAL .* 2 of [0-9]+ families,'
expect "  and not started" eval '! grep -q hbm "$latest/log"'
for wrong in --site=nosuch.yaml --baseline=nosuch --thresholds=nosuch --tier=full\ --tier=quick; do
  before=$(ls "$SHAKEDOWN_RESULTS")
  # shellcheck disable=SC2086  # words
  run 2 "${accept[@]}" $wrong
  expect "what is wrong with $wrong is said before anything is measured" test "$(ls "$SHAKEDOWN_RESULTS")" == "$before"
done
run 0 "${accept[@]}" --plan --families=gemm
expect "a plan is the programs'" grep -qx -- '--plan --tier=quick' arguments.gemm

# --- one program for all families ---------------------------------------------------------------------------------------------
cat >"$tree/bin/bench_all" <<END
#!/bin/bash
echo "\$@" >>"$scratch/arguments.all"
for flag; do
  [[ \$flag != --families=* ]] || IFS=, read -ra families <<<"\${flag#*=}"
  [[ \$flag != --run-id=* ]] || id=\${flag#*=}
done
[[ ! -e $scratch/refuses ]] || {
  "$tree/bin/shakedown" event '{"event": "refused", "text": "disk: has no room (--checkpoint-dir)"}'
  exit 2
}
for family in "\${families[@]}"; do
  [[ ! -e $scratch/dies.\$family ]] || kill -KILL \$\$
  echo "\$family" >>"$scratch/measured"
  printf '{"family": "%s", "result": %s}\n' "\$family" \
    "\$(sed 's/"run_id": *"[^"]*"/"run_id": "'"\$id"'"/' "$scratch/stored/\$family.json" | tr '\n' ' ')"
done
[[ ! -e $scratch/dies.afterwards ]] || kill -SEGV \$\$
[[ ! -e $scratch/stays ]] || sleep 100
END
chmod +x "$tree/bin/bench_all"
rm -f arguments.*
run 0 "${accept[@]}" --plan
expect "one start plans all families, so that the plan ends with their total" eval '[[ $(cat arguments.all) == "--plan --tier=quick --families=preflight,"*",pcie,"* ]]'
rm -f arguments.* measured
run 0 "${accept[@]}"
expect "one start measures all families" eval '[[ $(ls arguments.*) == arguments.all && $(wc -l <arguments.all) -eq 1 && $(wc -l <measured) -eq 9 ]]'
expect "  with the same verdict" prints '^VERDICT: PASS 1.*profile h200-sxm, 4 ranks'
rm arguments.all
(cd stored && run 0 "${accept[@]}" --checkpoint-dir=disk)
expect "checkpoints go into the folder that the user names, whatever that is called elsewhere" grep -q -- "--checkpoint-dir=$scratch/stored/disk " arguments.all
run 0 env SHAKEDOWN_CHECKPOINT_DIR=/disk "${accept[@]}"
expect "  or a variable" grep -q -- "--checkpoint-dir=/disk " arguments.all
rm -f arguments.*
touch refuses
run 2 "${accept[@]}"
expect "a flag that the programs refuse is no death: nothing else is tried" eval 'says "^error: disk: has no room .--checkpoint-dir.$" && ! says "measured alone" && ! prints VERDICT && [[ $(ls arguments.*) == arguments.all ]]'
rm -f refuses arguments.* measured
touch dies.hbm
run 1 "${accept[@]}"
expect "where it dies, that is said with the family" eval 'says "bench_all ended in hbm: env (was ended by SIGKILL|.*exit code 137)" && says "measured separately"'
expect "  the missing families are measured separately, and told who died" eval 'prints "machine/crashed" && grep -q -- --crashed=hbm arguments.hbm && [[ ! -e arguments.gemm && -s $latest/lora_step.json ]]'
rm -f dies.hbm arguments.* measured
touch dies.afterwards
run 1 "${accept[@]}"
expect "a death behind the last result is said, and measures nothing again" eval 'says "bench_all crashed after writing its last result: env (was ended by SIGSEGV|.*exit code 139)" && [[ $(ls arguments.*) == arguments.all ]]'
expect "  and is no pass" eval 'prints "machine/crashed" && prints "^VERDICT: FAIL"'
run 1 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "  whoever judges its results" prints 'crashed in lora_step'
rm -f dies.afterwards arguments.* measured
cp "$root/tests/data/preflight/h200-sxm-4ranks-pinned.json" stored/preflight.json
touch stays
run 1 "${accept[@]}"
expect "it is ended where pre-flight fails" eval '[[ ! -e $latest/gemm.json && ! -e $latest/crashed ]] && says "nothing else"'
cp "$stored/preflight.json" stored/
rm -f stays "$tree/bin/bench_all"

# --- no verdict -------------------------------------------------------------------------------------------------------------
run 2 "${accept[@]}" --nosuch
expect "an unknown flag is refused" eval 'says "^error: unknown flag" && ! prints VERDICT'
run 2 "${accept[@]}" --dcgm=4
expect "a level that DCGM does not have is refused" says "dcgm: '4' is not one of 1, 2, 3"
run 2 "${accept[@]}" --families=nosuch
expect "an unknown family is refused" says '"nosuch" is not one of preflight'
run 2 "${accept[@]}" --site=cluster.yaml
run 2 env SHAKEDOWN_RUN_ID=../up "${accept[@]}"
run 3 env SHAKEDOWN_LAUNCH=/nonexistent/srun "${accept[@]}"
expect "a launcher that is not there is no failure of the machine" eval '[[ $(tail -n 1 out) == "VERDICT: INCOMPLETE 0/0 (profile none, 0 ranks)" ]]'
expect "  and is named" says 'srun could not'
does gemm 'exit 5'
run 1 "${accept[@]}"
expect "a program without a result is missed" eval 'prints "^VERDICT: FAIL" && says "bench_gemm .*exit code 5"'
does gemm 'echo "{"; echo "\"context\": {"; exit 0'
run 1 "${accept[@]}"
expect "half a document is none" eval '[[ ! -e $latest/gemm.json ]]'
does gemm 'sed "s/\"run_id\": *\"[^\"]*\"/\"run_id\": \"$(echo "$@" | grep -o "run-id=[^ ]*" | cut -d= -f2)\"/" '"'$scratch/stored/gemm.json'" 'kill -BUS $$'
run 1 "${accept[@]}"
expect "a program that dies behind its result is no pass" eval 'says "bench_gemm crashed .*(was ended by SIGBUS|.*exit code 135)" && prints "crashed in gemm" && prints "^VERDICT: FAIL"'
does gemm 'echo "Authorized users only"'
run 0 "${accept[@]}"
expect "what else is printed before the document does not harm" test -s "$latest/gemm.json"
rm does.gemm
cp "$root/tests/data/preflight/h200-sxm-4ranks-pinned.json" stored/preflight.json
run 1 "${accept[@]}"
expect "where pre-flight fails nothing else is measured, and how to do it is said" eval 'says "nothing else is measured; --despite-preflight" && [[ ! -e $latest/gemm.json ]]'
run 1 "${accept[@]}" --despite-preflight
expect "  unless the user wants to" test -s "$latest/gemm.json"
cp "$stored/preflight.json" stored/

# --- the end of a run -------------------------------------------------------------------------------------------------------
does gemm "echo \$\$ >'$scratch/rank'" "setsid sleep 100 & echo \$! >'$scratch/helper'" 'sleep 100'
begin() { # starts an acceptance and waits until gemm runs
  rm -f rank helper
  env --default-signal=INT,TERM,HUP "${accept[@]}" >out.txt 2>err.txt 3>&- &
  front=$!
  for _ in {1..200}; do [[ -s helper ]] || sleep 0.1; done
}
gone() {
  for _ in {1..150}; do
    kill -0 "$(<rank)" 2>/dev/null || kill -0 "$(<helper)" 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}
for signal in INT TERM HUP KILL; do
  begin
  kill "-$signal" "$front"
  code=0
  wait "$front" 2>/dev/null || code=$?
  if [[ $signal != KILL ]]; then
    expect "SIG$signal ends it" test "$code" = 3
    expect "  with a verdict line" eval '[[ $(tail -n 1 out.txt) == "VERDICT: INCOMPLETE "[1-9]* ]] && grep -q "ended by SIG$signal" err.txt'
  fi
  expect "SIG$signal leaves nothing running" gone
done
run 3 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "a run that broke off is INCOMPLETE, and no pass of yesterday" eval '[[ $(tail -n 1 out) == "VERDICT: INCOMPLETE"* ]] && prints "not complete"'

# Two runs at once have separate folders. An id names one run only.
begin
run 0 "${accept[@]}" --families=preflight
expect "a second acceptance does not disturb the first" eval 'kill -0 "$front" && [[ -s $latest/verdict.json ]]'
kill "$front"
wait "$front"
SHAKEDOWN_RUN_ID=mine begin
run 3 env SHAKEDOWN_RUN_ID=mine "${accept[@]}"
expect "the id of a run that lives is refused, and told who runs" says "mine is in use by process $(pgrep -P "$front" -x sd-work) on"
kill "$front"
wait "$front"
rm does.gemm

# --- installation folder ------------------------------------------------------------------------------------------------------
does gemm 'printenv PATH >'"'$scratch/path'"
mkdir -p moved && cp -r "$tree" moved/here && mv "$tree" away
chmod -R a-w moved/here
mkdir -m 0777 work
chmod 0755 "$scratch"
chmod 0777 "$scratch" stored
rm -f arguments.* path
as=()
[[ $(id -u) -ne 0 ]] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
(cd work && run 0 "${as[@]}" env -i SHAKEDOWN_LAUNCH=env "$scratch/moved/here/bin/shakedown" accept)
expect "a moved, read-only copy works for another user from an empty environment" eval '[[ $(tail -n 1 out) == "VERDICT: PASS"* ]]'
expect "  programs are found" grep -q /usr/bin path
expect "  results are in the working folder" test -s work/results/latest/verdict.json
(cd / && run 3 "${as[@]}" env -i SHAKEDOWN_LAUNCH=env SHAKEDOWN_RESULTS=/proc/nosuch "$scratch/moved/here/bin/shakedown" accept)
expect "where nothing can be written that is said" says 'cannot be made.*SHAKEDOWN_RESULTS'
chmod -R u+w moved
mv away "$tree"
rm does.gemm

# --- ci/accept and ctest --------------------------------------------------------------------------------------------------------
printf '#!/bin/sh\necho shakedown "$@"\n' >bin/fake
mkdir -p thin/bin thin/bench && cp bin/fake thin/bin/shakedown && cp bin/fake thin/bench/bench_gemm
chmod +x thin/*/*
run 0 env SHAKEDOWN_BUILD="$scratch/thin" "$root/ci/accept" --tier=full --plan
expect "ci/accept is the front door of a build that stands" prints '^shakedown accept --tier=full --plan$'
rm thin/bench/bench_gemm
run 3 env SHAKEDOWN_BUILD=/proc/nosuch PATH="$scratch/bin:$PATH" "$root/ci/accept" 3>reason
expect "a build that fails is INCOMPLETE" eval '[[ $(tail -n 1 out) == "VERDICT: INCOMPLETE 0/0"* ]] && grep -q "^INCOMPLETE" reason'

step=("$tree/bin/shakedown" ctest "$scratch/results/ctest")
export SHAKEDOWN_LAUNCH=env
run 3 "${step[@]}" gemm
expect "a step without a begun run is refused" says 'run_id is missing'
steps() { timeout -k 5 60 bash -c 'for step in "$@"; do "$0" ctest "$FOLDER" "$step" || exit; done' "$tree/bin/shakedown" "$@" >out 2>err; }
export FOLDER=$scratch/results/ctest
expect "steps of one process are one run" steps begin preflight gate gemm
expect "  of one id" eval '[[ $(grep -ohE "\"run_id\": ?\"[^\"]*" results/ctest/*.json | sort -u | wc -l) -eq 1 ]]'
run 0 "$build/tests/acceptance_test" --results=results/ctest/gemm.json --families=gemm --partial-ok --run-id=@results/ctest/run_id
cp "$root/tests/data/preflight/h200-sxm-4ranks-pinned.json" stored/preflight.json
expect "the gate is closed where pre-flight fails" eval '! steps begin preflight gate gemm'
expect "  and says how to open it" says '--despite-preflight'
SHAKEDOWN_DESPITE_PREFLIGHT=1 expect "  which opens it" steps begin preflight gate gemm
does gemm 'exit 1'
expect "a step without a result fails" eval '! SHAKEDOWN_DESPITE_PREFLIGHT=1 steps begin gemm'
finish
