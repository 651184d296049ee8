"""Answers that were found before, for whatever placements: of those metadata does not depend."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch

from .._torch import DTensorSpec, OpSchema, TensorMeta
from ..model.question import OutputMeta
from ..support.cache import BoundedMap

__all__ = ["AnswerKey", "UnusualArgumentError", "answer", "forget"]


class UnusualArgumentError(Exception):
    """The call has an argument of which no answer is held."""


class AnswerKey(NamedTuple):
    """What a means is asked about a call, and all that its answer depends on.

    Floats, which may be others at every step, are no part of the key: the last ones stand beside.
    """

    key: Hashable
    floats: list[float]

    @staticmethod
    def of(schema: OpSchema, means: str, state: tuple[object, ...]) -> AnswerKey:
        """The key of a call.

        Args:
            schema: The call.
            means: Whose answer it is.
            state: What of the program's settings the answer depends on.

        Raises:
            UnusualArgumentError: not one that answers are held of.
            TypeError: a size that is an expression, which to compare would be a guard.
        """
        floats: list[float] = []
        args = _key(schema.args_schema, floats)
        kwargs = _key(tuple(schema.kwargs_schema.items()), floats)
        return AnswerKey((means, id(schema.op), state, args, kwargs), floats)


# Arguments that kernels take as they are. Not among them: devices, layouts that are not strided,
# generators, sizes that are expressions.
_NUMBERS = frozenset({bool, int, complex})
_PLAIN = frozenset({str, type(None), torch.dtype, torch.memory_format})

# Kernels in Python take up to milliseconds. torch holds their answers as well, but by placements.
_known: BoundedMap[tuple[list[float], OutputMeta]] = BoundedMap("metadata", 2048)


def forget() -> None:
    """Forget all answers."""
    _known.clear()


def answer(
    by: AnswerKey, compute: Callable[[OpSchema], OutputMeta], schema: OpSchema
) -> OutputMeta:
    """What is held, else what is computed; an error is held of nothing."""
    known = _known.get(by.key)
    if known is None or known[0] != by.floats:
        known = by.floats, compute(schema)
        _known.put(by.key, known)
    meta = known[1]
    return [*meta] if isinstance(meta, list) else meta


def _key(item: Any, floats: list[float]) -> Hashable:
    """Equal for arguments of which a kernel sees the same; floats are added to `floats` instead."""
    kind = type(item)
    if kind is DTensorSpec:
        meta: TensorMeta | None = item.tensor_meta
        hash(meta)
        return meta, item.mesh.device_type
    if kind is float:
        floats.append(item)
        return float
    if kind in _NUMBERS:
        return kind, item  # 1, 1.0 and True are equal
    if kind is list or kind is tuple:
        return kind, tuple([_key(x, floats) for x in item])
    if kind in _PLAIN or item is torch.strided:
        return item  # type: ignore[no-any-return]
    raise UnusualArgumentError(f"an argument of type {kind}")
