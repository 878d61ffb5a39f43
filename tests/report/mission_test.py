#!/usr/bin/env python3
"""Tests that each row of docs/mission.md has a state and a proof that exists: tests/report/mission_test.py ROOT BUILD CTEST

A row that works or is emulated names at least one proof in backticks, and an emulated row also its replacement in words:

- a test as CTest lists it, such as unit.layers
- a file of the tree; a program of a test must be in the CMake files of the tests
- a stored run below ci/baselines, also with a benchmark that the run must have measured

A row that does not work yet, or is out, has a reason.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = "docs/mission.md"
STATES = ("works", "emulated", "not yet", "out")
MIN_WORDS = 3  # of a reason
CTEST_NAME = re.compile(r"[a-z]+\.[\w.]+")
TEST_PROGRAM = re.compile(r"tests/.*?([^/]+_test)\.(?:cpp|sh|py)")
SUFFIXES = ("/manual_time", "/iterations:1")  # that Google Benchmark appends to a name


def names_of_ctest(ctest, build):
    shown = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    return {test["name"] for test in json.loads(shown.stdout)["tests"]}


class Tree:
    """The files, tests and stored runs that a row may name."""

    def __init__(self, root, tests):
        self.root = root
        self.tests = tests
        files = [*root.glob("tests/**/CMakeLists.txt"), *root.glob("tests/*.cmake")]
        self.programs = set(re.findall(r"\w+_test\b", "\n".join(path.read_text() for path in files)))

    def measured(self, run):
        names = set()
        for path in (self.root / "ci/baselines" / run).glob("*.json"):
            for row in json.loads(path.read_text()).get("benchmarks", []):
                name = row["name"]
                for suffix in SUFFIXES:
                    name = name.removesuffix(suffix)
                if not row.get("error_occurred"):
                    names.add(name)
        return names

    def has(self, proof):
        run, _, benchmark = proof.partition(" ")
        if (self.root / "ci/baselines" / run / "gemm.json").is_file():
            return not benchmark or benchmark in self.measured(run)
        program = TEST_PROGRAM.fullmatch(proof)
        if program and program[1] not in self.programs:
            return False
        return (self.root / proof).is_file() or proof in self.tests


def error_of(cells, tree):
    """Returns what is wrong with a row, or nothing."""
    if len(cells) != 3 or not cells[0]:
        return "has not three columns"
    _, state, shown = cells
    proofs = re.findall(r"`([^`]+)`", shown)
    words = re.findall(r"[A-Za-z]+", re.sub(r"`[^`]+`", "", shown))
    if state not in STATES:
        return f'"{state}" is no state; write {", ".join(STATES)}'
    if state in ("not yet", "out"):
        return "" if len(words) >= MIN_WORDS else "has no reason"
    if not proofs:
        return "names no proof"
    if state == "emulated" and not words:
        return "names no replacement"
    wrong = [proof for proof in proofs if not tree.has(proof)]
    return f"{wrong[0]} is no test, file or row of a stored run" if wrong else ""


def errors(text, tree):
    """Returns the errors of a document, and its number of rows by state."""
    found, count = [], dict.fromkeys(STATES, 0)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("| ") or line.startswith(("| ---", "| requirement |")):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        wrong = error_of(cells, tree)
        if wrong:
            found.append(f"{DOCUMENT}:{number}: {wrong}")
        else:
            count[cells[1]] += 1
    return found, count


# Rows with one error each, and words of the message.
BAD = {
    "| a | works | `unit.nosuch` |": "unit.nosuch is no test",
    "| a | works | `tests/report/nosuch_test.cpp` |": "nosuch_test.cpp is no test",
    "| a | works | `nosuch/file.md` |": "nosuch/file.md is no test",
    "| a | works | `h200-sxm/4ranks/1 gemm/dtype:bf16/m:1/n:1/k:1` |": "m:1/n:1/k:1 is no test",
    "| a | works | `h200-sxm/9ranks/1` |": "9ranks/1 is no test",
    "| a | works | `unit.layers`, `unit.nosuch` |": "unit.nosuch is no test",
    "| a | works | it was seen once |": "names no proof",
    "| a | emulated | `unit.layers` |": "names no replacement",
    "| a | partial | `unit.layers` |": '"partial" is no state',
    "| a | out | |": "has no reason",
    "| a | not yet | later |": "has no reason",
    "| a | works |": "has not three columns",
}
GOOD = ["| a | works | `unit.layers`, `tests/report/report_test.cpp`, `ci/accept` |",
        "| a | works | `h200-sxm/4ranks/1`, `h200-sxm/4ranks/1 gemm/dtype:bf16/m:8192/n:8192/k:8192` |",
        "| a | emulated | by namespaces: `tests/faults/pairs_test.sh` |", "| a | out | needs an account elsewhere |"]


def test_itself(tree):
    found = [f"a good row is refused: {error}" for error in errors("\n".join(GOOD), tree)[0]]
    for row, message in BAD.items():
        said = errors(row, tree)[0]
        if len(said) != 1 or message not in said[0]:
            found.append(f"{row} should be refused with: {message}; the test says: {said}")
    return found


def main():
    root, build, ctest = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    tree = Tree(root, names_of_ctest(ctest, build))
    found, count = errors((root / DOCUMENT).read_text(), tree)
    if not all(count[state] for state in ("works", "emulated", "out")):
        found.append(f"{DOCUMENT}: the tables have not all states: {count}")
    found += test_itself(tree)
    print("\n".join(found) if found else ", ".join(f"{state}: {rows}" for state, rows in count.items()))
    return 1 if found else 0


sys.exit(main())
