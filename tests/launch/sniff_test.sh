#!/usr/bin/env bash
# shakedown_sniff: its arguments, its exit codes and lines, its time limit, and what it leaves behind. The GPU is measured by
# ci/torch_sniff.py on a machine that has one.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
job=$build/tests/sniff_job
mkdir tmp
export TMPDIR=$scratch/tmp
unset SHAKEDOWN_PROGRAM SHAKEDOWN_LEDGER

# stand_in TEXT...: a script in place of the program.
stand_in() {
  printf '%s\n' '#!/bin/bash' "$@" >stand_in
  chmod +x stand_in
}
# sniff CODE ARGUMENT...: a call that must return this code; $took has its seconds.
sniff() {
  local began=$SECONDS
  run "$1" "$job" "${@:2}"
  took=$((SECONDS - began))
}

sniff 2 GPU-1 4
expect "a limit below 5 s is refused" prints seconds
sniff 2 GPU-1 nan
sniff 2 GPU-1 601

export SHAKEDOWN_PROGRAM=$scratch/stand_in
stand_in 'echo "[1/3] preflight: ok"' 'echo "FAIL node GPU 2 (rank 0): slow GPU"' 'echo "VERDICT: FAIL 1/2"' \
  'printf "%s\n" "$@" >'"$scratch/words" 'env >'"$scratch/variables" 'exit 1'
export SHAKEDOWN_EXPECT=ranks=8 SLURM_NTASKS=8 OMPI_COMM_WORLD_RANK=3 RANK=3 LD_PRELOAD_OF_JOB=1 SHAKEDOWN_LEDGER=/shared CUDA_VISIBLE_DEVICES=0,1
sniff 1 GPU-4f2a 7
expect "a fault is 1, with the headline of the verdict" eval '[[ $(cat out) == "FAIL node GPU 2 (rank 0): slow GPU" ]]'
expect "the program measures the GPU that was named" grep -qx CUDA_VISIBLE_DEVICES=GPU-4f2a variables
expect "  as one rank" grep -qx SHAKEDOWN_RANKS=1 variables
expect "  not what the job expects of the whole job" eval '! grep -q SHAKEDOWN_EXPECT variables'
expect "  with the ledger of the job" grep -qx SHAKEDOWN_LEDGER=/shared variables
expect "  and without the variables of its launcher" eval '! grep -E "^(SLURM_|OMPI_|RANK|LD_PRELOAD)" variables'
expect "  while the process that called waits" grep -qxE -- '--waiting=[0-9]+' words
expect "nothing is left in the temporary folder" eval '[[ -z $(ls tmp) ]]'
unset SHAKEDOWN_EXPECT SLURM_NTASKS OMPI_COMM_WORLD_RANK RANK LD_PRELOAD_OF_JOB SHAKEDOWN_LEDGER CUDA_VISIBLE_DEVICES
sniff 1 GPU-4f2a 7 9
expect "a short buffer gets the beginning of the line" eval '[[ $(cat out) == "FAIL nod" ]]'
sniff 1 GPU-4f2a 7 0
IGNORE_CHILDREN=1 sniff 3 GPU-4f2a 7
expect "a job that ignores SIGCHLD gets the line, and no false result" prints '^FAIL'

stand_in 'echo "shakedown: no GPU" >&2' 'echo "VERDICT: INCOMPLETE 0/0"' 'exit 3'
sniff 3 GPU-4f2a 7
expect "without a verdict the last line is the reason" prints '^shakedown: no GPU$'
stand_in 'exit 77'
sniff 3 GPU-4f2a 7
stand_in 'kill -SEGV $$'
sniff 3 GPU-4f2a 7
expect "a program that crashes is unknown, with its signal" prints 'Segmentation fault'
stand_in 'trap "" TERM' "sleep 1000 & echo \$! >$scratch/sleeping" 'wait' 'sleep 1000'
sniff 3 GPU-4f2a 5
expect "a program that hangs is ended in time" test "$took" -le 8
expect "  with the processes that it started" eval '! grep -q "^State:.[^Z]" "/proc/$(cat sleeping)/status" 2>/dev/null'
SHAKEDOWN_PROGRAM=$scratch/absent sniff 3 GPU-4f2a 7
expect "an absent program is named" prints "$scratch/absent"
TMPDIR=$scratch/no_folder sniff 3 GPU-4f2a 7
expect "so is an absent temporary folder" prints no_folder

# The real program, on the processor.
unset SHAKEDOWN_PROGRAM
sniff 0 "" 60
expect "the processor is measured" prints '^PARTIAL preflight,'
finish
