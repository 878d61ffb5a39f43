#!/usr/bin/env bash
# The shipped alerts fire when they should, and Prometheus accepts the output of --prometheus. report_test checks on every
# machine that their series exist.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
needs promtool
cp "$root/ci/prometheus/alerts.yaml" "$root/tests/report/alerts_test.yaml" "$scratch"
cd "$scratch" || exit 1
run 0 promtool check rules alerts.yaml
expect "the alerts are valid" prints 'SUCCESS: [0-9]+ rules found'
run 0 promtool test rules alerts_test.yaml
expect "the alerts fire when they should" prints SUCCESS
"$build/report/shakedown" report --results="$root/tests/data/h200-sxm-4ranks-full/1" --prometheus=run.prom >/dev/null
expect "what is written is valid" bash -c 'promtool check metrics <run.prom'
finish
