#!/usr/bin/env python3
"""Counts turns of phrase that a native reader of the field stumbles over: tests/english/english.py ROOT [--list]

Reads comments of C++, CUDA, CMake, shell and YAML, Markdown files, and string literals of C++ with a blank in them. Fails if a kind
of text has more than one for 1,000 words. docs/contributing.md has the rules. Quotations and names are not words.
"""
import re
import subprocess
import sys
from pathlib import Path

MAX_PER_THOUSAND = 1.0
TURNS = {
    "who, nobody for a program or a thing": r"\b([Ww]hoever|[Nn]obody|[Ss]omebody|(?<!those )(?<!person )(?<!user )\bwho\b)",
    "a sentence that begins with a what-clause": r"(?:^|[.:] )What (?!is\b.*\?)[a-z]",
    "a sentence that begins with Of": r"(?:^|[.;] )Of (?!course)[a-z]",
    "stand or lie for be": r"\b(stands|stood|lies) (in|at|on|there|twice|beside)\b",
    "behind for after, beside for next to": r"\bbeside\b|\bbehind (?!the scenes|a |an )[a-z]",
    "so many, that much": r"\bso many\b|\bthat much\b",
    "held against, comes to its end": r"\bheld against\b|\bcome[s]? to (its|their) end\b",
}
COMMENT = {".cpp": r"//+ ?(.*)", ".hpp": r"//+ ?(.*)", ".cu": r"//+ ?(.*)", ".cuh": r"//+ ?(.*)"}
HASH = r"(?:^|\s)#+ (.*)"
STRING = re.compile(r'"((?:[^"\\]|\\.)* (?:[^"\\]|\\.)*)"')


def texts_of(path, lines):
    """Yields (kind, line number, text)."""
    is_code = path.suffix in COMMENT
    for number, line in enumerate(lines, 1):
        if path.suffix == ".md":
            yield "documents", number, re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)", "", line)
            continue
        comment = re.search(COMMENT[path.suffix] if is_code else HASH, line)
        if comment and (is_code or not line.startswith("#!")):
            yield "comments", number, comment.group(1)
            line = line[: comment.start()]
        if is_code:
            for text in STRING.findall(line):
                yield "messages", number, text


def main():
    root = Path(sys.argv[1])
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        print(f"test: SKIP: {root} is no git checkout")
        return 77
    names = listed.stdout.split()
    words, found = {}, {}
    for path in (root / name for name in names):
        kind_of_file = path.suffix in {*COMMENT, ".md", ".sh", ".cmake", ".yaml"} or path.name == "CMakeLists.txt"
        if not kind_of_file or "baselines" in path.parts or "data" in path.parts or not path.is_file():
            continue
        for kind, number, text in texts_of(path, path.read_text(errors="replace").splitlines()):
            words[kind] = words.get(kind, 0) + len(re.findall(r"[A-Za-z]+", text))
            for turn, pattern in TURNS.items():
                if re.search(pattern, text):
                    found.setdefault(kind, []).append(f"{path.relative_to(root)}:{number}: {turn}: {text.strip()[:100]}")
    code = 0 if words else 1
    for kind, count in sorted(words.items()):
        rate = 1000 * len(found.get(kind, [])) / count
        print(f"{kind}: {rate:.2f} per 1,000 words ({len(found.get(kind, []))} of {count})")
        if rate > MAX_PER_THOUSAND:
            code = 1
            print("\n".join(found[kind]))
        elif "--list" in sys.argv:
            print("\n".join(found.get(kind, [])))
    return code


sys.exit(main())
