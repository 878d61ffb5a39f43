#!/usr/bin/env python3
"""Breaks the code in many places, one at a time, and says which breaks no unit test notices: tests/mutants/mutants.py FOLDER

FOLDER becomes a copy of the tree whose chosen sources hold all mutants; its build is FOLDER/build. A variable chooses the
mutant, so that the build is made once. Each test runs once alone, to see which mutants it reaches. A mutant is killed by the
first test that reaches it and fails, dies or does not end. One that no test reaches survives.

Mutants: a comparison becomes its neighbour (< and <=, == and !=), a condition is negated, always true or never true, a constant is
doubled, +1 and -1 become 2 more or less, a statement is left out.
"""
import argparse
import concurrent.futures
import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = """
base/exit_code.cpp base/files.cpp base/replace_file.cpp base/run_lock.cpp
fixtures/liveness/stalls.cpp base/door.cpp fixtures/liveness/fault.cpp fixtures/liveness/heartbeat.cpp fixtures/liveness/launcher.cpp fixtures/ranks/meeting.cpp fixtures/ranks/tcp_links.cpp fixtures/plan/options.cpp
fixtures/pairs/pairing.cpp fixtures/ranks/rendezvous.cpp fixtures/liveness/watchdog.cpp
launch/agreement.cpp launch/choice.cpp launch/with_mpirun.cpp launch/with_srun.cpp launch/with_tcp.cpp launch/supervisor.cpp launch/hosts.cpp launch/job.cpp launch/measure.cpp launch/rank_output.cpp launch/rank_program.cpp
launch/run_folder.cpp
thresholds/rules/crashed.cpp thresholds/rules/crosscheck.cpp thresholds/rules/gpu_errors.cpp thresholds/judge/judge.cpp thresholds/rules/leaked_memory.cpp
thresholds/rules/machine.cpp thresholds/rules/rules.cpp thresholds/rules/contradiction.cpp thresholds/units/missed_limits.cpp thresholds/rules/rule.cpp thresholds/rules/fact_texts.cpp thresholds/rules/transport.cpp thresholds/rules/validity.cpp thresholds/rules/possible.cpp
""".split()
FAILING_CALLS = "tests/faults/failing_calls.py"
PROGRAMS = ["base_test", "thresholds_tests", "judging_tests", "report_tests", "launch_test", "supervision_test", "fixtures_test",
            "ranks_test"]
QUIET = ["parentheses", "conversion", "unused-variable", "sign-compare", "bool-operation", "int-in-bool-context", "terminate",
         "return-type", "unused-but-set-variable"]
# Statements whose absence no test can notice, by kind.
UNNOTICED = re.compile(
    r"poll\(|std::this_thread::sleep_for\(|door_\.wait\("  # a pause of a loop, which then looks again without one
    r"|\w+_destroy\(|\w+\.reserve\("  # memory that is given back or taken earlier
    r"|sigemptyset\(|posix_spawn\w*_init\("  # of memory that is zero already, as it is more often than not
    r"|(std::)?_[eE]xit\("  # a function that must not return would, which is undefined
    r"|screen_?\.(clear|heard)\(")  # the status line of a terminal
# Constants that say how much is kept or done at a time, or any number that is free: a little more or less changes no result.
UNNOTICED_CONSTANTS = re.compile(r"\b(max_(lines|texts|lost)_\w+|max_turns\w*|most_strangers|SOMAXCONN|at_once|constexpr int kept)\b")
# Without such a bound of how much is kept or shown, more is. By the sign of the bound: how the mutant that drops it begins.
BOUND = re.compile(r"^[\w.()+]+ (<|>) max_(?:lines|texts|lost)_\w+$")
NO_BOUND = {"<": "a condition always holds", ">": "a condition never holds"}
# Two instants are never equal, so that < and <= are the same between them; nor is the time since an instant equal to a limit.
INSTANTS = re.compile(r"(\bnow|Clock::now\(\)( - [\w.]+)?|deadline\)?) (<|<=|>|>=) |(<|<=|>|>=) (now\b|Clock::now\(\))")
# Where the two are known to differ < and <= are the same: "if (a != b) return a < b;".
DIFFERENT = re.compile(r"(\S+) != (\S+?)(?:\) return| \?) \1 [<>] \2(?!\w)")
# The distance of a ratio from 1 is a multiple of 2^-53, which no decimal tolerance is, so that the two are never equal.
FROM_ONE = re.compile(r"( - 1\)|\.shortfall\(v\.value\)|\.narrowest) (<|<=|>|>=) (rounding|\w*tolerance|open_shortfall|doubtful_shortfall\(.*\))")
# Of equal elements either may come first, if the sort is not stable: "return a.size() > b.size();".
TIE = re.compile(r"\(const auto& a, const auto& b\) \{ return a\.(\S+) [<>] b\.\1; \}")
# Of equal values either is the most: "if (value <= most) continue;", and soon "most = value;".
EXTREME = re.compile(r"([*\w.]+) (<|<=|>|>=) ([*\w.]+)\)+ (?!\{)")
# Places whose mutants change nothing: a part of the line, how the mutant begins, and the reason. At most ten.
EQUIVALENT = [
    ("setpgid(", "", "the parent and the child both do it, since either may be first"),
    ("*value > *worst : *value < *worst", "'", "of two equal values either is the worst"),
    ("if (broken.empty()) return;", "a condition never holds", "without a broken limit there is nothing to count"),
    ("if (record.facts == nullptr) record.facts = &facts;", "a condition always holds", "a rank is the same in all files of a run"),
    ("if (other < ", "'<'", "no rank has a stream to itself, and no host is its own partner"),
    ("set(finding, n < expected", "'<'", "the two numbers are known to differ"),
    ("text.resize(count > 0 ?", "'>'", "of nothing that was read no character is kept"),
    ("from.value_or(-1) + 1)", "'+ 1'", "any numbers tell the links apart"),
    ("i < pattern.size(); ++i", "'<'", "the character after the last one is no sign"),
]
COMPARISONS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal"}


class Mutant:
    def __init__(self, file, line, what):
        self.file, self.line, self.what = file, line, what

    def __str__(self):
        return f"{self.file}:{self.line}: {self.what}"


def closing(text, at):
    """The place of the parenthesis that closes the one at this place; None where text ends before, or a string holds one."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] in "\"'":
            return None
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return None


def is_code(line):
    """Whether mutants are looked for in this line: none in comments, declarations of templates, and what the compiler decides.
    A mutant must not send a signal to a process that is not the test's."""
    bare = line.strip()
    return bare and "kill(" not in bare and not re.match(r"//|#|template|static_assert|using |namespace |if constexpr|struct |class |enum |case ", bare)


def outside_strings(line, at):
    return line[:at].count('"') % 2 == 0 and "//" not in line[:at]


def is_of_extreme(lines, number):
    """Whether this line compares a value with the most so far, which it becomes on this line or one of the next three."""
    match = EXTREME.search(lines[number - 1])
    after = " ".join(lines[number - 1:number + 3])
    return bool(match) and any(re.search(rf"(?<![\w.]){re.escape(a)} = {re.escape(b)};", after)
                               for a, b in ((match[1], match[3]), (match[3], match[1])))


def candidates(file, lines):
    """Yields (line number, what, change), where change(line, number) gives the mutated line."""
    for number, line in enumerate(lines, 1):
        if not is_code(line):
            continue
        for match in re.finditer(r" (<=|>=|==|!=|<|>) ", line):
            if not outside_strings(line, match.start()) or re.search(r"\b(operator|constexpr)\b", line):
                continue
            sign = match.group(1)
            kinds = (INSTANTS, UNNOTICED_CONSTANTS, DIFFERENT, FROM_ONE, TIE)
            if sign not in ("==", "!=") and (any(kind.search(line) for kind in kinds) or is_of_extreme(lines, number)):
                continue
            carrier = "==" if sign in ("==", "!=") else "<"

            def compare(text, n, at=match.start(), end=match.end(), how=COMPARISONS[sign], by=carrier):
                between = f"mutation::Between<mutation::Compare::{how}, {n}>()"
                return f"{text[:at]} {by} {between} {by} {text[end:]}"

            yield number, f"'{sign}' becomes its neighbour", compare
        match = re.match(r"(\s*(?:\} else )?(?:if|while) )\((.*)$", line)
        if match:
            begin = match.end(1)
            end = closing(line, begin)
            if end is not None:
                inside = line[begin + 1:end]
                start = inside.rfind("; ") + 2 if "; " in inside else 0
                condition = inside[start:]
                if condition not in ("", "true") and not re.search(r"[^=!<>]=[^=]", condition):
                    for what, form in (("a condition is negated", "mutation::lives({n}) != static_cast<bool>({c})"),
                                       ("a condition never holds", "!mutation::lives({n}) && static_cast<bool>({c})"),
                                       ("a condition always holds", "mutation::lives({n}) || static_cast<bool>({c})")):
                        bound = BOUND.match(condition)
                        if bound and what == NO_BOUND[bound[1]]:
                            continue

                        def decide(text, n, a=begin + 1 + start, b=end, form=form):
                            return text[:a] + form.format(n=n, c=text[a:b]) + text[b:]

                        yield number, what, decide
        match = re.match(r"(\s*)(?:static )?constexpr (double|int|std::size_t|std::chrono::\w+) (\w+) = ([\d.e'-]+);(.*)$", line)
        if match and not UNNOTICED_CONSTANTS.search(line):
            def double(text, n, m=match):
                return f"{m[1]}const {m[2]} {m[3]} = {m[4]} * (mutation::lives({n}) ? 2 : 1);{m[5]}"

            yield number, "a constant is doubled", double
        for match in re.finditer(r" ([+-]) 1\b(?![.'\d])", line):
            if outside_strings(line, match.start()) and "constexpr" not in line:
                def step(text, n, at=match.start(), end=match.end(), sign=match.group(1)):
                    return f"{text[:at]} {sign} (1 + mutation::lives({n})){text[end:]}"

                yield number, f"'{match.group(1)} 1' is '{match.group(1)} 2'", step
        match = re.match(r"(\s+)((?:[\w\]\[*]|::|\.|->)+\(.*\);)$", line)
        previous = lines[number - 2].rstrip() if number > 1 else ""
        stands_alone = re.search(r"[;{}]$|^$|//", previous) and not re.match(r"\s*(return|throw|static_cast|sizeof|delete)\b", line)
        if match and stands_alone and not UNNOTICED.match(match[2]):
            def leave_out(text, n, m=match):
                return f"{m[1]}if (!mutation::lives({n})) {m[2]}"

            yield number, "a statement is left out", leave_out


def chosen(wanted, seed, only=""):
    """As many of all candidates, at most one in a line; only in files whose names begin so. A mutant is chosen by its own
    text and the seed, so that a change elsewhere leaves the choice as it is."""
    found = []
    for file in SOURCES:
        if not file.startswith(tuple(only.split(","))):
            continue
        lines = (ROOT / file).read_text().split("\n")
        for number, what, change in candidates(file, lines):
            if any(part in lines[number - 1] and what.startswith(kind) for part, kind, _ in EQUIVALENT):
                continue
            place = hashlib.sha256(f"{seed} {file} {what} {lines[number - 1]}".encode()).digest()
            found.append((place, (file, number, what, change)))
    taken, lines = [], set()
    for _, one in sorted(found, key=lambda entry: entry[0]):
        if one[:2] not in lines:
            lines.add(one[:2])
            taken.append(one)
    return taken[:wanted] if wanted else taken


def write(tree, taken):
    """Writes the chosen sources with their mutants. A mutant's number is its place in the list."""
    quiet = "\n".join(f'#pragma GCC diagnostic ignored "-W{name}"' for name in QUIET)
    begin = f'#include "tests/mutants/mutant.hpp"\n#pragma GCC diagnostic push\n{quiet}\n#line 1 "{{file}}"\n'
    for file in SOURCES:
        lines = (ROOT / file).read_text().split("\n")
        for number, one in enumerate(taken):
            if one is not None and one[0] == file:
                lines[one[1] - 1] = one[3](lines[one[1] - 1], number)
        text = begin.format(file=file) + "\n".join(lines) + "\n#pragma GCC diagnostic pop\n"
        if not (tree / file).exists() or (tree / file).read_text() != text:
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            (tree / file).write_text(text)


def without_those_that_do_not_compile(tree, build, taken):
    """Compiles each mutated source alone; a mutant in a line that the compiler refuses is dropped."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        commands[str(Path(entry["file"]))] = entry
    flags = ["-std=c++20", "-fsyntax-only", "-w", f"-I{tree}"]
    for entry in commands.values():
        flags += [word for word in entry["command"].split() if word.startswith(("-D", "-isystem")) and "\\" not in word]
    flags = list(dict.fromkeys(flags))

    def errors_of(file):
        result = subprocess.run(["g++", *flags, str(tree / file)], capture_output=True, text=True, check=False)
        wrong = {int(n) for n in re.findall(rf"^{re.escape(file)}:(\d+):\d+: (?:error|  required)", result.stderr, re.MULTILINE)}
        wrong |= {int(n) for n in re.findall(rf"^{re.escape(file)}:(\d+):\d+:   required from here", result.stderr, re.MULTILINE)}
        return file, result.returncode, wrong, result.stderr

    files = sorted({one[0] for one in taken if one is not None})
    while files:
        write(tree, taken)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(errors_of, files))
        files = []
        for file, code, wrong, text in results:
            if code == 0:
                continue
            before = sum(one is not None for one in taken)
            taken[:] = [None if one is not None and one[0] == file and one[1] in wrong else one for one in taken]
            if sum(one is not None for one in taken) == before:
                sys.exit(f"{file} does not compile, and no mutant is to blame:\n{text[:2000]}")
            files.append(file)
    write(tree, taken)


def tests_of(build, program):
    """The names of all tests of one GoogleTest program."""
    listed = subprocess.run([build / "tests" / program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in listed.splitlines():
        if line.startswith("  "):
            names.append(suite + line.split()[0])
        elif not line.startswith("Running"):
            suite = line.split()[0] if line else ""
    return names


class Test:
    """A test, how long it takes, and the mutants that it reaches."""

    def __init__(self, program, name):
        self.program, self.name, self.seconds, self.reached = program, name, 0.0, set()


def ends_well(build, command, environment, limit):
    try:
        process = subprocess.Popen(command, cwd=build, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        return process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return False


def command_of(build, tests):
    """Runs these tests of one program, and ends at the first that fails."""
    program = tests[0].program
    if program == FAILING_CALLS:
        return [sys.executable, ROOT / FAILING_CALLS, build]
    return [build / "tests" / program, "--gtest_filter=" + ":".join(test.name for test in tests), "--gtest_fail_fast"]


def all_tests(build):
    tests = [Test(program, name) for program in PROGRAMS if (build / "tests" / program).exists()
             for name in tests_of(build, program)]
    if (build / "tests/libfailing_calls.so").exists():
        tests.append(Test(FAILING_CALLS, "fixed points"))
    return tests


def look(build, scratch, test):
    """Runs a test without a mutant, and notes its time and the mutants that it reaches. False: it fails."""
    file = scratch / ("reached." + re.sub(r"\W", "_", f"{test.program}.{test.name}"))
    file.unlink(missing_ok=True)
    began = time.monotonic()
    good = ends_well(build, command_of(build, [test]), {"MUTANT_REACHED": str(file)}, 600)
    test.seconds = time.monotonic() - began
    if file.exists():
        test.reached = {n for n, byte in enumerate(file.read_bytes()) if byte}
    return good


def fate(build, number, tests):
    """The program that kills this mutant; None: it survives; "": no test reaches it. Quick tests run first: most mutants do
    not survive them, and those that wait for timeouts take longer than all others."""
    quick = 1.0  # seconds
    reaching = {}
    for test in tests:
        if number in test.reached:
            reaching.setdefault((test.program, test.seconds > quick), []).append(test)
    for group in sorted(reaching.values(), key=lambda group: sum(test.seconds for test in group)):
        limit = 10 + 5 * sum(test.seconds for test in group)
        if not ends_well(build, command_of(build, group), {"MUTANT": str(number)}, limit):
            return group[0].program
    return None if reaching else ""


def judge(build, scratch, mutants, jobs):
    """Runs all tests without and then with each mutant, and prints what becomes of it. Returns the part that is killed."""
    tests = all_tests(build)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        # One that fails on a busy machine has a second try.
        bad = [test for test, good in zip(tests, pool.map(lambda test: look(build, scratch, test), tests)) if not good]
        for test in bad:
            if not look(build, scratch, test):
                print(f"left out, since it fails without a mutant: {test.program} {test.name}", flush=True)
                tests.remove(test)
        survivors = []
        for number, by in zip(mutants, pool.map(lambda n: fate(build, n, tests), mutants)):
            if not by:
                survivors.append(number)
            how = f"killed by {by}" if by else "survives: no test reaches it" if by == "" else "survives"
            print(f"{mutants[number]}: {how}", flush=True)
    killed = len(mutants) - len(survivors)
    for folder in sorted({Path(mutant.file).parts[0] for mutant in mutants.values()}):
        those = [number for number, mutant in mutants.items() if Path(mutant.file).parts[0] == folder]
        print(f"{folder}: {len(set(those) - set(survivors))} of {len(those)} killed")
    print(f"{killed} of {len(mutants)} mutants killed ({100 * killed / len(mutants):.1f} %)")
    for number in survivors:
        print(f"survivor: {mutants[number]}")
    return killed / len(mutants)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200, help="number of mutants (default 200; 0: all)")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--only", default="", help="files whose names begin so, with commas between them: base/,launch/job")
    parser.add_argument("--least", type=float, default=0.95, help="fail if a smaller part is killed (default 0.95)")
    parser.add_argument("--list", action="store_true", help="say which mutants there are, and end")
    parser.add_argument("--configure", default="", help="flags of CMake")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    taken = chosen(arguments.count, arguments.seed, arguments.only)
    if arguments.list:
        for file, line, what, _ in taken:
            print(f"{file}:{line}: {what}")
        return 0
    tree = arguments.folder.resolve()
    build, scratch = tree / "build", tree / "build/mutants"
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout.split("\0")
    for name in set(filter(None, names)) - set(SOURCES):
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or not filecmp.cmp(source, target, shallow=False):
            shutil.copy(source, target)
    write(tree, taken)
    # Undefined calls of the standard library end the program, so that no test passes by luck: in the tests too, since the
    # linker keeps one copy of a function of the library, that of the first object. Mutants take -O3 minutes.
    configure = ["cmake", "-S", tree, "-B", build, "-DSHAKEDOWN_CUDA=OFF", "-DCMAKE_BUILD_TYPE=Release",
                 "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG -D_GLIBCXX_ASSERTIONS", *arguments.configure.split()]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    scratch.mkdir(exist_ok=True)
    without_those_that_do_not_compile(tree, build, taken)
    mutants = {n: Mutant(*one[:3]) for n, one in enumerate(taken) if one is not None}
    print(f"{len(mutants)} mutants in {len({m.file for m in mutants.values()})} files", flush=True)
    targets = [*PROGRAMS, "shakedown", "acceptance_test", "failing_calls"]
    subprocess.run(["cmake", "--build", build, f"-j{arguments.jobs}", "--target", *targets], check=True, stdout=subprocess.DEVNULL)
    return 0 if judge(build, scratch, mutants, arguments.jobs) >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
