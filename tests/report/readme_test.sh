#!/usr/bin/env bash
# Tests README.md and docs/: their commands run and their links exist. tests/report/readme_examples_test.cpp compares their
# examples of verdicts.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
mkdir build
for entry in "$build"/*; do [[ ${entry##*/} == results ]] || ln -s "$entry" build/; done
ln -s "$root"/{README.md,base,bench,certify,ci,docs,kernels,tests,thresholds,fixtures,node,launch,report} .

texts=("$root/README.md" "$root"/docs/*.md)
for text in "${texts[@]}"; do
  for link in $(grep -oE '\]\([a-z.][^):]*\)' "$text" | tr -d ']()'); do
    expect "the link to $link in ${text#"$root/"} leads somewhere" test -e "$(dirname "$text")/${link%%#*}"
  done
done

# The messages that the troubleshooting page quotes must occur in the source.
quoted=$(awk '/^## /{inside=/A run that stops/} inside && /^\| `/' "$root/docs/troubleshooting.md" | cut -d'|' -f2 |
  grep -oE '`[^`]+`' | tr -d '`')
expect "it quotes messages" test "$(wc -l <<<"$quoted")" -ge 8
while IFS= read -r message; do
  expect "\"$message\" is a message of ours" grep -rqF -- "$message" "$root"/{base,bench,certify,fixtures,launch,node,thresholds,kernels,ci}
done <<<"$quoted"

# Each message of NCCL on the page is in a stored line, and each stored line is explained: meaning, then action.
section=$(awk '/^## /{inside=/Messages of NCCL/; next} inside && NF' "$root/docs/troubleshooting.md" | sed -e ':a' -e 'N' -e '$!ba' -e 's/\n  / /g')
shapes=()
while IFS= read -r item; do
  head=${item%%\`: *}\`
  expect "\"$head\" has a meaning and an action" grep -qE '`: [^.]+(\. [A-Z]|; )[^.]*' <<<"$item"
  while IFS= read -r shape; do shapes+=("$shape"); done < <(grep -oE '`[^`]+`' <<<"$head" | tr -d '`')
done <<<"$section"
# The page writes ... for what differs; "error 9" follows the same words as "error 5" before it.
matches() { grep -qE -- "$(sed -e 's/[][()|.*+?{}]/\\&/g' -e 's/ *\\\.\\\.\\\. */.*/g' <<<"$1")" <<<"$2"; }
lines=$(sed -n '/^#/!s/.* | //p' "$root/tests/data/nccl_messages.txt")
for shape in "${shapes[@]}"; do expect "\"$shape\" is a message of NCCL" matches "$shape" "$lines"; done
expect "there are messages of NCCL" test "${#shapes[@]}" -ge 30
while IFS= read -r line; do
  explained=no
  for shape in "${shapes[@]}"; do ! matches "$shape" "$line" || explained=yes; done
  expect "\"$line\" is explained" test $explained = yes
done <<<"$lines"

# The commands need a finished run of the host backend. Uses a copy of one in the build, if there is one: `latest` may be a
# run that has only started, in parallel with this test.
finished=$(printf '%s\n' "$build"/results/2*/verdict.json | tail -n 1)
if [[ -s $finished ]]; then
  mkdir build/results
  cp -rL "${finished%/*}" build/results/latest
else
  SHAKEDOWN_RESULTS=build/results "$build/bin/shakedown" measure --families=gemm,allreduce
fi

# The commands in their shell blocks, without those that set up a machine, judge a whole machine, or need a cluster. Settings of NCCL
# need GPUs (tests/launch/tune_test.sh has a stand-in).
shown=$(awk '/^```sh/{inside=1; next} /^```/{inside=0} inside' "${texts[@]}" | sed 's/  *#.*//')
commands=$(grep -E '^(build/|mpirun |shakedown report .*build/results)' <<<"$shown" | grep -vE 'shakedown (accept|tune)|--tier=full')
PATH=$PWD/build/bin:$PATH
cp "$root/tests/data/site.yaml" mysite.yaml
# A small model and examples for the fine-tuning.
cp -r "$root/tests/data/finetune/tiny_qwen2" Qwen2-7B
cp "$root/tests/data/finetune/curve/train.jsonl" train.jsonl
echo '{model: {precision: f32}, training: {steps: 2}, data: {sequence_length: 64}}' >run.yaml
for run in 1 2; do
  mkdir -p "shakedown-471$run/vm"
  cp -r "$root/tests/data/h200-sxm-4ranks-full/$run" "shakedown-471$run/vm/"
done
echo vm >roster
if [[ -n ${CI:-} ]] || command -v ssh-keygen >/dev/null; then
  ssh-keygen -q -t ed25519 -N '' -f mykey && echo "me $(<mykey.pub)" >signers
else
  echo "without ssh-keygen no certificate is signed or verified: ci/setup --tests installs it"
  commands=$(grep -vE 'shakedown (certify|verify) ' <<<"$commands")
fi
mkdir ledger && export SHAKEDOWN_LEDGER=$PWD/ledger
commands=${commands//shakedown-4711\/node7/shakedown-4711\/vm}  # where the results are
expect "they show commands" test "$(wc -l <<<"$commands")" -ge 10
for command in $(grep -oE '(^| )ci/[a-z]+( |$)' <<<"$shown" | sort -u); do
  expect "$command is there" test -x "$root/$command"
done
# A machine with one GPU can run only one rank.
[[ $(grep -ls '^0x10de' /sys/bus/pci/devices/*/vendor | wc -l) -ne 1 ]] || commands=${commands//-np 2/-np 1}
while IFS= read -r command; do
  limit=120
  code=0
  timeout "$limit" bash -c "${command/mpirun/mpi}" >out 2>err </dev/null || code=$?
  # A verdict on some of the benchmarks is PARTIAL, and leaves the nodes undecided; the site and the baselines of the examples are
  # of GPUs. The history has drained nodes. A run that has not failed gives no claim.
  expect "it runs: $command" eval '[[ $code -eq 0 || ($code -eq 1 && "$command" =~ --site=|shakedown\ history) ||
    ($code -eq 3 && ("$command" =~ shakedown\ (nodes|claim) || "$command" == *"--baseline="* || $(tail -n 1 out) == "VERDICT: PARTIAL "*)) ]]'
done <<<"$commands"

# Commands that would measure for a long time, or need a launcher of a cluster, print their plan with their flags and variables.
accepts=$(grep -E '(^| |/)(ci/accept|shakedown accept)( |$)' <<<"$shown" | grep -E '^(ci|build|shakedown|SHAKEDOWN_EXPECT|SHAKEDOWN_SHARED)' | sort -u)
expect "they show acceptances" test "$(wc -l <<<"$accepts")" -ge 8
while IFS= read -r command; do
  [[ $command == *--families* || $command == *--gate* ]] || command+=" --families=gemm"
  [[ $command == *--plan* ]] || command+=" --plan"
  expect "it is understood: $command" eval 'SHAKEDOWN_BUILD="$PWD/build" bash -c "$command" >out 2>err </dev/null && grep -q "^gemm/" out'
done <<<"$accepts"

# Commands of the full tier, which take minutes, print their plan too. Their rows are those of a GPU.
long=$(grep -E '^mpirun .*--tier=full' <<<"$shown")
expect "they show rows of the full tier" test "$(wc -l <<<"$long")" -ge 2
while IFS= read -r command; do
  here=$(sed -E 's/mpirun -np [0-9]/mpi -np 2/; s/ --benchmark_filter=[^ ]*//' <<<"${command//\/scratch/$PWD}")
  expect "it is understood: $command" bash -c "$here --plan >out 2>err </dev/null"
done <<<"$long"
finish
