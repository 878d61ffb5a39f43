#!/usr/bin/env bash
# ci/regression as users run it, with programs that print stored results: comparisons, rejected input, and messages.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1

# A build whose benchmarks print stored/<family>.json with the id of the run. Each launch differs slightly, as real
# launches do: the digits after the third depend on the run.
mkdir -p now/bench now/bin now/share/shakedown stored baseline
cp "$build/bin/shakedown" now/bin/
ln -s "$root/thresholds" now/share/shakedown/
printf 'gemm\nhbm\n' >now/share/shakedown/families
vary() { # RUN_ID FILE
  local digits
  digits=$(cksum <<<"$1" | cut -c 1-4)
  sed -E -e "s/\"run_id\": \"[^\"]*\"/\"run_id\": \"$1\"/" \
    -e "s/\"(tflops|hbm_gb_per_s)\":([1-9][0-9]{2})[0-9.]*/\"\1\":\2.$digits/" \
    -e "s/\"(tflops|hbm_gb_per_s)\":([1-9][0-9]\.[0-9])[0-9]*/\"\1\":\2$digits/" "$2"
}
declare -f vary >vary.bash
for family in gemm hbm; do
  cp "$root/tests/data/h200-sxm-4ranks/$family.json" stored/
  cat >"now/bench/bench_$family" <<END
#!/usr/bin/env bash
source "$scratch/vary.bash"
# Tuning choices are stored next to the launches.
mkdir -p "\$SHAKEDOWN_CHOICES" && echo '{}' >"\$SHAKEDOWN_CHOICES/gpu.json"
for flag; do [[ \$flag != --run-id=* ]] || id=\${flag#*=}; done
vary "\$id" "$scratch/stored/$family.json"
END
  chmod +x "now/bench/bench_$family"
done
for i in 1 2 3 4 5 6 7 8 9; do
  mkdir "good$i"
  for family in gemm hbm; do vary "good$i" "stored/$family.json" >"good$i/$family.json"; done
done
run 0 "$build/report/shakedown" baseline create --results="good1,good2,good3,good4,good5,good6,good7,good8,good9" --out=.
baseline=h200-sxm/4ranks
expect "a baseline is stored by profile and number of ranks" test -s "$baseline/baseline.json"
regression() { SHAKEDOWN_BUILD=$scratch/now SHAKEDOWN_LAUNCH=env "$root/ci/regression" --width=400 "$@" >out 2>err; }
run_ids() { grep -ohE '"run_id": ?"[^"]*' now/regression/*/gemm.json; }
# compared CODE WHAT PATTERN [FLAGS]
compared() {
  local code=0 wanted=$1 pattern=$3
  regression --baseline "$baseline" "${@:4}" || code=$?
  expect "$2" eval '[[ $code -eq $wanted ]] && grep -qE "$pattern" out err'
}

compared 0 "the same machine is the same" '^REGRESSION: 0 worse, 0 missing, 0 inconclusive, 10 compared'
expect "each repetition is a launch of its own" eval '[[ $(run_ids | sort -u | wc -l) -eq 9 ]]'
SHAKEDOWN_RUN_ID=mine compared 0 "a run id that the user set becomes one for each launch" '^REGRESSION: 0 worse'
# The copy by the copy engine loses 2 %: 4273 becomes 4188 GB/s.
sed -i -E '/engine:ce\/bytes:4294967296/s/"hbm_gb_per_s": ?4[0-9]{3}/"hbm_gb_per_s":4188/' stored/hbm.json
compared 1 "a loss of 2 % in nine repetitions is named" 'HBM copy by copy engine, 4 GiB .*worse' --markdown=summary.md
expect "and stands in the summary" grep -q '| worse |' summary.md
compared 1 "and by three, since nine quiet ones know their noise" 'HBM copy by copy engine, 4 GiB .*worse' --repetitions=3
expect "in the last line too" grep -q '^REGRESSION: 1 worse.*: hbm/op:copy/engine:ce/bytes:4294967296 hbm_gb_per_s -2' out
compared 0 "a loss below the minimal effect is none" '^REGRESSION: 0 worse' --min-effect=0.03 --repetitions=3
cp "$root/tests/data/h200-sxm-4ranks/hbm.json" stored/
sed -i -E 's/"driver": ?"[^"]*"/"driver":"999.1"/' stored/gemm.json stored/hbm.json
compared 2 "results of another driver are not compared" 'driver' --repetitions=3
compared 0 "unless asked for, and then it is said" 'compared although driver is 999.1' --allow-different --repetitions=3
cp "$root"/tests/data/h200-sxm-4ranks/{gemm,hbm}.json stored/
rm stored/gemm.json
code=0
regression --baseline "$baseline" || code=$?
expect "a benchmark that gives no result is not passed over" test "$code" = 3

for bad in "" "--baseline" "--baseline nosuch" "--baseline baseline --nosuch" "--baseline baseline --repetitions=0"; do
  code=0
  # shellcheck disable=SC2086
  regression $bad || code=$?
  expect "usage is refused: ci/regression $bad" eval '[[ $code -eq 2 ]] && grep -q "usage:" err'
done
finish
