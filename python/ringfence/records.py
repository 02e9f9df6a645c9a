"""Shapes of classes with named fields: dataclasses, TypedDicts, named tuples, pydantic models.

Answers to: `hints`. A value comes in as a dict or as a `Record` and leaves as the class.
Must not: import pydantic; a model is only known where its user imported pydantic already.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from typing import Any

from .hints import ArgumentError, Reader, Shape, wrong
from .values import Record, record_fields


@dataclasses.dataclass(frozen=True)
class Field:
    """One field: what it holds, and whether it may be left out."""

    name: str
    shape: Shape
    required: bool
    attribute: str


def read_record(hint: type, reader: Reader) -> Shape | None:
    """The shape of a class with fields; None where it is no such class."""
    build: Callable[[], Shape] | None = None
    if dataclasses.is_dataclass(hint):
        build = lambda: _dataclass(hint, reader)  # noqa: E731
    elif issubclass(hint, dict) and hasattr(hint, "__required_keys__"):
        build = lambda: _typed_dict(hint, reader)  # noqa: E731
    elif issubclass(hint, tuple) and hasattr(hint, "_fields"):
        build = lambda: _named_tuple(hint, reader)  # noqa: E731
    elif _is_model(hint):
        build = lambda: _model(hint, reader)  # noqa: E731
    elif hasattr(hint, "__get_pydantic_core_schema__") and "pydantic" in sys.modules:
        build = lambda: _adapted(hint, reader)  # noqa: E731
    return reader.recursive(hint, hint.__name__, build) if build else None


def _hints(hint: Any, reader: Reader) -> dict[str, Any]:
    try:
        return typing.get_type_hints(hint, include_extras=True)
    except (NameError, TypeError) as error:
        raise reader.unsupported(hint, f"has a field whose type could not be looked up: {error}") from None


def _object(name: str, fields: list[Field], closed: bool = True) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "title": name,
        "properties": {field.name: field.shape.schema for field in fields},
        "required": [field.name for field in fields if field.required],
    }
    if closed:
        schema["additionalProperties"] = False
    return schema


def _given(value: Any, at: str, name: str) -> dict[str, Any]:
    if isinstance(value, Record):
        return record_fields(value)
    if isinstance(value, dict):
        return value
    raise wrong(at, f"{name} or dict", value)


def _converted(value: Any, at: str, name: str, fields: list[Field]) -> dict[str, Any]:
    given = _given(value, at, name)
    known = {field.name for field in fields}
    for key in given:
        if key not in known:
            raise ArgumentError(f"`{at}` has a field `{key}` that `{name}` has not")
    result = {}
    for field in fields:
        if field.name in given:
            result[field.attribute] = field.shape.convert(given[field.name], f"{at}.{field.name}")
        elif field.required:
            raise ArgumentError(f"`{at}` lacks the field `{field.name}`")
    return result


def _dataclass(hint: Any, reader: Reader) -> Shape:
    hints = _hints(hint, reader)
    fields = []
    for field in dataclasses.fields(hint):
        if not field.init:
            continue
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        fields.append(Field(field.name, reader.read(hints[field.name]), missing, field.name))
    return _class_shape(hint, fields)


def _named_tuple(hint: Any, reader: Reader) -> Shape:
    hints = _hints(hint, reader)
    defaults = hint._field_defaults
    fields = [
        Field(name, reader.read(hints.get(name, Any)), name not in defaults, name) for name in hint._fields
    ]
    shape = _class_shape(hint, fields)

    def convert(value: Any, at: str) -> Any:
        if isinstance(value, (tuple, list)):
            if len(value) > len(fields):
                raise ArgumentError(f"`{at}` must have {len(fields)} items, not {len(value)}")
            value = dict(zip(hint._fields, value, strict=False))
        return shape.convert(value, at)

    return dataclasses.replace(shape, convert=convert)


def _class_shape(hint: Any, fields: list[Field]) -> Shape:
    def convert(value: Any, at: str) -> Any:
        return _build(hint, _converted(value, at, hint.__name__, fields), at)

    return Shape(_object(hint.__name__, fields), hint.__name__, convert)


def _build(hint: Any, fields: dict[str, Any], at: str) -> Any:
    # The class's own checks (`__post_init__`) may fail with any text: it does not reach the guest.
    try:
        return hint(**fields)
    except Exception as error:
        raise ArgumentError(f"`{at}` is not a valid {hint.__name__}") from error


def _typed_dict(hint: Any, reader: Reader) -> Shape:
    fields = []
    for name, field_hint in _hints(hint, reader).items():
        required = name in hint.__required_keys__
        marker = getattr(typing.get_origin(field_hint), "_name", None)
        if marker in ("Required", "NotRequired"):  # wins where the annotations were text
            required = marker == "Required"
        fields.append(Field(name, reader.read(field_hint), required, name))

    def convert(value: Any, at: str) -> Any:
        return _converted(value, at, hint.__name__, fields)

    return Shape(_object(hint.__name__, fields), hint.__name__, convert)


def _is_model(hint: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(hint, pydantic.BaseModel)


def _model(hint: Any, reader: Reader) -> Shape:
    """A pydantic model: its schema from its fields, its values by its own validation."""
    fields = []
    for name, info in hint.model_fields.items():
        shape = reader._annotated(info.annotation, (info,))
        alias = info.validation_alias if isinstance(info.validation_alias, str) else info.alias
        fields.append(Field(alias or name, shape, info.is_required(), name))
    by_name = {field.attribute: field.name for field in fields}
    schema = _object(hint.__name__, fields, closed=hint.model_config.get("extra") == "forbid")

    def convert(value: Any, at: str) -> Any:
        given = _given(value, at, hint.__name__)
        data = {by_name.get(key, key): _plain(item) for key, item in given.items()}
        return _validated(lambda: hint.model_validate(data), at)

    return Shape(schema, hint.__name__, convert)


def _adapted(hint: Any, reader: Reader) -> Shape:
    """A type that only pydantic understands, such as `EmailStr`."""
    adapter = sys.modules["pydantic"].TypeAdapter(hint)
    try:
        schema = dict(adapter.json_schema())
    except Exception as error:
        raise reader.unsupported(hint, f"has no schema: {type(error).__name__}") from None
    reader.definitions.update(schema.pop("$defs", {}))

    def convert(value: Any, at: str) -> Any:
        return _validated(lambda: adapter.validate_python(_plain(value)), at)

    return Shape(schema, "str" if schema.get("type") == "string" else "Any", convert)


def _plain(value: Any) -> Any:
    """Records as dicts, all the way down, as pydantic reads them."""
    if isinstance(value, Record):
        return {name: _plain(item) for name, item in record_fields(value).items()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(_plain(item) for item in value)
    return value


def _validated(validate: Callable[[], Any], at: str) -> Any:
    pydantic = sys.modules["pydantic"]
    try:
        return validate()
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = at + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        # A validator's own text may hold anything of the host's; pydantic's own texts do not.
        own = first["type"] in ("value_error", "assertion_error") or "custom" in first["type"]
        why = "is not valid" if own else f"is not valid: {first['msg']}"
        raise ArgumentError(f"`{place}` {why}") from error
