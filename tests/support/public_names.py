"""The public names, each with its signature: read from the source, so that no library and no release of Python counts.

    python -m tests.support.public_names > docs/api.txt

A line is a name in a module, or under a class one of its members: methods and fields, also those of bases that have no
name of their own in the list, and none that begins with `_`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "reme_core": "",
    "reme_core.agents": "",
    "reme_core.client": "",
    "reme_core.compat": "",
    "reme_core.errors": "",
    "reme_core.facade.parts": "Settings",
    "reme_core.files": "",
    "reme_core.models": "",
    "reme_core.openai_agents": "ReMeSession",
    "reme_core.ports": "",
    "reme_core.schema": "make_scope new_id parse_messages utc_now",
    "reme_core.schema.mapping": "MappingModel",
    "reme_core.serve.access": "Principal",
    "reme_core.serve.doors": "make_served",
    "reme_core.serve.guard": "GuardRules",
    "reme_core.serve.process": "opened",
    "reme_core.serve.service": "make_service",
    "reme_core.steps.distillation": "Distilled",
    "reme_core.steps.flow": "stage",
    "reme_core.stores": "IndexedStore LocalStore PostgresStore QdrantIndex QdrantLayout",
    "reme_core.tasks": "",
    "reme_core.testing": "",
    "reme_core.text": "error_class",
    "reme_core.tools": "",
    "reme_core.tools.files": "",
    "reme_core.transfer.importers.items": "ImportSource ImportedItem ImportedMemory ImportedSession Unreadable",
    "reme_agentscope": "",
    "reme_langchain": "",
}
"""What users import from, and which names, where it is not all of them; classes of `reme_core.schema` are public, too.

Everything else is ours to change.
"""

_NO_MEMBER = ("_", "model_config", "test_")  # a suite for implementers grows with what is promised
_Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Found:
    """A definition, and the module that it stands in."""

    module: str
    node: ast.stmt


@cache
def _tree(module: str) -> ast.Module | None:
    path = ROOT.joinpath(*module.split("."))
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.is_file():
            return ast.parse(file.read_text(encoding="utf-8"))
    return None


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Give statements as a type checker sees them: those under `if TYPE_CHECKING` and no other condition."""
    for node in body:
        if not isinstance(node, ast.If):
            yield node
        elif isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _statements(node.body)


@cache
def _bound(module: str) -> dict[str, ast.stmt]:
    """Return what binds each name of a module."""
    tree = _tree(module)
    bound: dict[str, ast.stmt] = {}
    for node in _statements(tree.body if tree else []):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                bound[name] = node
            case ast.ImportFrom(names=names):
                bound |= {alias.asname or alias.name: node for alias in names}
    return bound


def _find(module: str, name: str) -> _Found | None:
    """Return the definition of a name, followed through our modules; None: it is another library's."""
    node = _bound(module).get(name)
    if not isinstance(node, ast.ImportFrom):
        return None if node is None else _Found(module, node)
    source = str(node.module)
    [original] = [alias.name for alias in node.names if (alias.asname or alias.name) == name]
    return _find(source, original) if _tree(source) else None


def _listed(module: str) -> set[str]:
    """Return the public names of a module: its `__all__`, else what it defines or hands on as `X as X`."""
    tree = _tree(module)
    assert tree is not None, module
    names: set[str] = set()
    for node in _statements(tree.body):
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=elts)):
                return {ast.literal_eval(item) for item in elts}
            case ast.ImportFrom(names=aliases):
                names |= {alias.name for alias in aliases if alias.asname == alias.name}
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


@cache
def _public(module: str) -> frozenset[str]:
    """Return the public names of one of `MODULES`."""
    chosen, listed = MODULES[module].split(), _listed(module)
    if module == "reme_core.schema":
        chosen += [name for name in listed if isinstance(getattr(_find(module, name), "node", None), ast.ClassDef)]
    return frozenset(chosen or listed)


@cache
def _classes() -> frozenset[_Found]:
    """Return the classes that are listed under a name of their own."""
    return frozenset(found for module in MODULES for name in _public(module) if (found := _find(module, name)))


def _is_apart(base: _Found) -> bool:
    """Tell whether a base is listed itself, or a protocol, which says what a class has to have and brings nothing."""
    assert isinstance(base.node, ast.ClassDef)
    return base in _classes() or any("Protocol" in ast.unparse(part) for part in base.node.bases)


def _call(node: _Def) -> str:
    for argument in (*node.args.posonlyargs, *node.args.args):
        if argument.arg == "self":
            argument.annotation = None  # what a mixin asks of the class it is mixed into
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returns}"


def _members(found: _Found) -> dict[str, str]:
    """Return the members of a class with their signatures, without those of bases that are listed themselves."""
    node = found.node
    assert isinstance(node, ast.ClassDef)
    members: dict[str, str] = {}
    for base in reversed(node.bases):
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        parent = _find(found.module, name)
        if parent is not None and isinstance(parent.node, ast.ClassDef) and not _is_apart(parent):
            members |= _members(parent)
    for item in node.body:
        match item:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                kinds = {ast.unparse(decorator) for decorator in item.decorator_list}
                if "overload" not in kinds:
                    mark = "async " if isinstance(item, ast.AsyncFunctionDef) else ""
                    is_value = kinds & {"property", "cached_property"}
                    told = f": {ast.unparse(item.returns)}" if is_value and item.returns else _call(item)
                    members[item.name] = f"{mark}{item.name}{told}"
            case ast.AnnAssign(target=ast.Name(id=name)):
                value = f" = {ast.unparse(item.value)}" if item.value else ""
                members[name] = f"{name}: {ast.unparse(item.annotation)}{value}"
            case ast.Assign(targets=[ast.Name(id=name)]):
                members[name] = f"{name} = {ast.unparse(item.value)}"
    return {name: told for name, told in members.items() if name == "__init__" or not name.startswith(_NO_MEMBER)}


def _lines(label: str, found: _Found | None) -> list[str]:
    match found and found.node:
        case ast.ClassDef(bases=bases):
            assert found is not None
            told = f"({', '.join(ast.unparse(base) for base in bases)})" if bases else ""
            return [f"class {label}{told}", *(f"    {line}" for _, line in sorted(_members(found).items()))]
        case ast.FunctionDef() | ast.AsyncFunctionDef() as node:
            return [f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{label}{_call(node)}"]
        case ast.AnnAssign(annotation=annotation):
            return [f"{label}: {ast.unparse(annotation)}"]
        case _:
            return [label]


def public_names() -> list[str]:
    """Return the lines of `docs/api.txt`; a thing that two modules have is told whole where it comes first."""
    lines: list[str] = []
    first: dict[int, str] = {}
    for module in MODULES:
        lines += ["", f"# {module}"]
        for name in sorted(_public(module)):
            label, found = f"{module}.{name}", _find(module, name)
            known = first.setdefault(id(found.node), label) if found else label
            lines += _lines(label, found) if known == label else [f"{label} is {known}"]
    return [" ".join(line.split("\n")) for line in lines[1:]]


if __name__ == "__main__":
    print("\n".join(public_names()))
