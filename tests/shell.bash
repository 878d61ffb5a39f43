# Common functions of the test scripts. Each is run as SCRIPT BUILD, counts its failures, and ends with finish.
# With pipefail a pipe must not end in grep -q: grep exits at the first match, and the writer fails. Use grep -q WHAT <(WRITER).
set -uo pipefail

build=$(readlink -f "$1")
# shellcheck disable=SC2034
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
command -v pgrep >/dev/null || { echo "pgrep is missing: run ci/setup" && exit 1; }
unset SHAKEDOWN_FAULT SHAKEDOWN_LAUNCH SHAKEDOWN_RANKS SHAKEDOWN_TIER SHAKEDOWN_RUN_ID SHAKEDOWN_MEASURED
# Some containers have no ssh and set this to "isolated", so that mpirun starts nothing on the hosts of a test. Without ssh
# mpirun needs another agent even if it does not use it.
unset OMPI_MCA_plm
command -v ssh >/dev/null || export OMPI_MCA_plm_rsh_agent=false
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks share the cores with other tests, so waiting ranks yield. Busy waiting would delay parallel tests by minutes.
export OMPI_MCA_mpi_yield_when_idle=1

fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# expect "what it proves" CONDITION...
expect() {
  local what=$1
  shift
  if "$@"; then echo "ok: $what"; else fail "$what"; fi
}

# run CODE COMMAND...: runs it with a limit of $limit seconds (120); its output is in $scratch/out and $scratch/err. CODE is the
# expected exit code, or "not0".
limit=120
run() {
  local wanted=$1 code=0 began=$SECONDS
  shift
  timeout -k 5 "$limit" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
  if [[ $wanted == "$code" || ($wanted == not0 && $code -ne 0 && $((SECONDS - began)) -lt $limit) ]]; then return 0; fi
  fail "exit code $code, wanted $wanted: $*"
  sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 15
  return 1
}

says() { grep -qE -- "$1" "$scratch/err"; }
prints() { grep -qE -- "$1" "$scratch/out"; }
silent() { [[ ! -s $scratch/out ]]; }

# Prints the last line of the judge about these results.
verdict_of() { "$build/tests/acceptance_test" --results="$1" --gtest_brief=1 "${@:2}" 2>&1 | tail -n 1; }

# needs PROGRAM...: skips the test if a program is missing. Fails instead if CI is set, because skipped tests are not noticed
# there. namespaces: skips the test if hosts cannot be made, even if CI is set.
PATH=$PATH:/usr/sbin:/sbin
needs() {
  local program missing=()
  for program in "$@"; do command -v "$program" >/dev/null || missing+=("$program"); done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  local why="missing: ${missing[*]}; ci/setup --tests installs what tests need"
  [[ -z ${CI:-} ]] || { echo "FAILED: $why" && exit 1; }
  echo "SKIP: $why" && exit 77
}
# has PROGRAM: true if the part of a test that needs the program can run; else prints what is skipped.
has() {
  command -v "$1" >/dev/null && return 0
  echo "SKIP: a part that needs $1; ci/setup --tests installs it"
  [[ -z ${CI:-} ]] || fail "$1 is missing"
  return 1
}
namespaces() { unshare --net --mount --pid --uts --fork true 2>/dev/null || { echo "SKIP: only root makes namespaces" && exit 77; }; }

# hide_gpus: programs started from here on find no GPU, as on a machine without GPUs. Judging their results needs
# --allow-faults, because they record that SHAKEDOWN_SYSFS was set.
hide_gpus() {
  mkdir -p "$scratch/sys/bus/pci/devices" "$scratch/sys/module"
  export SHAKEDOWN_SYSFS=$scratch/sys CUDA_VISIBLE_DEVICES=
  unset SLURM_STEP_GPUS SLURM_JOB_GPUS
}

# mpi: mpirun for a machine that may have fewer cores than ranks. A program, because run calls it with timeout.
mkdir "$scratch/.tools"
printf '#!/bin/sh\nexec mpirun --bind-to none --oversubscribe "$@"\n' >"$scratch/.tools/mpi"
chmod +x "$scratch/.tools/mpi"
PATH=$scratch/.tools:$PATH

finish() {
  echo "$failures failures"
  [[ $failures -eq 0 ]]
  exit
}
