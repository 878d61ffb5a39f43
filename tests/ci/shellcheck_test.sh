#!/usr/bin/env bash
# Every script of the tree is clean to shellcheck. Skipped where it is not installed.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
command -v shellcheck >/dev/null || { echo "SKIP: no shellcheck here" && exit 77; }
cd "$root" || exit 1
mapfile -t scripts < <(grep -rlE -m1 '^#!.*(bash|sh)$' ci tests; find ci tests -name '*.bash')
expect "there are scripts" test ${#scripts[@]} -ge 20
limit=300
run 0 shellcheck --severity=warning "${scripts[@]}"
finish
