"""JSON documents that are checked by pydantic, with the path to every fault.

Imported where a document is read, not before: pydantic takes 70 ms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError
from pydantic_core.core_schema import custom_error_schema

from ..errors import ShardpropError

__all__ = [
    "Count",
    "Expected",
    "Finite",
    "Flag",
    "Index",
    "NotNegative",
    "Part",
    "Positive",
    "Share",
    "Text",
    "checked",
    "fault",
    "read_json",
]

# How many faults of one document are told.
_LISTED = 20


class Expected:
    """In an annotation: what messages call it, instead of the parts that pydantic tells apart."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return custom_error_schema(
            handler(source), custom_error_type="expected", custom_error_message=self.text
        )


_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]

Finite = Annotated[_Number, Expected("a number")]
Positive = Annotated[_Number, Field(gt=0), Expected("a number above 0")]
NotNegative = Annotated[_Number, Field(ge=0), Expected("a number of at least 0")]
Share = Annotated[_Number, Field(gt=0, le=1), Expected("a number above 0 and at most 1")]
Count = Annotated[int, Field(strict=True, ge=1), Expected("a whole number of at least 1")]
Index = Annotated[int, Field(strict=True, ge=0), Expected("a whole number of at least 0")]
Text = Annotated[str, Field(min_length=1), Expected("a text")]
Flag = Annotated[bool, Field(strict=True), Expected("true or false")]


class _Instead:
    """Stands in a document where a value cannot, and says what messages are to say of it."""

    def __init__(self, text: str) -> None:
        self.text = text


_NOTHING, _REPEATED = _Instead("nothing"), _Instead("the key more than once")


class Part(BaseModel):
    """An object of a document, whose keys are all known. Null is as good as an absent key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _with_all_keys(cls, value: object) -> object:
        """Lets messages say what is expected of a key that is not there, and which keys are known.

        pydantic says of the one that it is required, of the other that it is not permitted.
        """
        if not isinstance(value, Mapping):
            return value
        keys = ", ".join(cls.model_fields)
        forbids = cls.model_config["extra"] == "forbid"
        required = [name for name, field in cls.model_fields.items() if field.is_required()]
        given = {
            str(key): _Instead(keys) if forbids and key not in cls.model_fields else item
            for key, item in value.items()
        }
        return {**dict.fromkeys(required, _NOTHING), **given}


AnyPart = TypeVar("AnyPart", bound=Part)


def fault(expected: str, got: str) -> PydanticCustomError:
    """What a validator of a part raises."""
    values = {"expected": expected, "got": got}
    return PydanticCustomError("fault", "Expected {expected}, got {got}.", values)


def checked(kind: type[AnyPart], value: object, document: str) -> AnyPart:
    """The part that values hold.

    Args:
        document: What messages call it, such as the path of the file.

    Raises:
        ShardpropError: with a line for each fault: the document, the path, what was expected and
            what is there.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        faults = [f"{document}: {_told(each, value)}" for each in error.errors(include_url=False)]
    more = [f"and {len(faults) - _LISTED} more faults."] if len(faults) > _LISTED else []
    raise ShardpropError("\n".join(faults[:_LISTED] + more))


def read_json(path: Path) -> Any:
    """The values of a JSON file, for `checked`.

    Raises:
        ShardpropError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_object)
    except OSError as error:
        got = error.strerror or error
        raise ShardpropError(f"{path}: Expected a file that can be read, got: {got}.") from None
    except UnicodeDecodeError:
        raise ShardpropError(f"{path}: Expected JSON in UTF-8, got bytes that are not.") from None
    except json.JSONDecodeError as error:
        raise ShardpropError(
            f"{path}: Expected JSON, got this at line {error.lineno}, column {error.colno}: "
            f"{error.msg}."
        ) from None
    except (RecursionError, ValueError) as error:  # nested too deep, a number of too many digits
        raise ShardpropError(f"{path}: Expected JSON that can be read, got: {error}.") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        values[key] = _REPEATED if key in values else value
    return values


_KINDS = {
    "model_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
}


def _told(error: ErrorDetails, document: Any) -> str:
    kind, path, got = error["type"], _path(error["loc"], document), error["input"]
    where = "" if path == "$" else f"{path}: "
    if kind == "fault":
        return f"{where}{error['msg']}"
    if kind == "extra_forbidden":
        return f"{where}Expected one of the keys {got.text}, got an unknown one."
    if kind == "missing":  # of a list of so many items; `Part` sees to keys
        return f"{where}Expected one more item, got nothing."
    if kind == "expected" or kind in _KINDS:
        return f"{where}Expected {_KINDS.get(kind, error['msg'])}, got {_shown(got)}."
    return f"{where}{error['msg']}, got {_shown(got)}."


def _path(steps: Sequence[int | str], at: Any) -> str:
    """Such as ``$.groups[1].mesh_dims``.

    Without what pydantic puts in beside the keys: the kind of an object that may be of several, and
    ``[key]`` at the end of the path to a key.
    """
    path = "$"
    for number, step in enumerate(steps, 1):
        if isinstance(step, int):
            known = isinstance(at, (list, tuple)) and step < len(at)
            path, at = f"{path}[{step}]", at[step] if known else None
        elif isinstance(at, Mapping) and (step in at or number == len(steps)):
            path, at = f"{path}.{step}", at.get(step)
    return path


def _shown(value: object) -> str:
    if isinstance(value, _Instead):
        return value.text
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    # As in a file, NaN and Infinity too; what no file can hold came from Python.
    shown = json.dumps(value, default=repr)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
