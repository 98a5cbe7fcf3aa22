"""The public names, each with its signature: read from the source, so that no library and no release of Python counts.

    python -m tests.support.public_names > docs/api.txt

A line is a name in a module, or under a class one of its members: methods and fields, also those of bases that have no
name of their own in the list, and none that begins with `_`. Types that these name, such as what a call returns, stand
at the end. A default that is a constant is told by its value.
"""

from __future__ import annotations

import ast
import copy
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
    "reme_core.stores": "IndexedStore LocalStore PostgresStore QdrantIndex QdrantLayout ServerSettings",
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
_INNER = (
    "reme_core.facade.sync",
    "reme_core.files.file_index",
    "reme_core.files.keeper",
    "reme_core.serve",
    "reme_core.stores",
    "reme_core.testing",
    "reme_core.tools.files.root",
)
"""Where the parts lie that public classes are built of: what signatures name of them is ours to change."""


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


class _Values(ast.NodeTransformer):
    """Puts a constant's value in place of its name, and leaves words for readers out: neither counts for a caller."""

    def __init__(self, module: str) -> None:
        self.module = module

    def visit_Name(self, node: ast.Name) -> ast.AST:
        found = _find(self.module, node.id)
        value = found.node.value if found and isinstance(found.node, ast.Assign | ast.AnnAssign) else None
        is_number_or_text = isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp) and not any(
            isinstance(part, ast.Name | ast.Call) for part in ast.walk(value)
        )
        return value if value is not None and is_number_or_text else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.keywords = [item for item in node.keywords if item.arg not in {"title", "description"}]
        return self.generic_visit(node)


def _told(module: str, node: ast.AST) -> str:
    return ast.unparse(_Values(module).visit(copy.deepcopy(node)))


def _call(module: str, node: _Def) -> str:
    arguments = copy.deepcopy(node.args)
    for argument in (*arguments.posonlyargs, *arguments.args):
        if argument.arg == "self":
            argument.annotation = None  # what a mixin asks of the class it is mixed into
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({_told(module, arguments)}){returns}"


def _members(found: _Found) -> dict[str, _Found]:
    """Return the public members of a class, without those of bases that are listed themselves."""
    node = found.node
    assert isinstance(node, ast.ClassDef)
    members: dict[str, _Found] = {}
    for base in reversed(node.bases):
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        parent = _find(found.module, name)
        if parent is not None and isinstance(parent.node, ast.ClassDef) and not _is_apart(parent):
            members |= _members(parent)
    for item in node.body:
        match item:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if "overload" not in {ast.unparse(decorator) for decorator in item.decorator_list}:
                    members[name] = _Found(found.module, item)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                members[name] = _Found(found.module, item)
    return {name: item for name, item in members.items() if name == "__init__" or not name.startswith(_NO_MEMBER)}


def _member_line(found: _Found) -> str:
    module, item = found.module, found.node
    match item:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            kinds = {ast.unparse(decorator) for decorator in item.decorator_list}
            mark = "async " if isinstance(item, ast.AsyncFunctionDef) else ""
            is_value = kinds & {"property", "cached_property"}
            told = f": {ast.unparse(item.returns)}" if is_value and item.returns else _call(module, item)
            return f"{mark}{item.name}{told}"
        case ast.AnnAssign():
            value = f" = {_told(module, item.value)}" if item.value else ""
            return f"{ast.unparse(item.target)}: {_told(module, item.annotation)}{value}"
        case _:
            assert isinstance(item, ast.Assign)
            return f"{ast.unparse(item.targets[0])} = {_told(module, item.value)}"


def _lines(label: str, found: _Found | None) -> list[str]:
    match found and found.node:
        case ast.ClassDef(bases=bases):
            assert found is not None
            # A base of ours that has no public name brings its members, which are told here.
            named = [told for base in bases if not (told := ast.unparse(base)).startswith("_")]
            members = [f"    {_member_line(item)}" for _, item in sorted(_members(found).items())]
            return [f"class {label}({', '.join(named)})" if named else f"class {label}", *members]
        case ast.FunctionDef() | ast.AsyncFunctionDef() as node:
            assert found is not None
            return [f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{label}{_call(found.module, node)}"]
        case ast.AnnAssign(annotation=annotation):
            return [f"{label}: {ast.unparse(annotation)}"]
        case _:
            return [label]


def _types(found: _Found) -> Iterator[tuple[str, _Found]]:
    """Give the types of ours that a definition names: of its arguments, what it returns, its fields."""
    match found.node:
        case ast.ClassDef():
            for member in _members(found).values():
                yield from _types(member)
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() as node:
            given = node.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            parts = [node.returns, *(item.annotation for item in arguments if item.arg != "self")]
        case ast.AnnAssign(annotation=annotation, value=value):
            parts = [value if _is_alias(found.node) else annotation]
        case ast.Assign(value=value):
            parts = [value] if _is_alias(found.node) else []
        case _:
            parts = []
    for name in (name for part in parts for name in _names_in(part) if not name.startswith("_")):
        named = _find(found.module, name)
        if named is not None and (isinstance(named.node, ast.ClassDef) or _is_alias(named.node)):
            yield name, named


def _is_alias(node: ast.stmt) -> bool:
    """Tell whether a statement names a type: `X: TypeAlias = ...`, `X = A | B` or `X = Literal[...]`."""
    match node:
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.Assign(value=ast.Subscript()):
            return True
        case ast.Assign(value=ast.BinOp(op=ast.BitOr())):
            return True
        case _:
            return False


def _is_data(node: ast.stmt) -> bool:
    """Tell a class of data, whose fields are what a caller gets, from one that only works."""
    data = ("BaseModel", "MappingModel", "NamedTuple", "Protocol")
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith(data) for base in node.bases)


def _names_in(part: ast.expr | None) -> Iterator[str]:
    for node in ast.walk(part) if part else ():
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text


def _named_types() -> dict[str, _Found]:
    """Return the types, by name, that have no public name and that what has one names in its signatures."""
    known = {id(found.node) for module in MODULES for found in _found_in(module)}
    waiting = [found for module in MODULES for found in _found_in(module) if not found.module.startswith(_INNER)]
    named: dict[str, _Found] = {}
    while waiting:
        for name, found in _types(waiting.pop()):
            if id(found.node) not in known and not found.module.startswith(_INNER):
                known.add(id(found.node))
                named[name] = found
                if _is_alias(found.node) or _is_data(found.node):
                    waiting.append(found)
    return named


def _found_in(module: str) -> list[_Found]:
    return [found for name in _public(module) if (found := _find(module, name))]


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
    lines += ["", "# types that signatures name: what they are is public, where they lie is not"]
    for name, found in sorted(_named_types().items()):
        lines += _lines(name, found) if isinstance(found.node, ast.ClassDef) else [_member_line(found)]
    return [" ".join(line.split("\n")) for line in lines[1:]]


if __name__ == "__main__":
    print("\n".join(public_names()))
