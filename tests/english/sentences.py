#!/usr/bin/env python3
"""Counts assertions of tests that quote a sentence: tests/english/sentences.py ROOT [--list]

A test asserts facts: a key, status, code, limit, rank, exit code or name. A sentence is asserted once, by the test of the function
or program that writes it. Fails if tests assert more than MAX_SENTENCES, or one sentence in two files. Words that a test itself
gives as input, and messages of the system (strerror), are no sentences of ours.
"""
import collections
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

MAX_SENTENCES = 300  # lower it when there are fewer; never raise it
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Three words in a row, of which the last two are in lower case.
PROSE = re.compile(r"(?:^|[^-\w./=])[A-Za-z]+(?:'s)?[,;:]? [a-z]+(?:'s)?[,;:]? [a-z]+(?![-\w./=])")
SYSTEM = re.compile("|".join(re.escape(os.strerror(number)) for number in errno.errorcode))
# Calls in an assertion of C++ whose text is compared. The text of other calls is input.
COMPARES = re.compile(
    r"(?:EXPECT|ASSERT)_(?:EQ|NE|STREQ|EXIT|TRUE|FALSE)|find|rfind|contains|starts_with|ends_with|vector|string|says|has|refuses|refused$"
)
SHELL = re.compile(r"(?:^|[ (!])(?:grep|says|prints|shows|refused|MATCHES|STREQUAL)\b|==|=~")


def statements(text):
    """Yields (line number, text) of each assertion of C++, without the message after <<."""
    token = re.compile(STRING.pattern + r"|'(?:[^'\\]|\\.)'|[()]")
    for start in re.finditer(r"\b(?:EXPECT|ASSERT)_[A-Z_]+(?=\()", text):
        depth = 0
        for at in token.finditer(text, start.end()):
            depth += {"(": 1, ")": -1}.get(at[0], 0)
            if depth == 0:
                yield text.count("\n", 0, start.start()) + 1, text[start.start() : at.end()]
                break


def quoted_in_cpp(text):
    """Yields (line number, literal) of each text that an assertion compares."""
    for line, statement in statements(text):
        joined = re.sub(r'"\s*\n\s*"', "", statement)
        callers, at = [], 0
        for token in re.finditer(STRING.pattern + r"|'(?:[^'\\]|\\.)'|[({]|[)}]", joined):
            if token[0] in "({":
                callers.append(re.search(r"(\w*)(?:<[\w:]*>)?\s*$", joined[at : token.start()])[1])
            elif token[0] in ")}":
                callers[-1:] = []
            elif token[0].startswith('"'):
                caller = next((name for name in reversed(callers) if name), "")
                if COMPARES.fullmatch(caller) and joined.count(token[1]) == 1:
                    yield line, token[1].replace('\\"', '"')
            at = token.end()


def quoted_in_shell(text):
    """Yields (line number, literal) of each text that a line compares. The first text of `shows` is the name of a test."""
    for line, code in enumerate(text.splitlines(), 1):
        match = SHELL.search(code)
        if match and not code.lstrip().startswith("#"):
            code = re.sub(r' # .*|^ *shows +"[^"]*"|(\|\||&&)[ {]*(fail|echo|printf|message|return|exit)\b.*', "", code[match.start() :])
            for words in re.findall(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"", code):
                yield line, max(words, key=len)


def sentences_of(path):
    text = path.read_text(errors="replace")
    given, quoted = "", quoted_in_shell
    if path.suffix in (".cpp", ".hpp"):
        given, quoted = text, quoted_in_cpp
        for _, statement in statements(text):
            given = given.replace(statement, "", 1)
    for line, words in quoted(text):
        if any(PROSE.search(part) and part not in given for part in re.split(r"[:;] ", SYSTEM.sub("", words))):
            yield line, words


def main():
    root = Path(sys.argv[1])
    listed = subprocess.run(["git", "-C", root, "ls-files", "tests"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        print(f"test: SKIP: {root} is no git checkout")
        return 77
    count, files = 0, collections.defaultdict(set)
    for name in listed.stdout.split():
        path = root / name
        if path.suffix in (".cpp", ".hpp", ".sh", ".bash", ".cmake") and path.is_file():
            for line, sentence in sentences_of(path):
                count += 1
                files[sentence].add(name)
                if "--list" in sys.argv:
                    print(f"{name}:{line}: {sentence}")
    twice = [f"asserted twice: {sentence}: {', '.join(sorted(names))}" for sentence, names in files.items() if len(names) > 1]
    print(f"{count} assertions quote a sentence (at most {MAX_SENTENCES})", *twice, sep="\n")
    return 1 if twice or count > MAX_SENTENCES else 0


sys.exit(main())
