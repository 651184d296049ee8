"""What would have avoided a redistribution, each proposal put to the core again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from .._torch import DTensorSpec, Partial, Placement, Replicate, Shard, StridedShard
from ..engine import Choice, strided_flag
from ..kinds import has_strided
from ..outputs import moves
from ..specs import make_spec
from .asking import Asked
from .model import Advice, Candidate, Placements
from .words import dim_names, listed, placed_on, us_text

__all__ = ["advice_for"]

_MOST_PER_OPERAND = 3
# Placements of one operand that are put to the core.
_MOST_TRIED = 32
# What an operand is called that a program lays out once and for all.
_PARAMETERS = ("weight", "bias", "mat2", "other", "running_mean", "running_var")


def advice_for(
    asked: Asked, choice: Choice, candidates: Sequence[Candidate]
) -> tuple[Advice, ...]:
    """Other placements of each operand that costs something, under which the op costs less.

    Operands that look like parameters come first; of one operand, what saves the most, and of such
    what changes the fewest mesh dims.
    """
    prices = choice.operand_costs[: asked.question.positional]
    dear = [index for index, price in enumerate(prices) if price > 0]
    dear.sort(key=lambda index: (not _is_parameter(asked.names[index]), index))
    found: list[Advice] = []
    for operand in dear:
        if asked.operands[operand].mesh == choice.mesh:
            found += _for_operand(asked, choice, operand, candidates)
    return tuple(found)


def _is_parameter(name: str) -> bool:
    return name.partition("[")[0] in _PARAMETERS


def _for_operand(
    asked: Asked, choice: Choice, operand: int, candidates: Sequence[Candidate]
) -> list[Advice]:
    spec = asked.operands[operand]
    maker_flag = strided_flag(asked.operands)
    proposals = _follow_proposals if asked.follows else _row_proposals
    positional = asked.question.positional
    found: list[tuple[float, int, bool, Advice]] = []
    seen: set[Placements] = {tuple(spec.placements)}
    for placements in itertools.islice(proposals(spec, operand, candidates), _MOST_TRIED):
        if placements in seen or not _can_be_meant(spec, placements):
            continue
        seen.add(placements)
        there = make_spec(spec.mesh, placements, spec.tensor_meta, maker_flag is not False)
        other = asked.choose_with(operand, there)
        if other is None or not other.cost < choice.cost:
            continue
        us = other.cost
        operands = [*asked.operands]
        operands[operand] = there
        still = not any(moves(each, other, i) for i, each in enumerate(operands[:positional]))
        text = _text(asked.names[operand], spec, placements, (us, still), choice.cost - us)
        changed = sum(a != b for a, b in zip(spec.placements, placements, strict=True))
        advice = Advice(asked.names[operand], placements, text, us, choice.cost - us)
        found.append((us, changed, has_strided(placements), advice))
    found.sort(key=lambda each: each[:3])
    return [advice for *_, advice in found[:_MOST_PER_OPERAND]]


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
        [now] if now == then else plain
        for now, then in zip(spec.placements, wanted, strict=True)
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
    name: str, spec: DTensorSpec, placements: Placements, then: tuple[float, bool], saves: float
) -> str:
    dims = dim_names(spec.mesh)
    changed = [m for m, now in enumerate(spec.placements) if now != placements[m]]
    subjects = [f"`{name}`", *["it"] * (len(changed) - 1)]
    what = listed(
        [
            placed_on(placements[mesh_dim], subject, dims[mesh_dim])
            for mesh_dim, subject in zip(changed, subjects, strict=True)
        ]
    )
    us, still = then
    cost = "moves nothing" if still else f"costs {us_text(us) if us else 'nothing'}"
    saved = "" if math.isinf(saves) else f" (saves {us_text(saves)})"
    return f"{what}: the op then {cost}{saved}"
