# SPDX-License-Identifier: Apache-2.0
"""Writes the page python-api.md from the docstrings, while MkDocs builds the site.

It reads the sources and imports nothing, so that the site builds without the native module.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PAGE = "python-api.md"
PACKAGE = Path(__file__).parents[2] / "python" / "feedrace"
INTRODUCTION = """# Python API

Made from the docstrings. `import feedrace as fr` gives what has no module in front of it here.
"""
# (heading, file, names; None: all public ones, in the file's order).
CHAPTERS = [
    ("fr.ImageLoader", "loader.py", ["ImageLoader"]),
    ("fr.fn", "fn.py", None),
    ("fr.pipeline, fr.Pipeline", "pipeline.py", ["pipeline", "PipelineFunction", "Pipeline"]),
    ("fr.transforms", "transforms/__init__.py", ["translate"]),
    ("fr.progress", "progress.py", ["progress"]),
    ("fr.show", "show.py", ["show"]),
    ("Plan, data set, sampler", "plan.py", ["Plan", "DatasetView", "Sampler"]),
    ("fr.Jagged", "outputs.py", ["Jagged"]),
    ("Fields of shards", "fields.py", []),
    ("feedrace.torch", "torch.py", ["LoaderDataset"]),
    ("feedrace.dali", "dali/__init__.py", []),
]
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
DOUBLE_TICKS = re.compile(r"(?<!`)``(?!`)")
ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*): ?(.*)$")


def on_files(files: Files, config: Any) -> Files:
    """MkDocs calls this once it has found the pages."""
    files.append(File.generated(config, PAGE, content=make_page()))
    return files


def make_page() -> str:
    parts = [INTRODUCTION]
    for heading, file, names in CHAPTERS:
        parts.append(f"## {heading}\n")
        parts += chapter(ast.parse((PACKAGE / file).read_text()), names)
    return "\n".join(parts)


def chapter(module: ast.Module, names: list[str] | None) -> list[str]:
    described = []
    if not names:
        described.append(markdown(ast.get_docstring(module) or ""))
    for name in exported(module) if names is None else names:
        described += definition(find(module, name))
    return described


def find(module: ast.Module, name: str) -> ast.FunctionDef | ast.ClassDef:
    """A function or class that a module defines, or imports from another one of the package."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            if not is_overload(node):
                return node
        elif isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
            path = PACKAGE.joinpath(*(node.module or "").split(".")[1:])
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            return find(ast.parse(file.read_text()), name)
    raise LookupError(f"{PAGE}: {name} is not defined any more; mend dev/docs/api_page.py")


def is_overload(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(is_named(decorator, "overload") for decorator in node.decorator_list)


def exported(module: ast.Module) -> list[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def definition(node: ast.FunctionDef | ast.ClassDef, owner: str = "") -> list[str]:
    heading = "####" if owner else "###"
    parts = [f"{heading} {owner}{node.name}\n", signature(node), docstring(node)]
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            is_public = isinstance(member, ast.FunctionDef) and not member.name.startswith("_")
            if is_public and ast.get_docstring(member):
                parts += definition(member, f"{node.name}.")
    return parts


def docstring(node: ast.FunctionDef | ast.ClassDef) -> str:
    return markdown(ast.get_docstring(node) or "")


def signature(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The call as it is written, a line for each argument where there are many."""
    function: ast.FunctionDef | None = None
    if isinstance(node, ast.FunctionDef):
        function = node
    else:
        found = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        function = found[0] if found else None
    if function is None or any(is_named(d, "property") for d in function.decorator_list):
        return ""
    call = f"{node.name}({', '.join(arguments(function))})"
    if len(call) > 88:
        call = f"{node.name}(\n    " + ",\n    ".join(arguments(function)) + ",\n)"
    return f"```text\n{call}\n```\n"


def is_named(decorator: ast.expr, name: str) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == name


def arguments(function: ast.FunctionDef) -> list[str]:
    """Without annotations: the docstring has the types that matter."""
    given = function.args
    hidden = ["self", "call"]  # `call` is what @operator passes.
    hidden += [v.arg for v in (given.vararg, given.kwarg) if v and is_refused(v)]
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    made = [spelled(a, d) for a, d in zip(positional, defaults, strict=True) if a.arg not in hidden]
    if given.vararg and given.vararg.arg not in hidden:
        made.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        made.append("*")
    made += [spelled(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg and given.kwarg.arg not in hidden:
        made.append(f"**{given.kwarg.arg}")
    return made


def is_refused(argument: ast.arg) -> bool:
    """An argument of type NoReturn is there for its error message."""
    return argument.annotation is not None and ast.unparse(argument.annotation) == "NoReturn"


def spelled(argument: ast.arg, default: ast.expr | None) -> str:
    """As NAME or NAME=DEFAULT; a constant stands as what it holds."""
    if default is None:
        return argument.arg
    value = ast.unparse(default)
    return f"{argument.arg}={constants().get(value, value)}"


@functools.cache
def constants() -> dict[str, str]:
    """What the package's modules call NAME = literal."""
    found = {}
    for path in sorted(PACKAGE.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple):
                found[ast.unparse(node.targets[0])] = ast.unparse(node.value)
    return found


def markdown(text: str) -> str:
    """A docstring's sections as lists; its literal blocks, after "::", as code."""
    lines: list[str] = []
    section = ""
    literal = False
    for line in DOUBLE_TICKS.sub("`", text).splitlines():
        named = SECTION.match(line)
        if named:
            section = named[1]
            lines += ["", f"**{section}**", ""]
            continue
        if section and line and not line.startswith(" "):
            section = ""
            lines.append("")
        if section in ("Returns", "Yields"):
            lines.append(line.strip())
        elif section:
            lines += entry(line)
        elif literal and line and not line.startswith("    "):
            literal = False
            lines.append(line)
        elif line.endswith("::"):
            literal = True
            lines.append(line[:-1])
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def entry(line: str) -> list[str]:
    """A line of a section: a new argument, or more about the one before."""
    is_new = line.startswith("    ") and not line.startswith("     ")
    named = ENTRY.match(line.strip()) if is_new else None
    if named:
        return [f"- `{named[1]}`: {named[2]}"]
    return [f"  {line.strip()}"] if line.strip() else [""]
