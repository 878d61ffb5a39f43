#!/usr/bin/env bash
# --profile and --trace on real ranks: the classes of a step add up to its time, and the trace agrees with the result.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
needs python3 mpirun
cd "$scratch" || exit 1

# Reads the trace with a parser of its own, as the trace event format describes its fields.
agrees() {
  python3 - "$@" <<'PYTHON'
import collections
import json
import sys

ranks = int(sys.argv[1])
rows = [row for row in json.load(open("result.json"))["benchmarks"] if "by_rank" in row]
events = json.load(open("trace.json"))["traceEvents"]
assert {e["pid"] for e in events} == set(range(ranks))
assert {e["ph"] for e in events} == {"M", "X"}
spans = [e for e in events if e["ph"] == "X"]
sums = collections.defaultdict(float)
for rank in range(ranks):
    own = sorted((e for e in spans if e["pid"] == rank), key=lambda e: (e["ts"], -e["dur"]))
    step, parts_end = None, 0
    for e in own:
        if e["cat"] == "step":
            assert step is None or e["ts"] >= step["ts"] + step["dur"] - 1e-3, "steps do not overlap"
            step, parts_end = e, e["ts"]
            sums[rank, e["name"].rsplit(" step ", 1)[0], "steps"] += 1
            continue
        assert e["ts"] >= parts_end - 1e-3, "parts do not overlap"
        parts_end = e["ts"] + e["dur"]
        assert parts_end <= step["ts"] + step["dur"] + 1e-3, "parts are inside of their step"
        sums[rank, step["name"].rsplit(" step ", 1)[0], e["cat"]] += e["dur"] / 1e3
keys = {key for _, key, _ in sums}
assert keys, "some row is profiled"
classes = ["gemm", "attention", "pointwise", "loss", "update", "communication"]
for key in keys:
    [own] = [row["by_rank"] for row in rows if row["name"].removesuffix("/manual_time").removesuffix("/iterations:1") == key]
    for rank in range(ranks):
        whole = own["profiled_ms"][rank]
        together = sum(own[c + "_ms"][rank] for c in [*classes, "fixed"])
        assert abs(together - whole) < 1e-6 * whole, (key, rank, together, whole)
        steps = sums[rank, key, "steps"]
        assert steps == 5
        for c in classes:
            traced = sums[rank, key, c] / steps
            assert abs(traced - own[c + "_ms"][rank]) < 1e-6 * whole, (key, rank, c, traced)
        assert ranks == 1 or own["communication_ms"][rank] > 0
PYTHON
}

flags=(--backend=host --trace=trace.json --benchmark_out=result.json)
run 0 "$build/bench/bench_lora_step" "${flags[@]}"
expect "the trace of one rank agrees with its row" agrees 1
run 0 mpi -np 2 "$build/bench/bench_train_step" "${flags[@]}" --benchmark_filter='gpt2_tiny|/tp:2'
expect "the trace of two ranks agrees with their rows" agrees 2
run 0 "$build/bench/bench_lora_step" --backend=host --profile --benchmark_filter=f64 --benchmark_out=alone.json
expect "--profile needs no trace" grep -q '"gemm_ms"' alone.json
expect "the row says what timed its operations" grep -qE '"profile_source": ?\["events"\]' alone.json
run 0 "$build/bench/bench_lora_step" --backend=host --benchmark_filter=f64 --benchmark_out=plain.json
expect "a run without --profile has no classes" eval '! grep -q "\"gemm_ms\"" plain.json'
run 2 "$build/bench/bench_gemm" --backend=host --profile
expect "a family without steps refuses --profile in one line" says '^shakedown: --profile: .*bench_lora_step, bench_train_step'
run 2 "$build/bin/shakedown" measure --backend=host --families=gemm --profile
expect "measure refuses --profile without a family that has steps" says '^error: --profile .*train_step or lora_step'
run 0 "$build/bin/shakedown" measure --backend=host --families=lora_step --profile --folder=run
run 3 "$build/bin/shakedown" report --results=run --markdown=run.md --verdict=run.json
expect "the report of measure --profile lists the classes of a step" prints '^lora_step/model:tiny.* gemm +[0-9.]+ +[0-9.]+ %'
expect "  so do its other forms" eval 'grep -q "^| lora.*| gemm |" run.md && grep -q "\"gemm_ms\": [0-9]" run.json'
run not0 "$build/bench/bench_lora_step" --backend=host --trace=missing/trace.json
expect "a folder that does not exist is refused before the measurement" says 'missing/trace.json: .*\(--trace\)'
finish
