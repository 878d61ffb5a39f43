#!/usr/bin/env bash
# The example workflows for GitHub and GitLab: YAML, clean shell, and commands that write what later steps read.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
python=/usr/bin/python3  # that of the packages, which has yaml
needs $python shellcheck
"$python" -c 'import yaml' 2>/dev/null || needs python3-yaml

cat >read.py <<'END'
import sys, yaml
document, name = yaml.safe_load(open(sys.argv[1])), sys.argv[2]
if name == "github":
    steps = document["jobs"]["node"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    files = steps[3]["with"]["path"].split() + [steps[5]["with"]["output-file-path"]]
    assert document[True]["schedule"], "on"
else:
    job = document["acceptance"]
    commands, files = job["script"], list(job["artifacts"]["reports"].values()) + job["artifacts"]["paths"]
open(name + ".sh", "w").write("#!/bin/bash\nset -e\n" + "\n".join(commands) + "\n")
open(name + ".files", "w").write("\n".join(f for f in files if not f.endswith("/")) + "\n")
END
# Commands into NAME.sh, files that a step reads into NAME.files.
for name in github gitlab; do
  run 0 "$python" "$scratch/read.py" "$root/ci/$name.yml" $name
  run 0 shellcheck --severity=warning $name.sh
done

# The same commands where nothing is built or measured: a stored run is judged instead.
mkdir ci
printf '#!/bin/sh\n' >ci/build
printf '#!/bin/sh\nexec "%s" report --results="%s" "$@"\n' "$build/bin/shakedown" "$root/ci/baselines/h200-sxm/4ranks/1" >ci/accept
chmod +x ci/*
export GITHUB_STEP_SUMMARY=$scratch/summary.md
for name in github gitlab; do
  run 0 bash $name.sh
  expect "the commands of $name end in a verdict" prints '^VERDICT: PASS'
  while read -r file; do expect "  and write $file" test -s "$file"; done <$name.files
done
expect "the summary is Markdown" grep -q '^#' summary.md
finish
