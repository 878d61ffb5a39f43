"""Reads the manifests of ci/k8s:

manifests.py check FIELDS FILE...     prints each field that FIELDS does not have, and each value of another type
manifests.py script FILE CONTAINER    prints the shell commands of a container
manifests.py value FILE KIND KEY...   prints one value of the object of this kind
"""
import re
import sys

import yaml

plain = {"string": str, "integer": int, "boolean": bool, "any": object, "time": str, "quantity": (str, int, float), "int_or_string": (str, int)}


class Checker:
    def __init__(self, fields):
        self.fields, self.errors = fields, []

    def check(self, value, kind, place):
        if kind[0] == "[" and isinstance(value, list):
            for i, one in enumerate(value):
                self.check(one, kind[1:-1], f"{place}[{i}]")
        elif kind[0] == "{" and isinstance(value, dict):
            for key, one in value.items():
                self.check(one, kind[1:-1], f"{place}.{key}")
        elif kind in plain:
            if not isinstance(value, plain[kind]) or (kind == "integer" and isinstance(value, bool)):
                self.errors.append(f"{place}: {value!r} is not of type {kind}")
        elif kind in self.fields and isinstance(value, dict):
            self.check_object(value, self.fields[kind], place)
        elif value not in kind.split("|"):
            self.errors.append(f"{place}: {value!r} is not {kind}")

    def check_object(self, value, fields, place):
        for name, one in value.items():
            if name in fields:
                self.check(one, fields[name].removesuffix(" !"), f"{place}.{name}")
            else:
                self.errors.append(f"{place}: there is no field {name}")
        for name, kind in fields.items():
            if kind.endswith(" !") and name not in value:
                self.errors.append(f"{place}: {name} is missing")


def documents(file):
    """The objects of a file, and those in its ConfigMaps and in the templates of NVSentinel. Values of a chart have the kind Values."""
    for document in yaml.safe_load_all(open(file)):
        document.setdefault("kind", "Values")
        yield document
        texts = {"ConfigMap": lambda: document["data"], "Values": lambda: document["lifecycle-manager"]["config"]["templates"]}
        for name, text in texts.get(document["kind"], dict)().items():
            if name.endswith(".yaml"):
                text = re.sub("{{[^{}]*Seconds}}", "1", text)  # fields of a Go template
                yield from yaml.safe_load_all(re.sub("{{[^{}]*}}", "x", text))


def containers(node):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from value if re.fullmatch("(initC|c)ontainers", key) else containers(value)


def main(action, file, *words):
    if action == "check":
        checker = Checker(yaml.safe_load(open(file)))
        for manifest in words:
            for document in documents(manifest):
                name = f"{manifest}: {document['kind']}"
                if document["kind"] in checker.fields:
                    checker.check(document, document["kind"], name)
                else:
                    checker.errors.append(f"{name}: the kind is unknown")
        print("\n".join(checker.errors))
        return len(checker.errors) > 0
    if action == "script":
        print(next(c["command"][2] for d in documents(file) for c in containers(d) if c["name"] == words[0]))
    else:
        value = next(d for d in documents(file) if d["kind"] == words[0])
        for key in words[1:]:
            value = value[key]
        print(value)


sys.exit(main(*sys.argv[1:]))
