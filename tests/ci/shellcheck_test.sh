#!/usr/bin/env bash
# Every script of the tree passes shellcheck.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
needs shellcheck
cd "$root" || exit 1
mapfile -t scripts < <(grep -rlE -m1 '^#!.*(bash|sh)$' ci tests; find ci tests -name '*.bash')
expect "there are scripts" test ${#scripts[@]} -ge 20
limit=300
run 0 shellcheck --severity=warning "${scripts[@]}"
finish
