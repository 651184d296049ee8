"""From the factors of all calls to the shortest rule that explains them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .evidence import Evidence
from .factors import Shown
from .linking import Fit, Linker, fits_of
from .marks import Marks, marks_of, unexplained, universal_rows
from .patterns import WHOLE, Item
from .render import length, render
from .rows import Row, cuts
from .rule import Name, Roles, Rule
from .slots import Signature

__all__ = ["Proposal", "propose"]

_MOST_COMBINATIONS = 3000
_REST = Item("rest")


@dataclass(frozen=True)
class Proposal:
    """A rule with what it explains.

    Attributes:
        rule: The rule.
        text: The rule in the notation.
        explained: Factors of the calls that it has rows for.
    """

    rule: Rule
    text: str
    explained: int

    @property
    def order(self) -> tuple[int, int, int, bool, str]:
        """The best comes first: what explains most, then the shortest."""
        return (-self.explained, *length(self.text))


def propose(evidence: Evidence) -> list[Proposal]:
    """Rules that claim nothing that failed, the best first."""
    observations = evidence.observations
    signature = evidence.signature
    shown = [Shown(seen) for seen in observations]
    plain = universal_rows(observations)
    found: dict[str, Proposal] = {}
    lists = {at for at, slot in enumerate(signature.operands) if slot.is_list}
    for marks in marks_of(plain, observations, lists):
        left = unexplained(plain, marks, len(signature.operands), len(signature.outputs))
        for combination in combinations(shown, len(signature.slots)):
            proposal = _sound(combination, marks, left, shown, signature)
            if proposal is not None:
                held = found.setdefault(proposal.text, proposal)
                if held.explained < proposal.explained:
                    found[proposal.text] = proposal
    return sorted(found.values(), key=lambda proposal: proposal.order)


def combinations(shown: Sequence[Shown], slots: int) -> Iterator[tuple[Fit, ...]]:
    """Patterns for all slots: first those that no call contradicts, else any."""
    strict = [fits_of(slot, shown, strict=True) for slot in range(slots)]
    linker = Linker(shown)
    count = 0
    for combination in linker.compatible(strict):
        yield combination
        count += 1
        if count == _MOST_COMBINATIONS:
            return
    if count:
        return
    loose = [fits_of(slot, shown, strict=False) for slot in range(slots)]
    everything = sorted(
        itertools.islice(itertools.product(*loose), 20 * _MOST_COMBINATIONS),
        key=lambda fits: sum(fit.pattern.tokens for fit in fits),
    )
    yield from everything[:_MOST_COMBINATIONS]


def _sound(
    fits: tuple[Fit, ...],
    marks: Marks,
    written: Sequence[Row],
    shown: Sequence[Shown],
    signature: Signature,
) -> Proposal | None:
    """The rule of these patterns, names that some call refutes staying whole."""
    if any(marks.of(fit.slot) and fit.pattern == WHOLE for fit in fits):
        return None
    operands = len(signature.operands)
    if _REST in _items(fits[operands:]) and _REST not in _items(fits[:operands]):
        return None
    names = Linker(shown).names(fits)
    if names is None:
        return None
    rule = Rule(
        tuple(fit.pattern for fit in fits),
        names,
        len(signature.operands),
        marks,
        tuple(written),
    )
    roles = [tuple(fit.roles[at] for fit in fits) for at in range(len(shown))]
    while (refuted := _refuted(rule, shown, roles)) is not None:
        rule = replace(
            rule, names=tuple(_weaker(name) if name == refuted else name for name in rule.names)
        )
    return Proposal(rule, render(rule, signature), _explained(rule, shown, roles))


def _items(fits: Sequence[Fit]) -> set[Item]:
    return {item for fit in fits for item in fit.items}


def _weaker(name: Name) -> Name:
    """A name that claims less: of equal shards only, then nothing."""
    if not name.even:
        return replace(name, even=True)
    return replace(name, whole=True, reduce=None, even=False)


def _refuted(rule: Rule, shown: Sequence[Shown], roles: Sequence[Roles]) -> Name | None:
    """A name that claims a row that does not hold."""
    for one, here in zip(shown, roles, strict=True):
        for name, row in rule.factor_rows(one.seen, here):
            if one.seen.holds(row) is False:
                return name
    return None


def _explained(rule: Rule, shown: Sequence[Shown], roles: Sequence[Roles]) -> int:
    return sum(
        len({row for row in rule.rows(one.seen, here) if cuts(row)} & one.seen.rows)
        for one, here in zip(shown, roles, strict=True)
    )
