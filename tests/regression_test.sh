#!/usr/bin/env bash
# ci/regression as a user runs it, on programs that hand out stored results: what is compared, refused, and said.
# shellcheck source-path=SCRIPTDIR source=shell.bash disable=SC2016,SC2034
source "$(dirname "$0")/shell.bash"
cd "$scratch" || exit 1

# A build whose benchmarks copy stored/<family>.json, with the run's id, to where a result is wanted.
mkdir -p now/bench now/report now/tests stored baseline
ln -s "$build/report/shakedown" now/report/shakedown
ln -s "$build/tests/acceptance_test" now/tests/acceptance_test
for family in gemm hbm; do
  cp "$root/tests/data/h200-sxm-4ranks/$family.json" stored/
  cp "$root/tests/data/h200-sxm-4ranks/$family.json" baseline/
  cat >"now/bench/bench_$family" <<END
#!/usr/bin/env bash
for flag; do
  [[ \$flag != --benchmark_out=* ]] || cp "$scratch/stored/$family.json" "\${flag#*=}"
done
END
  chmod +x "now/bench/bench_$family"
done
regression() { SHAKEDOWN_BUILD=$scratch/now SHAKEDOWN_LAUNCH=env "$root/ci/regression" "$@" >out 2>err; }
# compared CODE WHAT PATTERN
compared() {
  local code=0 wanted=$1 pattern=$3
  regression --baseline baseline || code=$?
  expect "$2" eval '[[ $code -eq $wanted ]] && cat out err | grep -qE "$pattern"'
}

compared 0 "equal results are the same" '^REGRESSION: 0 worse, 0 missing'
# The copy by the copy engine loses a tenth: 4297 becomes 3867 GB/s.
sed -i -E '/engine:ce\/bytes:4294967296/s/"hbm_gbps": ?4[0-9]{3}/"hbm_gbps":3867/' stored/hbm.json
compared 1 "a drop beyond the tolerance is named" 'hbm/op:copy/engine:ce/bytes:4294967296.*worse'
cp baseline/hbm.json stored/hbm.json
sed -i -E 's/"driver": ?"[^"]*"/"driver":"999.1"/' stored/gemm.json stored/hbm.json
compared 2 "results of another driver are not compared" 'driver'
cp baseline/*.json stored/
rm stored/gemm.json
code=0
regression --baseline baseline || code=$?
expect "a benchmark that gives no result is not passed over" test "$code" = 3

for bad in "" "--baseline" "--baseline nosuch" "--baseline baseline --nosuch"; do
  code=0
  # shellcheck disable=SC2086
  regression $bad || code=$?
  expect "usage is refused: ci/regression $bad" eval '[[ $code -eq 2 ]] && grep -q "the form is" err'
done
finish
