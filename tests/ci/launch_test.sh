#!/usr/bin/env bash
# The scripts in ci/ that decide how many ranks run and what is installed, against made-up machines and package managers.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2317
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1

# Programs that say how they were called.
mkdir bin
printf '#!/bin/sh\necho mpirun "$@"\n' >bin/mpirun
printf '#!/bin/sh\n[ "$1" != --mpi=list ] || exec cat "%s/plugins"\necho srun "$@"\n' "$scratch" >bin/srun
echo 'pmix pmix_v4 none' >plugins
chmod +x bin/*
fakes=(env PATH="$scratch/bin:$PATH" SHAKEDOWN_SYSFS="$scratch/sys")
gpu() {
  mkdir -p "sys/bus/pci/devices/$1"
  echo 0x10de >"sys/bus/pci/devices/$1/vendor"
  echo "$2" >"sys/bus/pci/devices/$1/class"
}
unset CUDA_VISIBLE_DEVICES SHAKEDOWN_EXPECT SHAKEDOWN_OWNER "${!SLURM_@}" "${!OMPI_MCA_@}" "${!PRTE_MCA_@}" PBS_NODEFILE LSB_DJOB_HOSTFILE PE_HOSTFILE
mkdir -p sys/bus/pci/devices

# --- ci/launch ------------------------------------------------------------------------------------------------------------
run 0 "${fakes[@]}" "$root/ci/launch" prog --flag
expect "a machine without GPUs runs two ranks, more than cores if need be" prints '^mpirun --bind-to none .*--oversubscribe -np 2 prog --flag$'
gpu 0000:1b:00.0 0x030200
gpu 0000:2b:00.0 0x030200
gpu 0000:3b:00.0 0x030000
gpu 0000:05:00.0 0x068000
run 0 "${fakes[@]}" "$root/ci/launch" prog
expect "a machine with three GPUs runs three ranks, and never more than that" eval 'prints " -np 3 prog$" && ! prints oversubscribe'
run 0 "${fakes[@]}" CUDA_VISIBLE_DEVICES=0,2 "$root/ci/launch" prog
expect "a mask of two leaves two ranks" prints ' -np 2 prog$'
run 0 "${fakes[@]}" SLURM_JOB_GPUS=5 "$root/ci/launch" prog
expect "one GPU of a Slurm job is one rank" prints ' -np 1 prog$'
run 0 "${fakes[@]}" SHAKEDOWN_RANKS=7 "$root/ci/launch" prog
expect "SHAKEDOWN_RANKS wins" prints ' -np 7 prog$'
run 0 "${fakes[@]}" SHAKEDOWN_LAUNCH="srun --mpi=pmix -N4" "$root/ci/launch" prog "two words"
expect "SHAKEDOWN_LAUNCH is the whole prefix" prints '^srun --mpi=pmix -N4 prog two words$'
run 0 env -i SHAKEDOWN_LAUNCH=env "$root/ci/launch" printenv PATH
expect "what is launched from an empty environment can find programs" prints '/usr/bin'

# A job of several hosts is never measured on one. launches WHAT PATTERN PROMISE [VARIABLE=VALUE ...]: the launch, and what
# ci/launch --expect says.
launches() {
  run 0 "${fakes[@]}" "${@:4}" "$root/ci/launch" prog
  expect "$1" prints "$2"
  run 0 "${fakes[@]}" "${@:4}" "$root/ci/launch" --expect
  expect "  and promises ${3:-nothing}" test "$(<out)" = "$3"
}
# refuses WHAT PATTERN [VARIABLE=VALUE ...]
refuses() {
  run 3 "${fakes[@]}" "${@:3}" "$root/ci/launch" prog
  expect "$1" says "^ci/launch: $2.*set SHAKEDOWN_LAUNCH"
  expect "  and nothing is started" silent
}
two=(SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2)
launches "a Slurm job of two nodes is started on both, a rank for each GPU" \
  '^srun --mpi=pmix --cpu-bind=none --overcommit -N 2 -n 6 --ntasks-per-node=3 prog$' hosts=2 "${two[@]}"
launches "  even if it asks for one task per node" ' -n 6 ' hosts=2 "${two[@]}" SLURM_NTASKS=2
launches "  and as it says, if it asks for a task per GPU" '^srun --mpi=pmix --cpu-bind=none prog$' hosts=2 "${two[@]}" SLURM_NTASKS=6
launches "tasks without GPUs are counted" '^srun --mpi=pmix --cpu-bind=none prog$' hosts=2,ranks=4 "${two[@]}" SLURM_NTASKS=4 CUDA_VISIBLE_DEVICES=
launches "a job of one node with more tasks than ranks is Slurm's too" '^srun' hosts=1 SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=4
launches "a job of one node is mpirun's" '^mpirun .* -np 3 prog$' '' SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=1
launches "salloc's shell is no step" '^srun' hosts=2 "${two[@]}" SLURM_STEP_ID=4294967290
launches "SHAKEDOWN_LAUNCH wins over a job" '^mpirun here prog$' '' "${two[@]}" SHAKEDOWN_LAUNCH="mpirun here"
refuses "a step of a job of two nodes is refused" 'a step of a Slurm job of 2 nodes' "${two[@]}" SLURM_STEP_ID=0 SLURM_NTASKS=2
refuses "a number of ranks for two nodes is refused" 'SHAKEDOWN_RANKS is for one host' "${two[@]}" SHAKEDOWN_RANKS=2
echo none >plugins
refuses "a Slurm without pmix is refused" 'a Slurm job of 2 nodes.* no pmix' "${two[@]}"
printf '# workers\nworker-0.job slots=8\nworker-1.job slots=8\n\n' >hosts
launches "an operator's host file is used whole" '^mpirun --bind-to none (--allow-run-as-root )?prog$' hosts=2 OMPI_MCA_orte_default_hostfile=hosts
launches "  that of Open MPI 5 too" '^mpirun --bind-to none (--allow-run-as-root )?prog$' hosts=2 PRTE_MCA_prte_default_hostfile=hosts
refuses "a number of ranks for its hosts is refused" 'SHAKEDOWN_RANKS is for one host' OMPI_MCA_orte_default_hostfile=hosts SHAKEDOWN_RANKS=2
refuses "a host file that is not there is refused" 'nosuch names no hosts' OMPI_MCA_orte_default_hostfile=nosuch
refuses "hosts of another scheduler are not passed over" 'hosts lists several hosts' PBS_NODEFILE=hosts
printf 'node1\nnode1\n' >one_host
launches "one host of it is this one" '^mpirun .* -np 3 prog$' '' PBS_NODEFILE=one_host

printf '#!/bin/sh\nkill -KILL $$\n' >bin/killed
printf '#!/bin/sh\nexit 137\n' >bin/lost_a_rank
printf '#!/bin/sh\nexit 5\n' >bin/fails
printf '#!/bin/sh\ncat\n' >bin/reads
printf '#!/bin/sh\ntrap "echo told; exit 1" TERM\ntouch waits\nwhile :; do sleep 0.1; done\n' >bin/waits
chmod +x bin/*
run 3 "${fakes[@]}" SHAKEDOWN_LAUNCH=killed "$root/ci/launch" prog
expect "a launcher that was killed is a job that could not run" says '^ci/launch: killed ended with exit code 137: SIGKILL ended a rank or itself'
run 3 "${fakes[@]}" SHAKEDOWN_LAUNCH=lost_a_rank "$root/ci/launch" prog
expect "  and so is one that says so of a rank" says '^ci/launch: lost_a_rank ended with exit code 137: SIGKILL'
for code in 243 255 160; do
  printf '#!/bin/sh\nexit %d\n' $code >bin/lost_a_rank
  run 3 "${fakes[@]}" SHAKEDOWN_LAUNCH=lost_a_rank "$root/ci/launch" prog
  expect "  exit code $code is not taken for a signal" eval 'says "ended with exit code $code: that is no signal" && ! says SIG'
done
printf '#!/bin/sh\nexit 132\n' >bin/lost_a_rank
run 3 "${fakes[@]}" SHAKEDOWN_LAUNCH=lost_a_rank "$root/ci/launch" prog
expect "  and 132, which mpirun has for a rank that cannot be started, for SIGILL alone" says 'or mpirun could not start one'
run 5 "${fakes[@]}" SHAKEDOWN_LAUNCH=fails "$root/ci/launch" prog
expect "other exit codes are handed on, and nothing is said" test ! -s err
echo input | "${fakes[@]}" SHAKEDOWN_LAUNCH=reads "$root/ci/launch" - >out
expect "the launcher reads what ci/launch is given" prints '^input$'
for signal in TERM INT; do
  rm -f waits
  env --default-signal=INT "${fakes[@]}" SHAKEDOWN_LAUNCH=waits "$root/ci/launch" prog >out 2>err &
  launcher=$!
  for _ in {1..100}; do [[ -e waits ]] || sleep 0.1; done
  kill "-$signal" "$launcher"
  code=0
  wait "$launcher" || code=$?
  expect "SIG$signal ends the launcher, and the job could not run" eval '[[ $code == 3 ]] && prints "^told$"'
done
run 2 "$root/ci/launch"
expect "without a program it says how to call it" says '^usage'

# --- ci/setup -------------------------------------------------------------------------------------------------------------
printf '#!/bin/sh\nprintf installed\n' >bin/dpkg-query
printf '#!/bin/sh\necho apt-get "$@" >>"%s/apt.log"\n' "$scratch" >bin/apt-get
printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
chmod +x bin/*
run 0 "${fakes[@]}" "$root/ci/setup"
expect "where nothing is missing nothing is installed" eval 'says "nothing is missing" && [[ ! -e apt.log ]]'
printf '#!/bin/sh\ncase "$*" in *yaml-cpp*) exit 1;; *) printf installed;; esac\n' >bin/dpkg-query
run 0 "${fakes[@]}" "$root/ci/setup"
expect "what is missing is installed, by name, and nothing else" eval 'says "^ci/setup: installing libyaml-cpp-dev$" && grep -q "install.* libyaml-cpp-dev$" apt.log'

# --- ci/measure -----------------------------------------------------------------------------------------------------------
mkdir -p fake/bench
run 3 "$root/ci/measure" "$scratch/fake" gemm
expect "a measurement without a begun run is refused" says 'run_id is missing'
run 0 "$root/ci/measure" "$scratch/fake" begin
touch fake/results/old.json
first=$(<fake/results/run_id)
run 0 "$root/ci/measure" "$scratch/fake" begin
expect "a new run empties the results" test ! -e fake/results/old.json
expect "  and has an id of its own" test "$first" != "$(<fake/results/run_id)"
printf '#!/bin/sh\nexit 3\n' >fake/bench/bench_gemm
printf '#!/bin/sh\nfor a; do case $a in --benchmark_out=*) echo {} >"${a#*=}";; esac; done; exit 1\n' >fake/bench/bench_hbm
chmod +x fake/bench/*
run 3 env SHAKEDOWN_LAUNCH=env "$root/ci/measure" "$scratch/fake" gemm
expect "a program that writes no result fails with its own exit code" says 'bench_gemm ended with exit code 3'
run 0 env SHAKEDOWN_LAUNCH=env "$root/ci/measure" "$scratch/fake" hbm
expect "a program with error rows has measured" test -s fake/results/hbm.json

printf '#!/bin/sh\nfor a; do case $a in --expect=*) echo "$a" >"%s/expected";; esac; done; exit 3\n' "$scratch" >fake/bench/bench_asked
chmod +x fake/bench/bench_asked
run 3 env SHAKEDOWN_LAUNCH=env SHAKEDOWN_EXPECT=backend=cuda "$root/ci/measure" "$scratch/fake" asked
expect "what is expected is handed on" grep -qx -- --expect=backend=cuda expected
printf '#!/bin/sh\n[ "$1" != --bind-to ] || shift 3\nexec "$@"\n' >bin/mpirun
run 3 "${fakes[@]}" OMPI_MCA_orte_default_hostfile="$scratch/hosts" SHAKEDOWN_EXPECT=ranks=16 "$root/ci/measure" "$scratch/fake" asked
expect "  after what is promised" grep -qx -- --expect=hosts=2,ranks=16 expected
run 3 env SHAKEDOWN_LAUNCH=env SHAKEDOWN_RUN_ID=mine "$root/ci/measure" "$scratch/fake" hbm
expect "a run does not measure into the results of another" says 'results is of run .* by now, not of mine'
mkdir fake/tests
printf '#!/bin/sh\necho judge "$@"\n' >fake/tests/acceptance_test
chmod +x fake/tests/acceptance_test
run 0 env SHAKEDOWN_RUN_ID=mine "$root/ci/measure" "$scratch/fake" judge --results=x
expect "only files of the run are judged" prints '^judge --run-id=mine --results=x$'

# --- ci/accept ------------------------------------------------------------------------------------------------------------
run 2 "$root/ci/accept" --nosuch
expect "an unknown flag is refused" says 'nosuch: unknown'
# A build that stands, whose programs cannot be launched.
mkdir -p stands/bench stands/tests stands/report
cp fake/bench/bench_gemm stands/bench/
printf '#!/bin/sh\nexit 2\n' >stands/tests/acceptance_test
chmod +x stands/tests/acceptance_test
cat >stands/CTestTestfile.cmake <<END
add_test(bench.begin "$root/ci/measure" "$scratch/stands" begin)
add_test(bench.gemm "$root/ci/measure" "$scratch/stands" gemm)
set_tests_properties(bench.begin PROPERTIES LABELS acceptance FIXTURES_SETUP run)
set_tests_properties(bench.gemm PROPERTIES LABELS acceptance FIXTURES_REQUIRED run)
END
run 3 env SHAKEDOWN_BUILD="$scratch/stands" SHAKEDOWN_LAUNCH=/nonexistent/srun "$root/ci/accept"
expect "a launch that fails is no failure of the machine" prints '^VERDICT: INCOMPLETE 0/0'
expect "  and says what failed, and where to read on" eval 'says "ci/measure: bench_gemm ended" && says "acceptance.log"'
printf '#!/bin/sh\nprintenv PATH >"%s/path"\nexit 3\n' "$scratch" >stands/bench/bench_gemm
run 3 env -i SHAKEDOWN_BUILD="$scratch/stands" SHAKEDOWN_LAUNCH=env "$root/ci/accept"
expect "from an empty environment programs are found" grep -q /usr/bin path

# Ends with whoever started it: however ci/accept ends, ctest, the launcher and the ranks do.
printf '#!/bin/sh\ntouch "%s/began"\nsleep 60\n' "$scratch" >stands/bench/bench_gemm
begin_accept() {
  rm -f began
  SHAKEDOWN_BUILD=$scratch/stands SHAKEDOWN_LAUNCH=env "$root/ci/accept" >out.txt 2>&1 &
  accept=$!
  for _ in {1..200}; do [[ -e began ]] || sleep 0.1; done
}
nothing_runs() {
  for _ in {1..100}; do
    pgrep -f "$scratch/stands" >/dev/null || return 0
    sleep 0.1
  done
  return 1
}
for signal in TERM HUP KILL; do
  begin_accept
  kill "-$signal" "$accept"
  code=0
  wait "$accept" || code=$?
  if [[ $signal != KILL ]]; then
    expect "SIG$signal ends it within seconds" test "$code" = 3
    expect "  with a verdict line" eval '[[ $(tail -n 1 out.txt) == "VERDICT: INCOMPLETE 0/0"* ]]'
  fi
  expect "SIG$signal leaves nothing running" nothing_runs
done

# One run at a time.
printf '#!/bin/sh\n' >stands/report/shakedown
chmod +x stands/report/shakedown
begin_accept
id=$(<stands/results/run_id)
for second in "$root/ci/accept" "$root/ci/regression --baseline ." "$root/ci/measure $scratch/stands gemm" "$root/ci/measure $scratch/stands begin"; do
  # shellcheck disable=SC2086
  run 3 env SHAKEDOWN_BUILD="$scratch/stands" SHAKEDOWN_LAUNCH=env $second
  expect "beside ci/accept ${second#"$root/"} is refused, and told who runs" says "is in use by process $accept on $HOSTNAME, since 20"
done
run 8 ctest --test-dir "$scratch/stands" -L acceptance --no-tests=error
expect "  and so is ctest alone" grep -q "is in use by process $accept on" stands/Testing/Temporary/LastTest.log
expect "  and the first one's results are its own" test "$id" = "$(<stands/results/run_id)"
kill "$accept"
wait "$accept"
rm began
env SHAKEDOWN_LAUNCH=env setsid ctest --test-dir "$scratch/stands" -j2 -L acceptance >ctest.txt 2>&1 &
ctest=$!
for _ in {1..200}; do [[ -e began ]] || sleep 0.1; done
run 3 env SHAKEDOWN_BUILD="$scratch/stands" SHAKEDOWN_LAUNCH=env "$root/ci/accept"
expect "beside ctest ci/accept is refused" says "is in use by process $ctest on"
expect "  with a verdict line" eval '[[ $(tail -n 1 out) == "VERDICT: INCOMPLETE 0/0"* ]]'
run 8 ctest --test-dir "$scratch/stands" -L acceptance
expect "  and so is a second ctest" grep -q "is in use by process $ctest on" stands/Testing/Temporary/LastTest.log
kill -- "-$ctest"
wait "$ctest" 2>/dev/null
run 0 "$root/ci/measure" "$scratch/stands" begin
expect "the folder is free when ctest has ended, however it did" test -s stands/results/run_id
finish
