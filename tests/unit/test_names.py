"""The words of the package: functions are verbs, and a name means one thing.

``names.txt`` has what stood when these rules came. A name leaves it when it is mended; none is added without a reason
beside it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_trees import trees

KNOWN = Path(__file__).with_name("names.txt")

# Folders and files whose one-word functions are a vocabulary of others: the standard's, MLIR's, TVM's, schedules'.
VOCABULARIES = (
    "dialects/",  # builders bear the names of ops
    "driver/api.py",  # compile, build
    "frontends/onnx/ops/",  # converters bear the names of operators
    "frontends/onnx/primitives/",  # functions bear the names of mathematics, and of numpy
    "passes/lower/math/",  # functions bear the names of mathematics
    "passes/schedule/families/",  # a family bears its own name
    "passes/schedule/language/",  # schedule primitives
    "runtime/nd.py",  # arrays, as TVM has them
    "te/",  # tensor expressions, as TVM has them
    "tvm/",  # what TVM has, by its names
    "tools/networks/",  # layers bear the names of layers
)
# Verbs that say enough in one word, beside the name of their module.
VERBS = """
add answer append apply ask assign attempt attend bisect build cast choose clamp clone close combine compare compose convert
cover cut decode demand dequantize detach digest draw emit encode escape evaluate examine explain extract fill find fit fold
freeze hoist infer inline insert interleave iterate judge link load lower make measure merge pack parse peek permute place plan
prefix quantize read reduce rehearse remember replace replay request requantize require resize resolve run sample saturate
save scale seal serve shorten show shrink shutdown snapshot splat start step store stretch suppress tell touch transform tune
unpack validate verify widen wrap write assemble interpolate rewrite
"""
IRREGULAR = "bound built chosen drawn found frozen given held hidden kept known made rewritten shown taken told written"
PARTICIPLE = re.compile(rf"_?([a-z]+(ed|ing)|{'|'.join(IRREGULAR.split())})")
NO_PARTICIPLES = {"embedding", "string", "need", "speed", "nothing", "padding", "spread"}  # but look like ones
EVERYWHERE = {"main", "_parser", "__all__", "__getattr__"}  # what a command has, and what Python asks for


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions of a module and methods of its classes, without properties."""
    for node in tree.body:
        yield from [node] if isinstance(node, ast.FunctionDef) else []
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(inner, ast.FunctionDef) and not any(
                "property" in ast.unparse(d) for d in inner.decorator_list
            ):
                yield inner


def participles() -> Iterator[str]:
    """Functions whose name is one participle."""
    for path, tree in trees().items():
        for function in functions(tree):
            if PARTICIPLE.fullmatch(function.name) and function.name.strip("_") not in NO_PARTICIPLES:
                yield f"{path} {function.name}"


def one_words() -> Iterator[str]:
    """Public functions of one word that is no verb, outside of the vocabularies."""
    verbs = {*VERBS.split(), *EVERYWHERE}
    for path, tree in trees().items():
        if not path.startswith(VOCABULARIES):
            for node in tree.body:
                if isinstance(node, ast.FunctionDef) and re.fullmatch(r"[a-z]+", node.name) and node.name not in verbs:
                    yield f"{path} {node.name}"


def homonyms() -> Iterator[str]:
    """Names that three modules or more define at their top level."""
    places = defaultdict(set)
    for path, tree in trees().items():
        for node in () if path.startswith("tvm/") else tree.body:
            names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
            names += [t.id for t in node.targets if isinstance(t, ast.Name)] if isinstance(node, ast.Assign) else []
            for name in names:
                places[name].add(path)
    yield from (name for name, found in places.items() if len(found) >= 3 and name not in EVERYWHERE)


RULES = {"participles": participles, "one_words": one_words, "homonyms": homonyms}


def known() -> dict[str, set[str]]:
    """The names of ``names.txt`` by the rule that they break."""
    found: dict[str, set[str]] = {}
    rule = ""
    for line in KNOWN.read_text().splitlines():
        text = line.split("#")[0].strip()
        if text.startswith("["):
            rule = text.strip("[]")
        elif text:
            found.setdefault(rule, set()).add(text)
    return found


@pytest.mark.parametrize("rule", RULES)
def test_no_name_joins_those_that_are_known(rule: str):
    assert not sorted({*RULES[rule]()} - known()[rule]), f"{RULES[rule].__doc__} Use a verb, or a name of its own"


@pytest.mark.parametrize("rule", RULES)
def test_names_that_are_mended_leave_the_list(rule: str):
    assert not sorted(known()[rule] - {*RULES[rule]()}), f"take them out of {KNOWN.name}"


def test_the_rules_see_what_they_are_about():
    tree = ast.parse("def made(): ...\nclass A:\n    def _folded(self): ...\n    @property\n    def known(self): ...")
    found = [f.name for f in functions(tree)]
    assert found == ["made", "_folded"] and all(PARTICIPLE.fullmatch(name) for name in found)
    assert not PARTICIPLE.fullmatch("fold") and not PARTICIPLE.fullmatch("is_folded")


if __name__ == "__main__":  # takes mended names out of the list
    lines = [
        "# Names that break a rule of test_names.py, from before it. This list only shrinks:",
        "# python tests/unit/test_names.py",
    ]
    for rule, names in known().items():
        lines += ["", f"[{rule}]", *sorted(names & {*RULES[rule]()})]
    KNOWN.write_text("\n".join(lines) + "\n")
