#!/usr/bin/env bash
# The shakedown command as users call it, with programs that print a stored run: verdict, folders, faults, launchers, hosts.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2317,SC2030,SC2031
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
unset CUDA_VISIBLE_DEVICES SHAKEDOWN_EXPECT SHAKEDOWN_RESULTS SHAKEDOWN_TIMEOUT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!OMPI_MCA_@}" "${!PRTE_MCA_@}"
stored=$root/ci/baselines/h200-sxm/4ranks/1

# A tree as from `cmake --install`. Its programs print the files in stored/ with the id of the run.
tree=$scratch/tree
mkdir -p "$tree/bin" "$tree/share/shakedown" stored bin
cp "$build/bin/shakedown" "$tree/bin/"
cp -r "$root/thresholds" "$tree/share/shakedown/"
while read -r family; do [[ ! -s $stored/$family.json ]] || echo "$family"; done <"$build/share/shakedown/families" >"$tree/share/shakedown/families"
cp "$stored"/*.json stored/
while read -r family; do
  cat >"$tree/bin/bench_$family" <<END
#!/bin/sh
echo "[1/1] $family, 0 s so far" >&2
"$tree/bin/shakedown" event '{"event": "row", "key": "$family/of:all", "row": 1, "rows": 1}'
echo "\$@" >"$scratch/arguments.$family"
[ ! -e "$scratch/does.$family" ] || . "$scratch/does.$family"
crashed= id=
for flag; do case \$flag in --run-id=*) id=\${flag#*=} ;; --crashed=*) crashed=', "crashed": ["'\${flag#*=}'"]' ;; esac; done
exec sed 's/"run_id": *"[^"]*"/"run_id": "'"\$id"'"'"\$crashed"'/' "$scratch/stored/$family.json"
END
done <"$tree/share/shakedown/families"
chmod +x "$tree"/bin/*
export SHAKEDOWN_LAUNCH=env SHAKEDOWN_RESULTS=$scratch/results
accept=("$tree/bin/shakedown" accept)
does() { printf '%s\n' "${@:2}" >"does.$1"; }
latest=$SHAKEDOWN_RESULTS/latest

# --- a verdict ------------------------------------------------------------------------------------------------------------
run 0 "${accept[@]}" --tier=full --timeout=77 --dcgm=2
expect "a stored healthy run passes" eval '[[ $(tail -n 1 out) == "VERDICT: PASS 1"*"(profile h200-sxm, 4 ranks)" ]]'
expect "  its verdict is kept" grep -q '"verdict": "pass"' "$latest/verdict.json"
expect "  progress goes to standard error, and everything into the log" eval 'says "^\[[0-9]/[0-9]\] gemm: ok, [0-9]+ s; nearest to its limit: .* TFLOPS .min [0-9.]*.  gemm/dtype" && ! says "^\[1/1\]" && grep -q "gemm, 0 s" "$latest/log"'
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
cp "$stored/hbm.json" stored/
run 3 "${accept[@]}" --families=preflight,gemm
expect "families that were not asked for are not missed" prints '^VERDICT: PARTIAL .* 2 of [0-9]+ families, as asked'
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
expect "where it dies, that is said with the family" eval 'says "bench_all ended in hbm: env (was ended by SIGKILL|.*exit code 137)" && says "what is missing is measured alone"'
expect "  what is missing is measured alone, and told who died" eval 'prints "machine/crashed" && grep -q -- --crashed=hbm arguments.hbm && [[ ! -e arguments.gemm && -s $latest/lora_step.json ]]'
rm -f dies.hbm arguments.* measured
touch dies.afterwards
run 1 "${accept[@]}"
expect "a death behind the last result is said, and measures nothing again" eval 'says "bench_all died behind its last result: env (was ended by SIGSEGV|.*exit code 139)" && [[ $(ls arguments.*) == arguments.all ]]'
expect "  and is no pass" eval 'prints "machine/crashed" && prints "^VERDICT: FAIL"'
run 1 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "  whoever judges its results" prints 'died in lora_step'
rm -f dies.afterwards arguments.* measured
cp "$root/tests/data/preflight/h200-sxm-4ranks-pinned.json" stored/preflight.json
touch stays
run 1 "${accept[@]}"
expect "it is ended where pre-flight fails" eval '[[ ! -e $latest/gemm.json && ! -e $latest/crashed ]] && says "nothing else is measured"'
cp "$stored/preflight.json" stored/
rm -f stays "$tree/bin/bench_all"

# --- no verdict -------------------------------------------------------------------------------------------------------------
run 2 "${accept[@]}" --nosuch
expect "an unknown flag is refused" eval 'says "^error: unknown flag" && ! prints VERDICT'
run 2 "${accept[@]}" --dcgm=4
expect "a level that DCGM does not have is refused" says "dcgm: '4' is none of 1, 2, 3"
run 2 "${accept[@]}" --families=nosuch
expect "an unknown family is refused" says '"nosuch" is none of preflight'
run 2 "${accept[@]}" --site=cluster.yaml
run 2 env SHAKEDOWN_RUN_ID=../up "${accept[@]}"
run 3 env SHAKEDOWN_LAUNCH=/nonexistent/srun "${accept[@]}"
expect "a launcher that is not there is no failure of the machine" eval '[[ $(tail -n 1 out) == "VERDICT: INCOMPLETE 0/0 (profile none, 0 ranks)" ]]'
expect "  and is named" says 'no host has answered: srun could not be started'
does gemm 'exit 5'
run 1 "${accept[@]}"
expect "a program without a result is missed" eval 'prints "^VERDICT: FAIL" && says "bench_gemm wrote no result: env ended with exit code 5"'
does gemm 'echo "{"; echo "\"context\": {"; exit 0'
run 1 "${accept[@]}"
expect "half a document is none" eval '[[ ! -e $latest/gemm.json ]]'
does gemm 'sed "s/\"run_id\": *\"[^\"]*\"/\"run_id\": \"$(echo "$@" | grep -o "run-id=[^ ]*" | cut -d= -f2)\"/" '"'$scratch/stored/gemm.json'" 'kill -BUS $$'
run 1 "${accept[@]}"
expect "a program that dies behind its result is no pass" eval 'says "bench_gemm died behind its result: env (was ended by SIGBUS|.*exit code 135)" && prints "died in gemm" && prints "^VERDICT: FAIL"'
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
expect "a run that broke off is INCOMPLETE, and no pass of yesterday" eval '[[ $(tail -n 1 out) == "VERDICT: INCOMPLETE"* ]] && prints "has not come to its end"'

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

# --- a soak ------------------------------------------------------------------------------------------------------------------
# With few families and few rules, so that the rounds are short.
export SHAKEDOWN_RESULTS=$scratch/soaks
mkdir few
grep -vE '^include|benchmark: "(allreduce|collectives|lora_step|p2p|pcie|preflight)' "$root/thresholds/h200-sxm.yaml" >few/h200-sxm.yaml
accept+=(--thresholds="$scratch/few/h200-sxm.yaml")
latest_soak=$SHAKEDOWN_RESULTS/latest
rounds_of() { grep -c '"round":' "$1/rounds.jsonl"; }
after() { # waits until a new soak has $1 rounds
  for _ in {1..400}; do
    [[ $(readlink "$latest_soak") == "$before" || $(rounds_of "$latest_soak" 2>/dev/null) != "$1" ]] || return 0
    sleep 0.05
  done
}
run 0 "${accept[@]}" --for=15s --seed=3 --families=gemm,hbm --partial-ok --bencher=b.json --superbench=s.jsonl --github-benchmark=g.json
expect "a soak of healthy rounds of some families is good" eval '[[ $(tail -n 1 out) == "VERDICT: PARTIAL 1/1 (profile h200-sxm, 4 ranks, 2 of 3 families, as asked)" ]]'
expect "  each GPU stands there over time" prints '^rank 3 .* gemm/dtype:bf16 +0\.0 '
expect "  in rounds whose order changes" eval '(($(rounds_of "$latest_soak") >= 2 && $(grep -o "\"order\":[^]]*" "$latest_soak/rounds.jsonl" | sort -u | wc -l) >= 2))'
expect "  its exports hold the figures of a round" eval 'grep -q "^  *\"gemm/.*{$" b.json && grep -q "\"gemm/" s.jsonl && grep -q "\"unit\": \"TFLOPS\"" g.json'
expect "  of which few stay whole" eval '[[ $(ls -d "$latest_soak"/rounds/*/ | grep -vc latest) -le 3 && $(ls "$latest_soak/kept" | wc -l) -eq 1 ]]'
orders=$(grep -o '"order":[^]]*' "$latest_soak/rounds.jsonl" | head -n 2)
run 3 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "  and is judged again from its rounds" prints '^VERDICT: PARTIAL 1/1'
run 2 "${accept[@]}" --for=10
expect "a time without a unit is refused" says "'10' has no unit: write 90s, 8m, 24h or 7d"
run 2 "${accept[@]}" --for=10s --resume
run 2 "${accept[@]}" --stop-on=fail

# A report that cannot be written causes a message, and exit code 3 instead of 0. It does not change the verdict.
run 3 "${accept[@]}" --families=gemm --partial-ok --verdict=kept.json --html=/nonexistent/page.html
expect "one report that cannot be written leaves verdict and others" eval 'says "/nonexistent/page.html: cannot be written" && prints "^VERDICT: PARTIAL" && grep -q "\"verdict\": \"partial\"" kept.json'

# The disk is full before there is a verdict: the run is INCOMPLETE, and no partial file can be taken for a verdict.
mkdir disk
run 3 unshare --mount bash -c "mount -t tmpfs -o size=64k tmpfs disk && exec ${accept[*]@Q} --folder=disk/run"
expect "a full disk ends with INCOMPLETE" eval 'says "disk/run/.*: cannot be written: No space left on device" && [[ $(tail -n 1 out) == "VERDICT: INCOMPLETE"* ]]'

# A soak that is killed in a round and resumed.
before=$(readlink "$latest_soak")
"${accept[@]}" --for=15s --seed=3 --families=gemm,hbm --partial-ok >out.txt 2>err.txt 3>&- &
front=$!
after 1
kill -KILL "$front"
wait "$front" 2>/dev/null
printf '{"round":2,"sta' >>"$latest_soak/rounds.jsonl"
run 3 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "a soak that was killed is INCOMPLETE, and it is said how to go on" eval 'prints "^VERDICT: INCOMPLETE" && prints "accept --resume"'
sleep 2
run 0 "${accept[@]}" --resume
expect "  it goes on to its end" eval '[[ $(tail -n 1 out) == "VERDICT: PARTIAL 1/1"* ]] && prints "nobody watched for"'
expect "  as it would have gone on, by the seed" test "$(grep -o '"order":[^]]*' "$latest_soak/rounds.jsonl" | head -n 2)" == "$orders"
expect "  and no round is there twice" eval '[[ -z $(grep -o "^{\"round\":[0-9]*" "$latest_soak/rounds.jsonl" | sort | uniq -d) ]]'

# A resumed soak keeps its expectations.
"${accept[@]}" --for=15s --families=gemm,hbm,memtest --expect=ranks=99 >out.txt 2>err.txt 3>&- &
front=$!
after 1
kill -TERM "$front"
wait "$front" 2>/dev/null
"${accept[@]}" --resume >out.txt 2>err.txt 3>&- &
front=$!
after 4
kill -TERM "$front"
wait "$front" 2>/dev/null
run 3 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS"
expect "a soak that goes on expects what it was started with" prints '^series: 0 of'
run 1 "${accept[@]}" --resume --expect=ranks=4
expect "  but what is said anew counts from then on" eval 'prints "^series: [1-9][0-9]* of" && prints "^VERDICT: FAIL"'
run 2 "$tree/bin/shakedown" report --results="$SHAKEDOWN_RESULTS" --expect=ranks=4
expect "  and nothing else, of rounds that were judged" says 'expect: the rounds of a soak were judged as they were measured'
run 2 "$tree/bin/shakedown" nodes --results="$SHAKEDOWN_RESULTS"
expect "  whose verdict nodes is to be given" says 'its verdict is .*/verdict.json'
run 3 "$tree/bin/shakedown" nodes --verdict="$latest_soak/verdict.json"

# A reboot of the host: the rounds before the pause have another boot id.
before=$(readlink "$latest_soak")
"${accept[@]}" --for=15s --families=gemm,hbm,memtest >out.txt 2>err.txt 3>&- &
front=$!
after 1
kill -TERM "$front"
wait "$front" 2>/dev/null
sed -i -E 's/("boots":\["[^ ]+ )[^"]*/\1earlier/' "$latest_soak/rounds.jsonl"
run 3 "${accept[@]}" --resume
expect "a reboot is named with its time, and is no pass" eval 'prints "was started anew between minute" && prints "^VERDICT: INCONCLUSIVE"'

# Wrong data in one of several rounds.
cp stored/gemm.json gemm.good
python3 - <<'END'
import json
document = json.load(open("gemm.good"))
row = document["benchmarks"][0]
row.update({"error_occurred": True, "error_message": "wrong data: rank 2 (vm): 3 of 4096 comparisons failed", "wrong_ranks": [2]})
json.dump(document, open("gemm.bad", "w"), indent=1)
END
before=$(readlink "$latest_soak")
"${accept[@]}" --for=1h --families=gemm,hbm,memtest --stop-on=fail >out.txt 2>err.txt 3>&- &
front=$!
after 2
cp gemm.bad stored/gemm.json
code=0
wait "$front" || code=$?
expect "a soak that shall end with a failure ends with it" test "$code" = 1
expect "  which is named with its round, its time and the GPU" eval 'grep -q "watch/data/gemm/rank:2" out.txt && grep -qE "in 1 of [0-9]+ rounds, at minute " out.txt'
expect "  and whose files are kept" eval '[[ $(ls "$latest_soak/kept" | wc -l) -eq 2 ]]'
cp gemm.good stored/gemm.json
accept=("$tree/bin/shakedown" accept)
export SHAKEDOWN_RESULTS=$scratch/results

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

# --- launchers ------------------------------------------------------------------------------------------------------------------
run 0 "$tree/bin/shakedown" launch printenv OMPI_MCA_pml
expect "a program can be run as it would be measured" prints '^ob1$'
run 5 "$tree/bin/shakedown" launch sh -c 'exit 5'
expect "  its exit code is handed on, and nothing is said" test ! -s err
echo input | "$tree/bin/shakedown" launch cat >out
expect "  and it reads what it is given" prints '^input$'
run 3 "$tree/bin/shakedown" launch sh -c 'kill -KILL $$'
expect "  one that is killed could not run" says 'was ended by SIGKILL; the job could not run'
cc -shared -Wl,-soname,libnccl.so.2 -o libnccl.so.2 -x c /dev/null
run 0 env SHAKEDOWN_NCCL="$scratch" "$tree/bin/shakedown" launch printenv LD_PRELOAD
expect "ranks take the NCCL that the site names" prints "^$scratch/libnccl.so.2$"
for bad in "$scratch/nosuch.so" /etc/passwd; do
  run 2 env SHAKEDOWN_NCCL="$bad" "${accept[@]}"
  expect "  one that is none is refused in one line" eval '[[ $(wc -l <err) -eq 1 ]] && says "SHAKEDOWN_NCCL=.*is no library that can be read"'
done
run 0 env SHAKEDOWN_INTERFACE=eth7 "$tree/bin/shakedown" launch printenv SHAKEDOWN_INTERFACE OMPI_MCA_oob_tcp_if_include NCCL_SOCKET_IFNAME
expect "ranks, MPI and NCCL are told the interface" eval '[[ $(paste -sd " " out) == "eth7 eth7 =eth7" ]]'
run 2 "$tree/bin/shakedown" launch
expect "without a program it says how to call it" says 'the form is'
unset SHAKEDOWN_LAUNCH

# A Slurm of two nodes: a replacement for srun that runs each task with its variables. Tasks of ABSENT hang.
cat >bin/srun <<'END'
#!/usr/bin/env bash
[[ $1 != --mpi=list ]] || exec echo "MPI plugin types are... none pmix pmix_v4"
excluded= tasks=2 nodes=2
while [[ $1 == -* ]]; do
  case $1 in
    --exclude=*) excluded=${1#*=} ;;
    -n) tasks=$2 && shift ;;
    -N) nodes=$2 && shift ;;
  esac
  shift
done
hosts=()
for host in node-a1 node-a2; do [[ $host == "$excluded" ]] || hosts+=("$host"); done
for ((task = 0; task < tasks; ++task)); do
  host=${hosts[task * nodes / tasks]}
  if [[ $host == "${ABSENT:-}" ]]; then sleep 100 & continue; fi
  [[ $1 != */bench_* || $task -eq 0 ]] || continue  # a stored document contains all ranks
  SLURM_PROCID=$task SLURMD_NODENAME=$host unshare --uts bash -c 'hostname "$0" && exec "$@"' "$host" "$@" &
done
wait
END
chmod +x bin/srun
slurm=(env PATH="$scratch/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 "SLURM_JOB_NODELIST=node-a[1-2]")
if unshare --uts true 2>/dev/null; then
  run 1 "${slurm[@]}" "${accept[@]}"
  expect "in a Slurm job of two nodes both are expected" grep -q -- --expect=hosts=2 arguments.gemm
  expect "  and the run of one host is not believed" prints 'machine/hosts'
  run 1 "${slurm[@]}" ABSENT=node-a2 "${accept[@]}" --startup-timeout=2
  expect "a node that does not answer is named, left out, and missed" eval 'says "host node-a2 does not answer" && prints "machine/hosts.*node-a2|node-a2" && grep -q -- --expect=hosts=2 arguments.gemm'
  run 3 "${slurm[@]}" ABSENT=node-a2 SLURM_STEP_ID=0 "${accept[@]}"
  expect "a step of the job is refused" says 'a step of a Slurm job of 2 nodes'
fi
# A launcher that hangs before any rank runs, and ignores SIGTERM.
printf '#!/bin/bash\ntrap "" TERM\necho "ssh: connecting to node9" >&2\nsleep 100\nsleep 100\n' >bin/hangs
chmod +x bin/hangs
began=$SECONDS
run 3 env SHAKEDOWN_LAUNCH="$scratch/bin/hangs" "${accept[@]}" --startup-timeout=1
expect "a launcher that hangs does not hang us" eval '[[ $((SECONDS - began)) -lt 25 ]] && says "no host has answered: hangs was ended: it took longer than 1 s .ssh: connecting to node9"'

# mpirun on hosts in namespaces.
agent=$root/tests/faults/fakehost.sh
if command -v mpirun >/dev/null; then
  run 0 env -i OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SHAKEDOWN_RANKS=2 "$build/bin/shakedown" launch "$build/bench/inventory" summary
  expect "mpirun works from an empty environment" eval '[[ $(grep -c "^  CPU" out) -eq 1 ]]'
fi
if command -v mpirun >/dev/null && "$agent" probe true 2>/dev/null; then
  printf 'nodea slots=1\nnodeb slots=1\n' >hosts
  printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\n[[ $1 != nodeb ]] || exec sleep 1000\nexec "%s" "$@"\n' "$agent" >bin/half
  chmod +x bin/half
  operator=(env OMPI_MCA_orte_default_hostfile="$scratch/hosts" OMPI_MCA_plm_rsh_agent="$agent" OMPI_MCA_orte_keep_fqdn_hostnames=true)
  run 0 "${operator[@]}" "$tree/bin/shakedown" launch hostname
  expect "an operator's host file means all its hosts" eval '[[ $(sort out | tr "\n" " ") == "nodea nodeb " ]]'
  limit=120
  run 1 "${operator[@]}" OMPI_MCA_plm_rsh_agent="$scratch/bin/half" "${accept[@]}" --families=preflight,gemm --startup-timeout=8
  expect "a host that does not answer is named, though mpirun waits for all" says 'host nodeb does not answer'
  expect "  left out, and missed" eval 'grep -q -- --expect=hosts=2 arguments.gemm && prints "machine/hosts"'

  # A host fails during GEMM: its rank stops, and the other ranks report the host.
  cat >"$tree/bin/bench_all" <<END
#!/bin/bash
[[ \$OMPI_COMM_WORLD_RANK == 0 ]] || exec sleep 1
echo "\$@" >>"$scratch/arguments.all"
for flag; do
  [[ \$flag != --families=* ]] || IFS=, read -ra families <<<"\${flag#*=}"
  [[ \$flag != --run-id=* ]] || id=\${flag#*=}
done
for family in "\${families[@]}"; do
  if [[ \$family == gemm && \$OMPI_COMM_WORLD_SIZE == \$(cat "$scratch/loses" 2>/dev/null) ]]; then
    "$tree/bin/shakedown" event '{"event": "lost", "hosts": ["nodeb"], "text": "rank 1 (nodeb) ended unexpectedly in gemm"}'
    exit 3
  fi
  printf '{"family": "%s", "result": %s}\n' "\$family" \
    "\$(sed 's/"run_id": *"[^"]*"/"run_id": "'"\$id"'"/' "$scratch/stored/\$family.json" | tr '\n' ' ')"
done
END
  chmod +x "$tree/bin/bench_all"
  rm -f arguments.*
  echo 2 >loses
  run 1 "${operator[@]}" "${accept[@]}" --families=preflight,gemm,hbm
  expect "a host that is lost while measuring is left out" says 'host nodeb was named by the others: what is missing is measured without it'
  expect "  of what was missing alone, by one program" eval 'says "bench_all ended in gemm" && [[ $(wc -l <arguments.all) -eq 2 ]] && grep -qE -- "--families=gemm,hbm .*--crashed=gemm --lost=nodeb" <(tail -n 1 arguments.all) && [[ ! -e arguments.gemm ]]'
  expect "  and missed by name, as a failure" eval 'prints "nodeb" && prints "^VERDICT: FAIL" && [[ -s $latest/hbm.json ]]'
  rm -f arguments.* loses "$tree/bin/bench_all"
fi

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
expect "  and says how to open it" says 'nothing else is measured; --despite-preflight'
SHAKEDOWN_DESPITE_PREFLIGHT=1 expect "  which opens it" steps begin preflight gate gemm
does gemm 'exit 1'
expect "a step without a result fails" eval '! SHAKEDOWN_DESPITE_PREFLIGHT=1 steps begin gemm'
finish
