#!/usr/bin/env python3
"""Makes calls fail in a run of the programs, one point after another: tests/faults/failing_calls.py BUILD [--points=N]

A point is a scenario, a kind of process, a kind of call, its number, whether all later calls fail too, and the error. Each run
must end like the run without faults, or with exit code 3: with INCOMPLETE if a verdict is expected, or with the right verdict
if only its output is lost. Exit code 2 is wrong at every point, because each error is one of the machine, not of a path. Each
output file must be the right one, say INCOMPLETE, or be the old one.

Without --points, tests a few fixed points of each scenario; else N points, the same in each run.

With --hang, the calls do not fail but never return, and only SIGKILL ends their process. Each run must end with INCOMPLETE
in time and name the call, or end like the run without faults.
"""
import argparse
import collections
import concurrent.futures
import errno
import itertools
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests/data/h200-sxm-4ranks-full/1"
LIMIT_S = 150  # accept ends a launcher without output after 95 s
OLD = "an old report"

# The errors of each kind of call, as documented for the kernel and glibc.
ERRORS = {
    "open": [errno.EMFILE, errno.EIO, errno.ENFILE, errno.ESTALE],
    "read": [errno.EIO, errno.ESTALE],
    "write": [errno.EIO, errno.ENOSPC, "short"],
    "fsync": [errno.EIO, errno.ENOSPC],
    "rename": [errno.EIO, errno.ENOSPC],
    "mkdir": [errno.ENOSPC, errno.EIO],
    "stat": [errno.EIO, errno.ESTALE],
    "mmap": [errno.ENOMEM],
    "malloc": [errno.ENOMEM],
    "fork": [errno.EAGAIN, errno.ENOMEM],
    "exec": [errno.ENOMEM, errno.EIO],
    "poll": [errno.ENOMEM],
    "signalfd": [errno.EMFILE],
    "send": [errno.ENOBUFS],
    "recv": [errno.ENOMEM],
    "waitpid": [errno.ECHILD],
    "pipe": [errno.EMFILE],
}

# Calls that hang on a dead file server, a full pipe or a driver. The time limits are a tenth of the usual limits.
HANGING = ["open", "read", "write", "fsync", "rename", "mkdir", "stat"]
LIMITS_SCALE = 0.1
# After 12 s, accept leaves a job that does not end to its supervisor. If a hanging launcher or rank reports no call, it is
# ended after the limit for time without output: 15 s for the start, 20 s for a benchmark and 60 s.
HANG_LIMIT_S = {"front": 2 + 5, "supervisor": 2 * (2 + 12) + 5, "mpirun": 95 + 12, "bench": 95 + 12}
NAMED = "does not answer|no progress|was ended: |INCOMPLETE"

# Programs that print a stored run, because the subject of this test is everything around them.
BENCH = """#!/bin/bash
for flag; do
  [[ $flag != --families=* ]] || IFS=, read -ra families <<<"${flag#*=}"
  [[ $flag != --run-id=* ]] || id=${flag#*=}
done
for family in "${families[@]}"; do
  printf '{"family": "%s", "result": %s}\\n' "$family" \\
    "$(sed 's/"run_id": *"[^"]*"/"run_id": "'"$id"'"/' "@stored@/$family.json" | tr '\\n' ' ')"
done
"""


class Scenario:
    """A command, its output files, and the results of a run without faults."""

    def __init__(self, name, roles, words, outputs=(), verdict=True, measures=False, environment=None):
        self.name, self.roles, self.words, self.outputs, self.verdict = name, roles, words, outputs, verdict
        self.measures = measures  # measured values differ between runs
        self.environment = environment or {}
        self.clean, self.clean_outputs, self.calls = None, {}, {}


class Outcome:
    def __init__(self, code, out, err, seconds=0.0):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds
        lines = re.findall(r"^VERDICT: .*$", out + "\n" + err, re.MULTILINE)
        self.verdict = lines[-1] if lines else None


def text_of(file, measures=False):
    """Returns an output without times, ids and hashes, which differ between two runs; None if there is no file."""
    if not file.exists():
        return None
    if file.suffix == ".tar":
        with tarfile.open(file) as tar:
            return {name: tar.extractfile(name).read() for name in tar.getnames()}
    if measures and file.read_text() != OLD:
        return {name: value for name, value in json.loads(file.read_text()).items() if name in ("verdict", "passed", "total")}
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\d{8}T\d{6}Z-[0-9a-f]{6}|[0-9a-f]{64}", "", file.read_text())


def is_incomplete(text):
    if isinstance(text, dict):
        return text.get("verdict") == "incomplete"
    return text is not None and re.search("incomplete|undecided|no good nodes: |no bad nodes: |INCOMPLETE", text)


class Campaign:
    def __init__(self, build, scratch, preload):
        self.build, self.scratch, self.preload = build, scratch, preload
        tree = scratch / "tree"
        (tree / "bin").mkdir(parents=True)
        (tree / "share/shakedown").mkdir(parents=True)
        shutil.copy(build / "bin/shakedown", tree / "bin/")
        shutil.copytree(ROOT / "thresholds", tree / "share/shakedown/thresholds")
        families = [f for f in (build / "share/shakedown/families").read_text().split() if (STORED / f"{f}.json").exists()]
        (tree / "share/shakedown/families").write_text("\n".join(families) + "\n")
        for family in families + ["all"]:
            program = tree / f"bin/bench_{family}"
            program.write_text(BENCH.replace("@stored@", str(STORED)))
            program.chmod(0o755)
        run = scratch / "run"
        shutil.copytree(STORED, run)
        judge = str(tree / "bin/shakedown")
        results, outputs = f"--results={run}", ["--verdict=@/v.json", "--markdown=@/v.md", "--html=@/v.html"]
        files = ("v.json", "v.md", "v.html")
        # "measured" has the results and the verdict of a machine without GPUs on any machine.
        no_gpus = {"CUDA_VISIBLE_DEVICES": "", "SHAKEDOWN_SYSFS": str(scratch / "sys")}
        for folder in ("bus/pci/devices", "module"):
            (scratch / "sys" / folder).mkdir(parents=True)
        self.scenarios = [
            Scenario("accept", ["front", "supervisor"], [judge, "accept", "--results=@/results", *outputs], files,
                     environment={"SHAKEDOWN_LAUNCH": "env"}),
            Scenario("measured", ["front", "supervisor", "mpirun", "bench"],
                     [str(build / "bin/shakedown"), "accept", "--families=jitter", "--allow-faults", "--results=@/results",
                      outputs[0], "--timeout=20", "--startup-timeout=15"], ("v.json",), measures=True,
                     environment={"SHAKEDOWN_RANKS": "2", **no_gpus}),
            Scenario("report", ["front"], [judge, "report", results, *outputs], files),
            Scenario("nodes", ["front"], [judge, "nodes", results, "--nodes=@/nodes"],
                     ("nodes/good_nodes", "nodes/bad_nodes", "nodes/nodes.json"), verdict=False),
            Scenario("plan", ["front", "supervisor"], [str(build / "bin/shakedown"), "accept", "--plan", "--results=@/results"],
                     verdict=False),
            Scenario("inventory", ["front", "supervisor"], [str(build / "bin/shakedown"), "inventory"], verdict=False, measures=True),
            Scenario("soak", ["front", "supervisor"], [judge, "accept", "--for=2s", "--results=@/results", outputs[0]], ("v.json",),
                     measures=True, environment={"SHAKEDOWN_LAUNCH": "env"}),
            Scenario("discover", ["front"], [str(build / "bin/shakedown"), "discover"], verdict=False),
            Scenario("archive", ["front"], [judge, "archive", results, "--out=@/run.tar"], ("run.tar",), verdict=False),
            Scenario("test", ["front"], [str(build / "tests/acceptance_test"), results, "--gtest_brief=1", outputs[0]],
                     ("v.json",)),
        ]

    def run(self, scenario, folder, environment):
        """Runs the scenario's command with these variables in a folder with old reports."""
        folder.mkdir()
        for output in scenario.outputs:
            if not output.endswith(".tar"):  # an existing archive is rejected
                (folder / output).parent.mkdir(exist_ok=True)
                (folder / output).write_text(OLD)
        usual = {k: v for k, v in os.environ.items() if not k.startswith(("SHAKEDOWN_", "SLURM_", "FAIL_"))}
        usual.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
        words = [word.replace("@", str(folder)) for word in scenario.words]
        process = subprocess.Popen(words, cwd=folder, env={**usual, **scenario.environment, **environment}, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, errors="replace")
        began = time.monotonic()
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Outcome("no end", out, err)
        return Outcome(process.returncode, out, err, time.monotonic() - began)

    def measure(self, scenario):
        """Runs the scenario without faults and stores its results."""
        folder = self.scratch / f"{scenario.name}.clean"
        scenario.clean = self.run(scenario, folder, {})
        scenario.clean_outputs = {name: text_of(folder / name, scenario.measures) for name in scenario.outputs}
        shutil.rmtree(folder)

    def count(self, scenario, role, call):
        record = self.scratch / f"{scenario.name}.{role}.{call}"
        self.run(scenario, folder := self.scratch / f"{record.name}.run",
                 {"LD_PRELOAD": str(self.preload), "FAIL_IN": role, "FAIL_CALL": call, "FAIL_AT": "0", "FAIL_RECORD": str(record)})
        shutil.rmtree(folder)
        return struct.unpack("II", record.read_bytes())[0] if record.exists() else 0

    def points(self, wanted, hang, seed=42):
        """Returns points of all scenarios, kinds of process and calls in turn, chosen at random from the calls of a clean run."""
        errors_of = {call: ["hang"] for call in HANGING} if hang else ERRORS
        jobs = [(s, role, call) for s in self.scenarios for role in s.roles for call in errors_of]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            counts = list(pool.map(lambda job: self.count(*job), jobs))
        choice = random.Random(seed)
        of_each = []
        for (scenario, role, call), count in zip(jobs, counts):
            numbers = list(range(1, count + 1))
            choice.shuffle(numbers)
            errors = itertools.cycle(errors_of[call])
            of_each.append([(scenario, role, call, number, sticky, next(errors))
                            for number in numbers for sticky in ((False,) if hang else (False, True))])
        taken = [point for round_ in itertools.zip_longest(*of_each) for point in round_ if point is not None]
        return taken[:wanted]

    def strike(self, number, point):
        """Runs one point. Returns what is wrong with its end, or None; and whether the fault occurred."""
        scenario, role, call, at, sticky, error = point
        folder, record = self.scratch / f"point{number}", self.scratch / f"record{number}"
        environment = {"LD_PRELOAD": str(self.preload), "FAIL_IN": role, "FAIL_CALL": call, "FAIL_AT": str(at),
                       "FAIL_ERROR": str(error), "FAIL_RECORD": str(record)}
        if sticky:
            environment["FAIL_STICKY"] = "1"
        if error == "hang":
            environment["SHAKEDOWN_LIMITS_SCALE"] = str(LIMITS_SCALE)
            environment["FAIL_TRACE"] = f"{record}.trace"
        outcome = self.run(scenario, folder, environment)
        struck = record.exists() and struct.unpack("II", record.read_bytes())[1] > 0
        wrong = self.fault_of(scenario, outcome, folder)
        if error == "hang" and struck and not wrong:
            wrong = self.fault_of_hang(scenario, role, outcome)
            wrong = wrong and f"{wrong}; it hangs in:\n{Path(environment['FAIL_TRACE']).read_text()}"
        shutil.rmtree(folder, ignore_errors=True)
        record.unlink(missing_ok=True)
        said = (outcome.err.strip().splitlines() or [""])[-1]
        return wrong and f"{wrong}; last line: {said}", struck, outcome.code

    @staticmethod
    def fault_of_hang(scenario, role, outcome):
        limit = scenario.clean.seconds * 3 + HANG_LIMIT_S[role]
        if outcome.seconds > limit:
            return f"took {outcome.seconds:.0f} s, limit {limit:.0f} s"
        if outcome.code != scenario.clean.code and not re.search(NAMED, outcome.err):
            return "the call is not named"
        return None

    @staticmethod
    def fault_of(scenario, outcome, folder):
        if outcome.code not in (scenario.clean.code, 3):
            return f"exit code {outcome.code}"
        right = outcome.verdict == scenario.clean.verdict
        incomplete = outcome.verdict is not None and outcome.verdict.startswith("VERDICT: INCOMPLETE")
        if outcome.code != 3 and not right:
            return f"exit code {outcome.code} with {outcome.verdict}"
        if scenario.verdict and not right and not incomplete and outcome.out.strip():
            return f"exit code 3 with {outcome.verdict}"
        for name in scenario.outputs:
            text, clean = text_of(folder / name, scenario.measures), scenario.clean_outputs[name]
            is_old = text == OLD or text is None and name.endswith(".tar")
            if text != clean and not is_incomplete(text) and not is_old:
                return f"{name} is neither right nor incomplete nor the old one"
            if outcome.code != 3 and text != clean:
                return f"exit code {outcome.code}, and {name} is not written"
        return None


# All calls that once ended an acceptance with a wrong result, and one call of each kind.
FIXED = [("accept", role, call, at, sticky) for role, call, at, sticky in [
    ("front", "open", 3, False), ("front", "open", 12, True), ("front", "write", 2, True), ("front", "fsync", 1, True),
    ("front", "rename", 1, False), ("front", "malloc", 400, True), ("front", "malloc", 20000, False),
    ("front", "fork", 1, True), ("front", "pipe", 1, False), ("front", "pipe", 2, True), ("front", "stat", 4, True),
    ("supervisor", "signalfd", 1, False), ("supervisor", "send", 1, True), ("supervisor", "waitpid", 1, True), ("supervisor", "fork", 1, False),
    ("supervisor", "exec", 1, False), ("supervisor", "pipe", 1, False)]]
FIXED += [("report", "front", call, at, sticky) for call, at, sticky in [
    ("open", 2, False), ("open", 5, True), ("read", 1, False), ("read", 4, True), ("write", 1, True), ("fsync", 2, False),
    ("rename", 1, True), ("malloc", 1, True), ("malloc", 5000, False), ("stat", 2, False)]]
FIXED += [("nodes", "front", call, at, sticky) for call, at, sticky in [
    ("open", 4, False), ("write", 1, True), ("rename", 2, False), ("malloc", 700, True), ("read", 3, False)]]
FIXED += [("archive", "front", call, at, sticky) for call, at, sticky in [
    ("open", 1, True), ("write", 5, False), ("fsync", 1, False), ("rename", 1, True), ("malloc", 900, True),
    ("stat", 10, False)]]
FIXED += [("test", "front", call, at, sticky) for call, at, sticky in [
    ("open", 3, True), ("read", 2, False), ("malloc", 3000, True), ("write", 1, True)]]


# Calls that hang: one of each kind and of each program.
FIXED_HANGING = [("accept", "front", "read", 60), ("accept", "front", "write", 2), ("report", "front", "open", 7),
                 ("nodes", "front", "stat", 14), ("archive", "front", "fsync", 1), ("inventory", "front", "open", 2),
                 ("test", "front", "open", 7)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--points", type=int, help="number of points; without it a few that are fixed")
    parser.add_argument("--hang", action="store_true", help="the calls of the points never return")
    parser.add_argument("--only", help="scenarios, with commas between them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        campaign = Campaign(build, Path(scratch), build / "tests/libfailing_calls.so")
        if arguments.points is None:
            names = {name for name, *_ in FIXED + FIXED_HANGING}
            campaign.scenarios = [s for s in campaign.scenarios if s.name in names]
        if arguments.only:
            campaign.scenarios = [s for s in campaign.scenarios if s.name in arguments.only.split(",")]
        by_name = {scenario.name: scenario for scenario in campaign.scenarios}
        for scenario in campaign.scenarios:
            campaign.measure(scenario)
            print(f"{scenario.name}: exit code {scenario.clean.code}, {scenario.clean.verdict}", flush=True)
        if arguments.points is None:
            points = [(by_name[name], role, call, at, sticky, ERRORS[call][0])
                      for name, role, call, at, sticky in FIXED if name in by_name]
            points += [(by_name[name], role, call, at, False, "hang") for name, role, call, at in FIXED_HANGING if name in by_name]
        else:
            points = campaign.points(arguments.points, arguments.hang)
        failed = struck_count = 0
        ends = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for point, (wrong, struck, code) in zip(points, pool.map(campaign.strike, itertools.count(), points)):
                scenario, role, call, at, sticky, error = point
                struck_count += struck
                ends[scenario.name, code] += 1
                if wrong:
                    failed += 1
                    print(f"FAILED: {scenario.name}: {role}, {call} {at}{' and later' if sticky else ''}, "
                          f"error {error}: {wrong}", flush=True)
        codes = sorted({code for _, code in ends}, key=str)
        print(f"{'exit code':<12}" + "".join(f"{code:>8}" for code in codes))
        for name in dict.fromkeys(name for name, _ in ends):
            print(f"{name:<12}" + "".join(f"{ends[name, code]:8}" for code in codes))
        print(f"{len(points)} points, {struck_count} faults struck, {failed} failures")
    return 1 if failed or struck_count < len(points) // 2 else 0


if __name__ == "__main__":
    sys.exit(main())
