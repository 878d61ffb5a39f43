#!/usr/bin/env bash
# Fine-tuning as a program: one and two ranks, a run that is continued, evaluation, prepared tokens, and wrong input in one line.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2317
source "$(dirname "$0")/../shell.bash"
needs mpirun
hide_gpus
cd "$scratch" || exit 1
bench=$build/bench/bench_finetune
data=$root/tests/data/finetune
settings() { # settings STEPS LEARNING_RATE [MORE]
  cat <<YAML
model: {folder: $data/tiny_qwen2, precision: f32}
lora: {rank: 8, alpha: 16}
training: {learning_rate: $2, warmup_steps: 2, steps: $1, batch: 2, save_steps: 2, eval_steps: 2}
data: {file: $data/curve/train.jsonl, eval_file: $data/curve/eval.jsonl, sequence_length: 64}
${3-}
YAML
}
settings 4 0.001 >run.yaml
one=("$bench" --backend=host --config=run.yaml)
loss_of() { grep -oE '"train/loss": ?[0-9.]+' "$1/metrics.jsonl"; }
one_line() { [[ $(grep -c . err) == 1 ]]; }

run 0 "${one[@]}" --plan
expect "the plan has the memory of a rank" prints '^all +[0-9.]+ GB'
run 0 "${one[@]}" --out=run --merge
expect "a run prints each step" says '^\[4/4\] loss [0-9.]+, lr .* left, evaluation '
expect "  and writes the losses of all steps" test "$(loss_of run | wc -l)" = 4
for file in adapter/adapter_config.json adapter/adapter_model.safetensors model/model.safetensors checkpoint/checkpoint.json; do
  expect "  and $file" test -s "run/$file"
done
expect "  and events of TensorBoard" eval 'ls run/*tfevents* >/dev/null'
run 0 "$bench" --backend=host --config=run.yaml --evaluate --from=run/adapter
cp out adapted
run 0 "$bench" --backend=host --config=run.yaml --evaluate --weights=run/model
expect "the merged model has the loss of the adapters" eval '[[ $(grep -oE "loss [0-9]+\.[0-9]{3}" out) == $(grep -oE "loss [0-9]+\.[0-9]{3}" adapted) ]]'

run 2 "${one[@]}" --out=run
expect "a run does not replace a checkpoint" says '--resume'
run 0 "${one[@]}" --out=run --resume
expect "a finished run is complete" eval 'prints "^complete: 4 steps" && ! prints loss'
settings 4 0.002 >other.yaml
run 2 "$bench" --backend=host --config=other.yaml --out=run --resume
expect "a run is not continued with another rate" says 'lr .*0.002'

run 0 "${one[@]}" --out=prepared --prepare
run 0 "${one[@]}" --out=again --data=prepared/train.tokens
expect "prepared tokens give the same losses" eval '[[ $(loss_of again) == $(loss_of run) ]]'
sed -i 's/batch: 2/batch: 1/' run.yaml
run 0 mpi -np 2 "${one[@]}" --out=two
expect "two ranks have the losses of one" eval '[[ $(loss_of two | cut -c1-20) == $(loss_of run | cut -c1-20) ]]'

for wrong in --weights=nowhere --data=nowhere.jsonl --config=nowhere.yaml --from=nowhere --weights="$data/curve"; do
  run not0 "${one[@]}" --out=wrong "$wrong"
  expect "$wrong ends in one line" one_line
done
mkfifo pipe
run 2 "${one[@]}" --out=wrong --data=pipe
expect "a pipe is no data" says 'pipe: .*regular'
printf '{"prompt": "%s", "completion": "yes"}\n' "$(seq 500 | tr '\n' ' ')" >long.jsonl
run 2 "${one[@]}" --out=wrong --data=long.jsonl
expect "examples without a target are refused" says 'long.jsonl: 1 example .*sequence_length'
{ cat long.jsonl && cat "$data/curve/train.jsonl"; } >some.jsonl
run 0 "${one[@]}" --out=cut --data=some.jsonl
expect "examples that are cut are counted" says '^[0-9]+ examples? .*64 tokens'
echo >file
run not0 "${one[@]}" --out=file/below --prepare
run 2 "$bench" --backend=host --data=x
expect "without weights, the flag is named" says '--weights: is missing'
run 2 "${one[@]}" --out=wrong --prepare --evaluate
expect "two kinds of runs are refused" one_line
run 2 "$build/bench/bench_gemm" --weights=x
expect "other programs do not take the flags" says 'bench_finetune'
mkdir full && mount -t tmpfs -o size=64k none full 2>/dev/null && {
  run not0 "${one[@]}" --out=full
  expect "a full disk ends in one line" eval '[[ $(grep -cv "^\[" err) == 1 ]]'
  umount full
}

run 0 mpi -np 2 "$bench" --backend=host --benchmark_filter='finetune/model' --benchmark_out=row.json
expect "as a benchmark it has both losses" test "$(grep -oE '"(eval_)?loss": ?\[[0-9]' row.json | sort -u | wc -l)" = 2
run 0 "$bench" --backend=host --benchmark_out=none.json
expect "without a request, the row says how to ask for it" grep -q 'waived: .*finetune/model' none.json
finish
