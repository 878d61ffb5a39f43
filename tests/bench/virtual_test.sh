#!/usr/bin/env bash
# The virtual backend: the quick tier of chips that are not at hand, through the front door. No finding fails, every row advances
# within its limit, and the tier takes less than a minute of the chip's time. Its verdict is never taken for a pass.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
needs python3
cd "$scratch" || exit 1
mkdir runs full
shakedown=$build/bin/shakedown
export SHAKEDOWN_RANKS=2
chips=(b300 l40s gh200 a100)
[[ -z ${SHAKEDOWN_NIGHTLY:-} ]] || chips+=(b200 h20 h100)

# rows FOLDER: prints the sum of the virtual seconds of all rows, and the longest time without a sign of progress.
rows() {
  python3 - "$1" <<'PYTHON'
import glob, json, sys
total, silence = 0, 0
for file in glob.glob(sys.argv[1] + "/*.json"):
    for row in json.load(open(file)).get("benchmarks", []):
        by_rank = row.get("by_rank") or {}
        if "virtual_s" in by_rank:
            total += max(x for x in by_rank["virtual_s"] if x is not None)
            silence = max([silence] + [x for x in by_rank["virtual_silence_s"] if x is not None])
print(f"{total:.1f} {silence:.1f}")
PYTHON
}
# failing FOLDER: prints the findings that fail.
failing() {
  python3 - "$1" <<'PYTHON'
import json, sys
for f in json.load(open(sys.argv[1] + "/verdict.json"))["findings"]:
    if f["severity"] == "fail" and f["status"] in ("fail", "missing", "invalid"):
        print(f["key"], f["metric"], f["value"], f["detail"])
PYTHON
}
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a < b) }'; }

# --- the full tier --------------------------------------------------------------------------------------------------------
# All rows of all profiles are planned to end within their limit, and the virtual runs of six chips do.
if [[ -n ${SHAKEDOWN_NIGHTLY:-} ]]; then
  limit=600
  for profile in "$root"/thresholds/*.yaml; do
    grep '^match: {backend: cuda, ' "$profile" | grep -qv 'device: any' || continue
    chip=$(basename "$profile" .yaml)
    run 0 "$shakedown" accept --plan --backend=virtual --chip="$chip" --tier=full
    longest=$(sed -n 's/^[a-z_0-9]*\/.* \([0-9.]*\) s$/\1/p' out | sort -n | tail -n 1)
    expect "$chip: each row is planned below its limit: $longest s" below "$longest" 300
  done
  for chip in b300 b200 h20 l40s gh200 a100; do
    run 3 "$shakedown" accept --backend=virtual --chip="$chip" --tier=full --folder="full/$chip"
    expect "$chip: the verdict is VIRTUAL" prints '^VERDICT: VIRTUAL [0-9]+/[0-9]+ '
    expect "  no finding fails" test -z "$(failing "full/$chip")"
    read -r total silence < <(rows "full/$chip")
    expect "  each of its rows advances within its limit: $silence s of $total s" below "$silence" 60
  done
fi

# --- chips ----------------------------------------------------------------------------------------------------------------
for chip in "${chips[@]}"; do
  run 3 "$shakedown" accept --backend=virtual --chip="$chip" --folder="runs/$chip"
  expect "$chip: the verdict is VIRTUAL" prints '^VERDICT: VIRTUAL [0-9]+/[0-9]+ '
  expect "  and counts no faults" test "$(grep -c 'more fault' out)" -eq 0
  expect "  no finding fails" test -z "$(failing "runs/$chip")"
  read -r total silence < <(rows "runs/$chip")
  expect "  each row advances within its limit: $silence s" below "$silence" 60
  if ! below "$total" 60; then  # README.md counts the time with the choices of an earlier run
    run 3 "$shakedown" accept --backend=virtual --chip="$chip" --folder="runs/$chip-again"
    read -r total silence < <(rows "runs/$chip-again")
  fi
  expect "  quick takes less than a minute: $total s" below "$total" 60
  run 0 "$shakedown" accept --plan --backend=virtual --chip="$chip" --folder="runs/$chip"
  expect "  as it is planned" eval 'below "$(grep -oE "about [0-9]+ s" out | tail -n 1 | tr -dc 0-9)" 60'
done

# A GPU with 1/64 of its f32 rate in f64 multiplies for 7 s. Twelve candidates in three turns would take six minutes.
mkdir long
run 0 "$build/bench/bench_gemm" --backend=virtual --chip=b300 --tier=full --benchmark_filter='dtype:f64/m:16384' \
  --benchmark_out=long/gemm.json
read -r total silence < <(rows long)
expect "products of 7 s take less than two minutes: $total s" below "$total" 120
expect "  and each part of their tuning renews the deadline: $silence s" below "$silence" 60

# --- never a pass ---------------------------------------------------------------------------------------------------------
run 3 "$shakedown" report --results=runs/b300 --junit=junit.xml --markdown=verdict.md --html=page.html --nagios=nagios.txt \
  --prometheus=metrics.prom --health-checker=health.json
expect "JUnit has an error" grep -q '<error type="virtual"' junit.xml
expect "Markdown begins with VIRTUAL" grep -q '^## VIRTUAL ' verdict.md
expect "the page says that the times are computed" grep -q 'No GPU was measured' page.html
expect "Nagios is UNKNOWN" grep -q '^SHAKEDOWN UNKNOWN: VIRTUAL' nagios.txt
expect "Prometheus does not pass" grep -qE '^shakedown_pass\{.*\} 0$' metrics.prom
run 3 "$build/tests/acceptance_test" --results=runs/b300 --gtest_brief=1
expect "a test of acceptance_test fails" prints 'no GPU'
run 3 "$shakedown" accept --backend=virtual --chip=b300 --families=preflight,hbm --partial-ok --folder=runs/partial
expect "a part of it is VIRTUAL too" prints '^VERDICT: VIRTUAL '
expect "and asks for no facts of a machine" eval '! prints "^no reference: preflight"'
for verb in "nodes --results=runs/b300" "archive --results=runs/b300" "baseline create --results=runs/b300 --out=b" \
  "baseline create --results=runs/b300 --floors=x.yaml" "regress --results=runs/b300 --baseline=runs/l40s" \
  "regress --results=runs/b300 --store=store" "compare runs/b300 runs/l40s" "ledger add --ledger=ledger --results=runs/b300"; do
  # shellcheck disable=SC2086
  run 2 "$shakedown" $verb
  expect "$verb refuses it by name" says '--backend=virtual'
done
run 3 "$shakedown" fleet --results=runs/b300
expect "a fleet has no good node by it" prints '^0 nodes of 1 good$'
# One file of a virtual GPU among real ones.
cp -r "$root/tests/data/h200-sxm-4ranks-full/1" mixed
cp runs/b300/hbm.json mixed/
run 3 "$shakedown" report --results=mixed --mixed-runs
expect "one file of it among real ones is enough" prints '^VERDICT: VIRTUAL '

# --- refused --------------------------------------------------------------------------------------------------------------
run 2 "$shakedown" accept --backend=virtual
expect "a chip must be named" says '--chip'
run 2 "$shakedown" accept --chip=b300
run 2 "$build/bench/bench_gemm" --backend=virtual --chip=b3000
expect "a chip without a profile is refused, and a near name is offered" says "'b3000' is not a profile of a GPU.*b300"
run 2 "$shakedown" accept --backend=virtual --chip=b300 --for=1m
hide_gpus
run 0 "$build/bench/bench_jitter" --benchmark_list_tests
run 0 "$build/bench/bench_hbm" --benchmark_filter='op:copy' --benchmark_out=auto.json
expect "auto does not choose it" grep -q '"backend": "host"' auto.json

finish
