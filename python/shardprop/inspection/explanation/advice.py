"""What would have avoided a redistribution, each proposal put to the core again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..._torch import (
    DTensorSpec,
    Partial,
    Placement,
    Replicate,
    Shard,
    StridedShard,
    has_strided,
    make_spec,
)
from ...model.placements import Placements
from ...model.question import Choice, strided_flag
from ...propagation.answer import moves
from ..words import dim_names
from .asking import ExplainedQuestion
from .model import Advice, Candidate
from .words import place_as, us_text

__all__ = ["advice_for"]

_MOST_PER_OPERAND = 3
# Placements of one operand that are put to the core: of one that moves, and of one that stays.
_MOST_TRIED = 32
_MOST_TRIED_OF_STAYING = 8
# What a proposal has to leave of the price at most: less is not worth a change.
_MOST_LEFT = 0.9
# What an operand is called that a program lays out once and for all.
_PARAMETERS = ("weight", "bias", "mat2", "other", "running_mean", "running_var")


def advice_for(
    asked: ExplainedQuestion, choice: Choice, candidates: Sequence[Candidate]
) -> tuple[Advice, ...]:
    """Other placements of one operand, under which an op that costs something costs less.

    That may be an operand which does not move itself: a weight that lies so that the activations
    have to. Operands that look like parameters come first; of one operand, what saves the most, and
    of such what changes the fewest mesh dims.
    """
    if not choice.cost > 0:
        return ()
    operands = list(range(asked.question.positional))
    operands.sort(key=lambda index: (not _is_parameter(asked.names[index]), index))
    found: list[Advice] = []
    for operand in operands:
        if asked.operands[operand].mesh == choice.mesh:
            found += _for_operand(asked, choice, operand, candidates)
    return tuple(found)


def _is_parameter(name: str) -> bool:
    return name.partition("[")[0] in _PARAMETERS


class _Found(NamedTuple):
    """A proposal that saves something: sorted, the best first."""

    us: float
    changed: int
    strided: bool
    moves_something: bool
    placements: Placements
    text: str

    def makes_needless(self, other: _Found, spec: DTensorSpec) -> bool:
        """Does it save as much by a part of what the other changes?"""
        part = all(
            mine in (now, its)
            for now, mine, its in zip(
                spec.placements, self.placements, other.placements, strict=True
            )
        )
        return part and self.us <= other.us and self.moves_something <= other.moves_something


def _for_operand(
    asked: ExplainedQuestion, choice: Choice, operand: int, candidates: Sequence[Candidate]
) -> list[Advice]:
    spec, name = asked.operands[operand], asked.names[operand]
    proposals = _follow_proposals if asked.follows else _row_proposals
    seen: set[Placements] = {tuple(spec.placements)}
    tried: list[_Found | None] = []
    most = _MOST_TRIED if choice.operand_costs[operand] > 0 else _MOST_TRIED_OF_STAYING
    for placements in proposals(spec, operand, candidates):
        if len(tried) == most:
            break
        if placements not in seen and _can_be_meant(spec, placements):
            seen.add(placements)
            tried.append(_tried(asked, choice, operand, placements))
    found = sorted((each for each in tried if each is not None), key=lambda each: each[:4])
    needed = [
        each
        for place, each in enumerate(found)
        if not any(other.makes_needless(each, spec) for other in found[:place])
    ]
    return [
        Advice(name, each.placements, each.text, each.us, choice.cost - each.us)
        for each in needed[:_MOST_PER_OPERAND]
    ]


def _tried(
    asked: ExplainedQuestion, choice: Choice, operand: int, placements: Placements
) -> _Found | None:
    """The proposal put to the core; None if it saves too little."""
    spec, operands = asked.operands[operand], [*asked.operands]
    flag = strided_flag(operands) is not False
    operands[operand] = make_spec(spec.mesh, placements, spec.tensor_meta, flag)
    other = asked.choose_with(operand, operands[operand])
    if other is None or not other.cost < _MOST_LEFT * choice.cost:
        return None
    positional = operands[: asked.question.positional]
    moved = any(moves(each, other, index) for index, each in enumerate(positional))
    text = _text(asked.names[operand], spec, placements, other.cost, choice.cost, moved)
    changed = sum(a != b for a, b in zip(spec.placements, placements, strict=True))
    return _Found(other.cost, changed, has_strided(placements), moved, placements, text)


def _row_proposals(
    spec: DTensorSpec, operand: int, candidates: Sequence[Candidate]
) -> Iterator[Placements]:
    """What candidates want of it, first those that ask little of the others."""

    def of_others(candidate: Candidate) -> float:
        return sum(us for index, us in enumerate(candidate.operand_us) if index != operand)

    for candidate in sorted(candidates, key=of_others):
        yield candidate.operands[operand]


def _follow_proposals(
    spec: DTensorSpec, operand: int, candidates: Sequence[Candidate]
) -> Iterator[Placements]:
    """What the winner wants, and every plain layout on the mesh dims that it changes."""
    wanted = candidates[0].operands[operand]
    yield wanted
    plain: list[Placement] = [*map(Shard, range(len(spec.shape))), Replicate()]
    choices = [
        [now] if now == then else plain for now, then in zip(spec.placements, wanted, strict=True)
    ]
    yield from itertools.product(*choices)


def _can_be_meant(spec: DTensorSpec, placements: Placements) -> bool:
    """Could a program lay the tensor out so? It cannot make a partial of it, nor cut a dim into
    more pieces than it has elements."""
    pieces: dict[int, int] = {}
    for mesh_dim, (now, then) in enumerate(zip(spec.placements, placements, strict=True)):
        if isinstance(then, Partial) and now != then:
            return False
        if isinstance(then, (Shard, StridedShard)):
            if then.dim >= len(spec.shape):
                return False
            pieces[then.dim] = pieces.get(then.dim, 1) * spec.mesh.size(mesh_dim)
            if pieces[then.dim] > spec.shape[then.dim]:
                return False
    return True


def _text(
    name: str, spec: DTensorSpec, placements: Placements, us: float, now_us: float, moved: bool
) -> str:
    pairs = zip(dim_names(spec.mesh), spec.placements, placements, strict=True)
    what = place_as({dim: wanted for dim, now, wanted in pairs if now != wanted}, name)
    cost = f"costs {us_text(us) if us else 'nothing'}" if moved or us else "moves nothing"
    saved = "" if math.isinf(now_us) else f" (saves {us_text(now_us - us)})"
    return f"{what}: the op then {cost}{saved}"
