#!/usr/bin/env python3
"""Tests that every measured figure of the documents has a proof: tests/report/figures_test.py ROOT

A figure is a number with a unit in README.md or docs/ (without changelog.md, outside output and code), or a number in a column of a
table whose header is or ends with a unit. One of these must prove it:

- A stored run of a clean tree under ci/baselines has a value of that unit that rounds to the figure. The run is named by a comment in
  the same section, `<!-- stored: RUN... KEY METRIC; ... -->` (a family and `seconds` mean its duration), or by a link in the caption
  of a table whose row has the key. A comment that proves no figure is an error.
- It is published: its sentence, or the caption of its table, says so and has a link or a number of the list of sources.
- It was measured once: its sentence, an earlier one of its paragraph, or the caption of its table has the date and the hardware.
- It is no measurement (a limit, a setting, a size, a plan): tests/report/unmeasured_figures.txt has its words.

Percentages of statistics.md and verdict.md are mostly limits. There, only sections with rates are tested, and a section may also name
the test that repeats them.
"""
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

UNITS = {"TFLOPS": r"(^|_)tflops$", "tokens/s": r"^tokens_per_s", "GB/s": r"_gb_per_s$", "GB": r"_gb$", "ms": r"_ms$", "us": r"_us$",
         "s": r"^seconds$|(?<!per)_s$", "W": r"_w$", "MHz": r"_mhz$", "TB/s": r"$^", "GiB/s": r"$^", "MB/s": r"$^", "MB": r"$^", "minutes": r"$^",
         "%": r"^stolen$", "ratio": r"$^"}  # metrics with the unit; stolen is a fraction
NUMBER = r"(?<![\w.,/:^-])(\d[\d,]*(?:\.\d+)?)"
WITH_UNIT = re.compile(NUMBER + r"(?:\]\([^)]*\))? (" + "|".join(map(re.escape, UNITS)) + r")(?![\w/])")
WITH_LATER_UNIT = re.compile(NUMBER + r" (?=(?:and|to|or|instead of) [\d.,]+ (" + "|".join(map(re.escape, UNITS)) + r")(?![\w/]))")  # 586 and 590 TFLOPS
RATIO = re.compile(r"\befficiency of " + NUMBER + r"()")
HEADER = re.compile(r"(?:^|, )(" + "|".join(map(re.escape, UNITS)) + r")$")
DATE = re.compile(r"\b2026-\d\d(-\d\d)?\b")
HARDWARE = re.compile(r"\b([HAB][1-3]00s?|GPUs?|cores?|disk)\b")
PUBLISHED = re.compile(r"\b(published|publishes|data sheet|specification|accepts)\b")
SOURCE = re.compile(r"\]\(https?:|\[\d+(?:, \d+)*\]")
COMMENT = re.compile(r"<!-- stored:(.*?)-->", re.S)
LINK_TO_RUN = re.compile(r"\]\([./]*ci/baselines/([\w./-]+)\)")
KEY_AND_METRIC = re.compile(r"`([a-z0-9_]+/[^` ]+)(?: ([a-z0-9_]+))?`")
FEW_MEASURED_PERCENT = {"statistics.md", "verdict.md"}
RATES = re.compile(r"How often it is right|Gates|Networks|Soaks|Real runs|GPUs of other machines")
TEST_FILE = re.compile(r"\btests/[\w/]+_test\.(?:cpp|sh)|\b[a-z_]+_test\.cpp")


@dataclass
class Block:
    """A paragraph, an item of a list, a line of a shell block, or a row of a table with the caption and the header of the table."""
    line: int
    section: str
    text: str
    caption: str = ""
    header: tuple = ()


@dataclass
class Figure:
    line: int
    number: str
    unit: str
    at: int  # in the text of its block; of a cell, its beginning
    block: Block


class Stored:
    """Stored runs of a clean tree, below a folder."""

    def __init__(self, folder):
        self.folder, self.files = folder, {}

    def values(self, run, key, metric):
        """Returns the values of this metric in all launches of RUN (a launch, or a folder of launches): of all ranks and of the worst."""
        family = key.split("/")[0]
        found = []
        for path in sorted([*self.folder.glob(f"{run}/{family}.json"), *self.folder.glob(f"{run}/*/{family}.json")]):
            if path not in self.files:
                self.files[path] = json.loads(path.read_text())
            document = self.files[path]
            facts = document["context"]["shakedown"]
            if facts["suite"]["dirty"] or not facts["complete"]:
                continue
            if key == family and metric == "seconds":
                found.append(facts["seconds"])
            names = (key, *(f"{key}/{end}" for end in ("manual_time", "iterations:1/manual_time")))
            for row in document["benchmarks"]:
                if row["name"] in names:
                    by_rank = row.get("by_rank", {}).get(metric) or []
                    worst = max if re.search(r"(?<!per)_(us|ms|s)$|^stolen$", metric) else min
                    found += [row.get(metric), *([worst(by_rank)] if isinstance(by_rank, list) and by_rank else [])]
        return [value * 100 if metric == "stolen" else value for value in found if isinstance(value, (int, float))]

    def has(self, figure, run, key, metric):
        """True if a value of the metric, which must have the figure's unit, rounds to the figure."""
        decimals = len(figure.number.partition(".")[2])
        number = float(figure.number.replace(",", ""))
        return bool(re.search(UNITS[figure.unit], metric)) and any(
            abs(value - number) <= 0.5 * 10**-decimals * (1 + 1e-9) for value in self.values(run, key, metric))


def without_code(text):
    return re.sub(r"`[^`]*`", lambda code: " " * len(code.group()), text)


def blocks_of(text):
    """Yields the blocks of a document. Output (text blocks) is compared by readme_examples_test."""
    text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    section, fence, lines, caption, header = "", "", [], "", None

    def paragraph():
        nonlocal lines, caption
        if lines:
            block = Block(lines[0][0], section, "\n".join(line for _, line in lines))
            lines, caption = [], block.text
            yield block

    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("```") or fence:
            yield from paragraph()
            if fence == "sh" and not line.startswith("```") and "#" in line:
                yield Block(number, section, line[line.index("#"):])
            if line.startswith("```"):
                fence = "" if fence else line[3:].strip() or "text"
        elif line.startswith("|"):
            yield from paragraph()
            cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
            if header is None:
                header = cells
            elif not set(line) <= set("|-: "):
                yield Block(number, section, line, caption, header)
        else:
            if re.match(r"#|\s*- |\s*\d+\. |\s*$", line):
                yield from paragraph()
            header = None
            if line.startswith("#"):
                section, caption = line.strip("# "), ""
            elif line.startswith("    ") and not lines:
                continue  # a formula
            elif line.strip():
                lines.append((number, line))
    yield from paragraph()


def figures_of(block):
    """Yields the figures of a block: numbers with a unit, and numbers below a header with a unit."""
    text = without_code(block.text) if not block.text.startswith("#") else block.text
    seen = set()
    for pattern in (WITH_UNIT, WITH_LATER_UNIT, RATIO):
        for match in pattern.finditer(text.replace("\n", " ")):
            yield Figure(block.line + text.count("\n", 0, match.start()), match.group(1), match.group(2) or "ratio", match.start(1), block)
            seen.add(match.start(1))
    at = 0
    for cell, head in zip(text.strip().strip("|").split("|"), block.header):
        unit = HEADER.search(head)
        for match in re.finditer(NUMBER, cell.split("(")[0]) if unit else ():
            if at + 1 + match.start() not in seen:
                yield Figure(block.line, match.group(1), unit.group(1), at + 1 + match.start(), block)
        at += len(cell) + 1


def words(text):
    return " ".join(text.split())


def sentence_of(figure):
    """Returns (begin, end) of the figure's sentence in the text of its block; a row of a table is one sentence."""
    text = figure.block.text
    if figure.block.header:
        return 0, len(text)
    ends = [match.start() + 1 for match in re.finditer(r"[.:;]\s+(?=[A-Z`])", text)]
    return max([0, *(end for end in ends if end <= figure.at)]), min([len(text), *(end for end in ends if end > figure.at)])


def is_dated(figure):
    """True if the caption, or the text up to the end of the figure's sentence, has a date and hardware."""
    known = figure.block.text[: sentence_of(figure)[1]] + " " + figure.block.caption
    return bool(DATE.search(known) and HARDWARE.search(known))


def is_published(figure):
    begin, end = sentence_of(figure)
    known = figure.block.text[begin:end] + " " + figure.block.caption
    return bool(PUBLISHED.search(known) and SOURCE.search(known))


def is_other_family(figure, key):
    """True for a row of a table that has keys, all of other families than KEY."""
    keys = KEY_AND_METRIC.findall(figure.block.text) if figure.block.header else []
    return bool(keys) and all(of_row.split("/")[0] != key.split("/")[0] for of_row, _ in keys)


def is_stored_row(figure, stored):
    """True for a row of a table that has the key, below a caption with a link to the run."""
    for run in LINK_TO_RUN.findall(figure.block.caption):
        for key, metric in KEY_AND_METRIC.findall(figure.block.text):
            if stored.has(figure, run, key, metric) or stored.has(figure, run, key.split("/")[0], "seconds"):
                return True
    return False


class Document:
    def __init__(self, path, name, unmeasured):
        self.path, self.name, self.text = path, name, path.read_text()
        self.unmeasured = unmeasured  # phrase -> whether the document has it
        self.blocks = list(blocks_of(self.text))
        self.sections = {}
        self.marks = []  # (section, run, key, metric)
        section = ""
        for part in re.split(r"(?m)^(?=#+ )", re.sub(r"```.*?```", lambda code: code.group().replace("\n#", "\n "), self.text, flags=re.S)):
            section = part.split("\n")[0].strip("# ") if part.startswith("#") else section
            self.sections[section] = part
            for comment in COMMENT.findall(part):
                for mark in filter(None, map(str.split, comment.split(";"))):
                    self.marks += [(section, run, *mark[-2:]) for run in mark[:-2]] or [(section, "", "", words(comment))]

    def is_unmeasured(self, figure):
        found = False
        text = figure.block.text.replace("\n", " ")
        for phrase in self.unmeasured:
            for match in re.finditer(re.escape(phrase).replace(r"\ ", r"\s+"), text):
                self.unmeasured[phrase] = True
                found = found or match.start() <= figure.at < match.end()
        return found

    def is_tested(self, figure):
        if figure.unit == "%" and self.path.name in FEW_MEASURED_PERCENT:
            return bool(RATES.search(figure.block.section))
        return not (figure.block.header and "limit" in figure.block.header and self.cell_of(figure) == "limit")

    @staticmethod
    def cell_of(figure):
        column = figure.block.text.count("|", 0, figure.at) - 1
        return figure.block.header[column] if 0 <= column < len(figure.block.header) else ""

    def errors(self, stored):
        """Returns a line for each figure without a proof, each comment and each phrase without a figure."""
        found, used = [], set()
        for figure in (figure for block in self.blocks for figure in figures_of(block)):
            marks = [mark for mark in self.marks if mark[0] == figure.block.section and not is_other_family(figure, mark[2])
                     and stored.has(figure, *mark[1:])]
            used.update(marks)
            section = self.sections.get(figure.block.section, "")
            repeated = figure.unit == "%" and self.path.name in FEW_MEASURED_PERCENT and (TEST_FILE.search(section) or DATE.search(section))
            if not (self.is_unmeasured(figure) or marks or repeated or not self.is_tested(figure) or is_stored_row(figure, stored)
                    or is_published(figure) or is_dated(figure)):
                found.append(f"{self.name}:{figure.line}: {figure.number} {figure.unit} is in no stored run, has no source, and no date "
                             "with hardware; add one, or name it in tests/report/unmeasured_figures.txt if it is no measurement")
        for mark in self.marks:
            if mark not in used:
                found.append(f"{self.name}: no figure in \"{mark[0]}\" is the value of {' '.join(mark[1:])}; correct or remove the comment")
        found += [f"{self.name}: tests/report/unmeasured_figures.txt has \"{phrase}\", which is not there; remove it"
                  for phrase, is_there in self.unmeasured.items() if not is_there]
        return found


def errors_of(root):
    """Returns (lines about figures without a proof, number of figures)."""
    unmeasured = {}
    listed = root / "tests/report/unmeasured_figures.txt"
    for line in listed.read_text().splitlines() if listed.exists() else ():
        if line and not line.startswith("#"):
            name, _, phrase = line.partition(": ")
            unmeasured.setdefault(name, {})[phrase] = False
    stored = Stored(root / "ci/baselines")
    found, count = [], 0
    for path in [root / "README.md", *sorted(root.glob("docs/*.md"))]:
        name = str(path.relative_to(root))
        if name != "docs/changelog.md":
            document = Document(path, name, unmeasured.pop(name, {}))
            found += document.errors(stored)
            count += sum(1 for block in document.blocks for _ in figures_of(block))
    found += [f"tests/report/unmeasured_figures.txt: {name} is no document" for name in unmeasured]
    return found, count


GOOD = """# Made up
Rows: {0} ([stored run](ci/baselines/x/1ranks/1)):

| for example | measured | limit | s |
| --- | --- | --- | --- |
| `gemm/m:8 tflops` | 800.1 TFLOPS | min 1 TFLOPS | 11 |
| `hbm/m:8` | 4 GB/s | min 1 GB/s | 2 |

A GPU reached 800 TFLOPS. Together:

| GPU | bf16, TFLOPS |
| --- | --- |
| X | 801 |

<!-- stored: x/1ranks gemm/m:8 tflops; x/1ranks/1 hbm/m:8 hbm_gb_per_s -->

## Others
It took 5.5 to 7 s on an H200 (2026-11-23). It waits 9 s.

Vendor Y published 12 GB/s ([page](https://example.org)). Loads of `--limit=3 s` are code.

```text
99 GB/s of output
```
```sh
run # takes 3 s on two cores (2026-11)
```
"""
# What is changed in GOOD, and the figure or the words that the test must then name.
BAD = {
    "800.1 TFLOPS": ("800.3 TFLOPS", ":6: 800.3 TFLOPS"),
    "| 11 |": ("| 13 |", ":6: 13 s"),
    "| 2 |": ("| 11 |", ":7: 11 s"),
    "| 4 GB/s": ("| 6 GB/s", ":7: 6 GB/s"),
    "| X | 801 |": ("| X | 802 |", ":13: 802 TFLOPS"),
    "reached 800 TFLOPS": ("reached 800 GB/s", ":9: 800 GB/s"),
    "x/1ranks gemm/m:8 tflops": ("x/1ranks gemm/m:9 tflops", "m:9 tflops; correct"),
    "<!-- stored: x/1ranks gemm": ("<!-- stored: x/dirty gemm", "x/dirty gemm/m:8 tflops; correct"),
    "(2026-11-23)": ("(lately)", ":18: 7 s"),
    "on an H200": ("in all", ":18: 7 s"),
    "5.5 to": ("12.5 W, 5.5 to", None),
    "7 s on an H200 (2026-11-23).": ("7 s. On an H200 (2026-11-23), more.", ":18: 5.5 s"),
    "([page](https://example.org))": ("(page)", ":20: 12 GB/s"),
    "published 12": ("has 12", ":20: 12 GB/s"),
    "It waits 9 s.": ("It waits 10 s.", "\"waits 9 s\", which is not there"),
    "two cores (2026-11)": ("two cores", ":26: 3 s"),
    "Together:": ("Together 2 % faster:", ":9: 2 %"),
}


def test_itself():
    """Changes one figure, unit, run, date, hardware or source at a time in a document of good figures."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("docs", "tests/report", "ci/baselines/x/1ranks/1", "ci/baselines/x/1ranks/2", "ci/baselines/x/dirty/1"):
            (root / name).mkdir(parents=True)
        for name, tflops in (("1ranks/1", 800.123), ("1ranks/2", 800.96), ("dirty/1", 800.123)):
            facts = {"suite": {"dirty": name == "dirty/1"}, "complete": True}
            for family, row in (("gemm", {"tflops": tflops}), ("hbm", {"hbm_gb_per_s": 3, "by_rank": {"hbm_gb_per_s": [4, 6]}})):
                facts["seconds"] = 11.2 if family == "gemm" else 2.1
                row["name"] = f"{family}/m:8/manual_time"
                text = json.dumps({"context": {"shakedown": facts}, "benchmarks": [row]})
                (root / f"ci/baselines/x/{name}/{family}.json").write_text(text)
        (root / "tests/report/unmeasured_figures.txt").write_text("README.md: waits 9 s\n")
        (root / "README.md").write_text(GOOD)
        wrong = errors_of(root)[0]
        for old, (new, named) in BAD.items():
            assert old in GOOD, old
            (root / "README.md").write_text(GOOD.replace(old, new, 1))
            found = errors_of(root)[0]
            if (named is None) == bool(found) or (named and not any(named in line for line in found)):
                wrong.append(f"self-test: with \"{new}\" for \"{old}\" it finds {found or 'nothing'}")
    return wrong


def main():
    wrong = test_itself()
    if not wrong:
        wrong, count = errors_of(Path(sys.argv[1]))
        print(f"{count} figures, {len(wrong)} errors")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
