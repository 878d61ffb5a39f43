#!/usr/bin/env bash
# Formats that monitoring reads: the plugin of Nagios, Icinga and node-problem-detector, JUnit, CSV.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
shakedown=$build/bin/shakedown
cd "$scratch" || exit 1
mkdir -p here/ci/monitoring here/bin
cp "$root/ci/monitoring/check" here/ci/monitoring
printf '#!/bin/sh\nexec "%s" "$@"\n' "$shakedown" >here/bin/shakedown
chmod +x here/bin/shakedown
run 0 "$shakedown" report --results="$root/tests/data/h200-sxm-4ranks-full/1" --verdict=pass.json --junit=pass.xml --csv=pass.csv
run 1 "$shakedown" demo --verdict=fail.json --junit=fail.xml --csv=fail.csv --github-annotations=fail.txt
check=here/ci/monitoring/check

run 0 $check pass.json
expect "the plugin says OK with the figures" prints "^SHAKEDOWN OK: PASS [^|]*\|.*'gemm tflops'=811.94;;715: 'hbm "
run 2 $check fail.json
expect "CRITICAL, and which GPU" prints "^SHAKEDOWN CRITICAL: FAIL demo GPU 3 [^|]*: slow GPU.*\|.*'hbm hbm_gb_per_s'=4035.9;;4100: "
run 3 $check none.json
expect "UNKNOWN, and which file" prints '^SHAKEDOWN UNKNOWN: .*none.json: '

reason_fits() { [[ $(wc -l <"$scratch/out") == 1 && $(wc -c <"$scratch/out") -gt 20 && $(wc -c <"$scratch/out") -le 81 ]]; }
for case in 0:pass 1:fail 2:none; do
  run "${case%:*}" $check --npd "${case#*:}.json"
  expect "node-problem-detector gets one line of 80 bytes (${case#*:})" reason_fits
done
run 1 $check --npd fail.json
expect "  of whole words, and the GPU first" prints '^FAIL demo GPU 3 \(rank 3, serial demo-3, 0000:48:00.0\): slow GPU, 12.1 % off in$'

for case in 1:WARNING 3:UNKNOWN 3:; do
  # shellcheck disable=SC2016  # the arguments of that program
  if [[ -n ${case#*:} ]]; then
    printf '#!/bin/sh\nfor a; do case $a in --nagios=*) echo "SHAKEDOWN %s: x" >"${a#*=}" ;; esac; done\n' "${case#*:}"
  else
    printf '#!/bin/sh\necho "it does not start" >&2\nexit 127\n'
  fi >here/bin/shakedown
  run "${case%:*}" $check pass.json
done
expect "a program that does not start is UNKNOWN" prints '^SHAKEDOWN UNKNOWN: it does not start$'

if has xmllint; then
  run 0 "$shakedown" regress --results="$root/ci/baselines/h200-sxm/2ranks/1" --baseline="$root/ci/baselines/h200-sxm/2ranks/2" --junit=regress.xml
  run 0 xmllint --noout --schema "$root/tests/report/junit.xsd" pass.xml fail.xml regress.xml
fi
if has python3; then
  run 0 python3 -c '
import csv, json
for name, bad in ("pass", 0), ("fail", 19):
    rows = list(csv.DictReader(open(name + ".csv", newline="")))
    verdict = json.load(open(name + ".json"))
    assert len(rows) == 1 + len(verdict["findings"]) + len(verdict["unjudged"]), len(rows)
    for row, finding in zip(rows[1:], verdict["findings"]):
        assert row["key"] == finding["key"] and row["status"] == finding["status"] and None not in row, row
        assert row["value"] == "" if finding["value"] is None else float(row["value"]) == finding["value"], row
    assert sum(row["status"] == "fail" for row in rows[1:]) == bad, bad
    assert bad == 0 or any(row["serial"] == "demo-3" for row in rows)
'
fi
expect "GitHub gets the headline first" grep -q '^::error title=Shakedown FAIL::FAIL demo GPU 3 ' <(head -n 1 fail.txt)
expect "  and no line that is no command" bash -c '! grep -vE "^::(error|warning|notice) title=[^,:]+::." fail.txt'
finish
