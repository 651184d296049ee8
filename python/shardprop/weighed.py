"""The outputs of an op whose later price counts with its decision."""

from __future__ import annotations

from collections.abc import Sequence

from ._torch import DTensorSpec, TensorMeta
from .engine import Prepared
from .errors import ShardpropError
from .model.question import Question
from .model.spec_checks import check_consumers

__all__ = ["WeighedOutput", "weighed_outputs"]

# Shape, bytes of an element, and what its consumer wants: None for the nearest without a partial.
WeighedOutput = tuple[Sequence[int], int, DTensorSpec | None]


def weighed_outputs(
    question: Question, prepared: Prepared, consumers: Sequence[DTensorSpec | None] | None
) -> list[WeighedOutput] | None:
    """Each output with what its consumer wants; `consumers` is None where they are not known.

    None where some output is absent, or the op's metadata does not tell the outputs apart.

    Raises:
        ShardpropError: `consumers` are given and do not fit the outputs, or these cannot be told
            apart.
    """
    meta = question.meta
    metas = [meta] if isinstance(meta, TensorMeta) else list(meta or ())
    present = [each for each in metas if each is not None]
    if len(metas) != prepared.outputs or len(present) != len(metas):
        if consumers is None:
            return None
        raise ShardpropError(
            f"{question.op}: Expected an op all of whose {prepared.outputs} outputs are there, to "
            f"weigh what their consumers want, got {len(present)} with metadata."
        )
    if consumers is None:
        wanted: Sequence[DTensorSpec | None] = [None] * len(present)
    else:
        check_consumers(question.op, consumers, prepared.mesh, [each.shape for each in present])
        wanted = consumers
    return [
        (tuple(each.shape), each.dtype.itemsize, spec)
        for each, spec in zip(present, wanted, strict=True)
    ]
