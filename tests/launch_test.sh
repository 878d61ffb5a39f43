#!/usr/bin/env bash
# The scripts in ci/ that decide how many ranks run and what is installed, against made-up machines and package managers.
# shellcheck source-path=SCRIPTDIR source=shell.bash disable=SC2016
source "$(dirname "$0")/shell.bash"
cd "$scratch" || exit 1

# Programs that say how they were called.
mkdir bin
printf '#!/bin/sh\necho mpirun "$@"\n' >bin/mpirun
printf '#!/bin/sh\necho srun "$@"\n' >bin/srun
chmod +x bin/*
fakes=(env PATH="$scratch/bin:$PATH" SHAKEDOWN_SYSFS="$scratch/sys")
gpu() {
  mkdir -p "sys/bus/pci/devices/$1"
  echo 0x10de >"sys/bus/pci/devices/$1/vendor"
  echo "$2" >"sys/bus/pci/devices/$1/class"
}
unset CUDA_VISIBLE_DEVICES SLURM_STEP_GPUS SLURM_JOB_GPUS
mkdir -p sys/bus/pci/devices

# --- ci/launch ------------------------------------------------------------------------------------------------------------
run 0 "${fakes[@]}" "$root/ci/launch" prog --flag
expect "a machine without GPUs runs two ranks, more than cores if need be" prints '^mpirun --bind-to none --oversubscribe.* -np 2 prog --flag$'
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
set_tests_properties(bench.begin bench.gemm PROPERTIES LABELS acceptance)
END
run 3 env SHAKEDOWN_BUILD="$scratch/stands" SHAKEDOWN_LAUNCH=/nonexistent/srun "$root/ci/accept"
expect "a launch that fails is no failure of the machine" prints '^VERDICT: INCOMPLETE 0/0'
expect "  and says what failed, and where to read on" eval 'says "ci/measure: bench_gemm ended" && says "acceptance.log"'
printf '#!/bin/sh\nsleep 60\n' >stands/bench/bench_gemm
SHAKEDOWN_BUILD=$scratch/stands SHAKEDOWN_LAUNCH=env "$root/ci/accept" >out.txt 2>&1 &
accept=$!
sleep 2
kill -TERM "$accept"
code=0
wait "$accept" || code=$?
expect "a termination signal ends it within seconds" test "$code" = 3
expect "  with a verdict line" eval '[[ $(tail -n 1 out.txt) == "VERDICT: INCOMPLETE 0/0"* ]]'
expect "  and nothing left running" eval '! pgrep -f "$scratch/stands" >/dev/null'
finish
