"""Signatures of pydantic models in the API reference: what a model is made of, with types and defaults."""

from __future__ import annotations

from collections.abc import Iterator

from griffe import Class, Expr, ExprCall, ExprKeyword, Extension, Function, Module, Parameter, ParameterKind, Parameters

_BASES = {"pydantic.BaseModel", "pydantic.main.BaseModel"}


class ModelSignatures(Extension):
    """Gives each model the constructor that pydantic makes of its fields."""

    def on_package(self, *, pkg: Module, **_: object) -> None:
        """Look through a package that was read."""
        for found in _classes(pkg):
            if _is_model(found) and "__init__" not in found.members:
                fields = {field.name: field for kind in (*reversed(found.mro()), found) for field in _fields(kind)}
                self_ = Parameter("self", kind=ParameterKind.positional_or_keyword)
                parameters = Parameters(self_, *fields.values())
                found.set_member("__init__", Function("__init__", parent=found, parameters=parameters, returns="None"))


def _classes(place: Module | Class) -> Iterator[Class]:
    for member in place.members.values():
        if not member.is_alias and isinstance(member, (Module, Class)):
            if isinstance(member, Class):
                yield member
            yield from _classes(member)


def _is_model(found: Class) -> bool:
    bases = {base.canonical_path for kind in (found, *found.mro()) for base in kind.bases if isinstance(base, Expr)}
    return bool(bases & _BASES)


def _fields(found: Class) -> Iterator[Parameter]:
    for member in found.members.values():
        is_field = not member.is_alias and member.is_attribute and "instance-attribute" in member.labels
        if is_field and member.annotation is not None and not member.name.startswith("_"):
            kind = ParameterKind.keyword_only
            yield Parameter(member.name, annotation=member.annotation, kind=kind, default=_default(member.value))


def _default(value: str | Expr | None) -> str | Expr | None:
    if not isinstance(value, ExprCall) or value.canonical_path not in {"pydantic.Field", "pydantic.fields.Field"}:
        return value
    named = {item.name: item.value for item in value.arguments if isinstance(item, ExprKeyword)}
    if "default_factory" in named:
        return ExprCall(named["default_factory"], [])
    first = value.arguments[0] if value.arguments else None
    return named.get("default", None if isinstance(first, ExprKeyword) else first)
