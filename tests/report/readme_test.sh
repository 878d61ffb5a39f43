#!/usr/bin/env bash
# The README and docs/ tell the truth: their commands run and their links lead somewhere. What they show of verdicts is
# compared in tests/report/acceptance_cli_test.cpp.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
mkdir build
for entry in "$build"/*; do [[ ${entry##*/} == results ]] || ln -s "$entry" build/; done
ln -s "$root"/{README.md,base,bench,ci,docs,kernels,tests,thresholds,fixtures,node,launch,report} .

texts=("$root/README.md" "$root"/docs/*.md)
for text in "${texts[@]}"; do
  for link in $(grep -oE '\]\([a-z.][^):]*\)' "$text" | tr -d ']()'); do
    expect "the link to $link in ${text#"$root/"} leads somewhere" test -e "$(dirname "$text")/${link%%#*}"
  done
done

# What the troubleshooting page quotes of our own messages is said somewhere.
quoted=$(awk '/^## /{inside=/A run that stops/} inside && /^\| `/' "$root/docs/troubleshooting.md" | cut -d'|' -f2 |
  grep -oE '`[^`]+`' | tr -d '`')
expect "it quotes messages" test "$(wc -l <<<"$quoted")" -ge 8
while IFS= read -r message; do
  expect "\"$message\" is a message of ours" grep -rqF -- "$message" "$root"/{base,bench,fixtures,launch,node,thresholds,kernels,ci}
done <<<"$quoted"

# What its commands need: a finished run of the host backend. Where the build has one, a copy; `latest` may be one that has only
# begun, beside this test.
finished=$(printf '%s\n' "$build"/results/2*/verdict.json | tail -n 1)
if [[ -s $finished ]]; then
  mkdir build/results
  cp -rL "${finished%/*}" build/results/latest
else
  SHAKEDOWN_RESULTS=build/results "$build/bin/shakedown" measure --families=gemm,allreduce
fi

# Commands in their shell blocks, except those that set up a machine, judge it as a whole, or need a cluster.
shown=$(awk '/^```sh/{inside=1; next} /^```/{inside=0} inside' "${texts[@]}" | sed 's/  *#.*//')
commands=$(grep -E '^(build/|mpirun |shakedown report .*build/results)' <<<"$shown" | grep -vE 'shakedown accept|fleet_soak|--tier=full')
PATH=$PWD/build/bin:$PATH
cp "$root/tests/data/site.yaml" mysite.yaml
expect "they show commands" test "$(wc -l <<<"$commands")" -ge 10
for command in $(grep -oE '(^| )ci/[a-z]+( |$)' <<<"$shown" | sort -u); do
  expect "$command is there" test -x "$root/$command"
done
# A machine with one GPU has room for one rank.
[[ $(grep -ls '^0x10de' /sys/bus/pci/devices/*/vendor | wc -l) -ne 1 ]] || commands=${commands//-np 2/-np 1}
while IFS= read -r command; do
  limit=120
  code=0
  timeout "$limit" bash -c "${command/mpirun/mpi}" >out 2>err </dev/null || code=$?
  # A verdict on some of the benchmarks is PARTIAL, and leaves the nodes undecided; the site and the baselines of the examples are
  # of GPUs.
  expect "it runs: $command" eval '[[ $code -eq 0 || ($code -eq 1 && "$command" == *"--site="*) ||
    ($code -eq 3 && ("$command" == *"shakedown nodes"* || "$command" == *"--baseline="* || $(tail -n 1 out) == "VERDICT: PARTIAL "*)) ]]'
done <<<"$commands"

# What would measure for long, or needs a launcher of a cluster, says its plan: its flags and variables are as they are shown.
accepts=$(grep -E '(^| |/)(ci/accept|shakedown accept)( |$)' <<<"$shown" | grep -E '^(ci|build|shakedown|SHAKEDOWN_EXPECT|SHAKEDOWN_SHARED)' | sort -u)
expect "they show acceptances" test "$(wc -l <<<"$accepts")" -ge 8
while IFS= read -r command; do
  [[ $command == *--families* ]] || command+=" --families=gemm"
  [[ $command == *--plan* ]] || command+=" --plan"
  expect "it is understood: $command" eval 'SHAKEDOWN_BUILD="$PWD/build" bash -c "$command" >out 2>err </dev/null && grep -q "^gemm/" out'
done <<<"$accepts"

# So does what the full tier measures for minutes; its rows are those of a GPU.
long=$(grep -E '^mpirun .*--tier=full' <<<"$shown")
expect "they show rows of the full tier" test "$(wc -l <<<"$long")" -ge 2
while IFS= read -r command; do
  here=$(sed -E 's/mpirun -np [0-9]/mpi -np 2/; s/ --benchmark_filter=[^ ]*//' <<<"${command//\/scratch/$PWD}")
  expect "it is understood: $command" bash -c "$here --plan >out 2>err </dev/null"
done <<<"$long"
finish
