#!/usr/bin/env bash
# The example workflows for GitHub and GitLab: valid YAML, clean shell, and commands that write the files that later steps read.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
python=/usr/bin/python3  # the Python of the distribution, which has yaml
needs $python shellcheck
"$python" -c 'import yaml' 2>/dev/null || needs python3-yaml

cat >read.py <<'END'
import sys, yaml
document, name = yaml.safe_load(open(sys.argv[1])), sys.argv[2]
if name == "github":
    steps = document["jobs"]["node"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    files = [f for step in steps if "upload" in step.get("uses", "") for f in step["with"]["path"].split()]
    assert document[True]["schedule"], "on"
else:
    job = document["acceptance"]
    reports = job["artifacts"]["reports"]
    commands, files = job["script"], reports["junit"] + [reports["metrics"]] + job["artifacts"]["paths"]
open(name + ".sh", "w").write("#!/bin/bash\nset -e\n" + "\n".join(commands) + "\n")
open(name + ".files", "w").write("\n".join(f for f in files if not f.endswith("/")) + "\n")
END
# Writes the commands to NAME.sh and the files that a step reads to NAME.files.
for name in github gitlab; do
  run 0 "$python" "$scratch/read.py" "$root/ci/$name.yml" $name
  run 0 shellcheck --severity=warning $name.sh
done

cat >slow.py <<'END'
import json, sys
document = json.load(open(sys.argv[1]))
factors = {"_per_s": 0.9, "_per_second": 0.9, "_us": 1 / 0.9, "_time": 1 / 0.9, "seconds": 1 / 0.9}
for row in document["benchmarks"]:
    if not row["name"].startswith("allreduce/dtype:f32/bytes:33554432/"): continue
    for values in (row, row["by_rank"]):
        for name, value in values.items():
            factor = next((f for end, f in factors.items() if name.endswith(end)), None)
            if isinstance(value, list): values[name] = [v * (factor or 1) if v is not None else v for v in value]
            elif isinstance(value, (int, float)) and factor: values[name] = value * factor
json.dump(document, open(sys.argv[1], "w"))
END

# The same commands where nothing is built or measured: a stored run is judged instead, and compared with the others.
mkdir -p ci build/bin build/results
ln -s "$build/bin/shakedown" build/bin/
export SHAKEDOWN_THRESHOLDS=$root/thresholds
printf '#!/bin/sh\n' >ci/build
printf '#!/bin/sh\nexec "%s" report --results=build/results "$@"\n' "$build/bin/shakedown" >ci/accept
chmod +x ci/*
measured() { # N: the run of this night
  rm -rf build/results/latest
  cp -r "$root/ci/baselines/h200-sxm/2ranks/$1" build/results/latest
}
export GITHUB_STEP_SUMMARY=$scratch/github.md
for name in github gitlab; do
  rm -rf accepted
  for night in 1 2 3; do
    measured $night
    code=0
    bash $name.sh >$name.out || code=$?
    expect "$name: night $night is green" test $code = 0
    expect "  after a verdict" grep -q '^VERDICT: PASS' $name.out
  done
  while read -r file; do expect "  and $name writes $file" test -s "$file"; done <$name.files
  expect "the store of $name has three runs" grep -q 'which has 3 runs now' $name.out
  # Another run of the same night, in which the AllReduce of 32 MiB is a tenth slower: no limit forbids that.
  measured 3
  sed -i 's/"run_id": "/&slow-/' build/results/latest/*.json
  run 0 "$python" "$scratch/slow.py" build/results/latest/allreduce.json
  code=0
  bash $name.sh >slow.out || code=$?
  expect "$name: a loss of 10 % passes all limits" grep -q '^VERDICT: PASS' slow.out
  expect "  and is red" test $code = 1
  expect "  and the run is not added" grep -q 'not added to accepted/' slow.out
  expect "  and its name is in the last line" grep -q '^REGRESSION: 1 worse, .*: allreduce/dtype:f32/bytes:33554432 busbw' slow.out
done
expect "and in the first line of GitHub's summary" eval 'head -1 github.md | grep -q "^## REGRESSION: 1 worse, .*bytes:33554432 busbw"'
finish
