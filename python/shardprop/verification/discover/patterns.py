"""How the dims of a tensor may be named in a rule, and which dim gets which name in a call."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .observation import Observation

__all__ = ["WHOLE", "Item", "Pattern", "Role", "place", "usable_patterns"]

_MOST_NAMES = 5  # names without "..." in one tensor
_MOST_BESIDE_REST = 2  # names beside "..."
_MOST_ARGUMENTS = 2  # names with "@" or "#" in one tensor


@dataclass(frozen=True)
class Item:
    """One word of a tensor's term.

    Attributes:
        kind: ``"name"``, ``"rest"`` (``...``), ``"one"`` (``1``), ``"whole"`` (``_``).
        key: Tells the items of one pattern apart.
        place: ``"@dim"`` or ``"#dim"`` for the dims that an argument names or counts.
    """

    kind: Literal["name", "rest", "one", "whole"]
    key: str = ""
    place: str = ""

    @property
    def tokens(self) -> int:
        """How much there is to read."""
        return 1 + bool(self.place)


@dataclass(frozen=True)
class Pattern:
    """The words of a tensor's term.

    Attributes:
        items: The words in order.
        kept: The argument whose dims, being contracted, stay as dims of size 1 if the op's argument
            `keepdim` is true.
    """

    items: tuple[Item, ...]
    kept: str = ""

    @property
    def tokens(self) -> int:
        """How much there is to read."""
        return sum(item.tokens for item in self.items)


# Which item a dim of a tensor belongs to, and which of its dims it is: those of "..." are counted
# from the right, since they are aligned there.
Role = tuple[Item, int]

WHOLE = Pattern((Item("whole"),))
_REST = Item("rest")
_KEPT = Item("one", "kept")


def place(pattern: Pattern, seen: Observation, slot: int) -> list[Role] | None:
    """The role of each dim of a slot; None where the pattern does not fit."""
    ndim = seen.ndim(slot)
    if ndim is None:
        return None
    if pattern == WHOLE:
        return [(pattern.items[0], at) for at in range(ndim)]
    roles: list[Role | None] = [None] * ndim
    named = [(item, item.place[1:]) for item in pattern.items if item.place.startswith("@")]
    if pattern.kept and seen.arguments.get("keepdim"):
        named.append((_KEPT, pattern.kept))
    for item, argument in named:
        dims = named_dims(seen.arguments.get(argument), ndim)
        if dims is None:
            return None
        for number, dim in enumerate(dims):
            if roles[dim] is not None:
                return None
            roles[dim] = (item, number)
    rest = _fill(pattern, seen, roles.count(None), slot < seen.operands)
    if rest is None:
        return None
    return [role if role is not None else next(rest) for role in roles]


def _fill(pattern: Pattern, seen: Observation, free: int, operand: bool) -> Iterator[Role] | None:
    """The roles of the dims that no argument names, from the left."""
    words: list[Role] = []
    rest_at: int | None = None
    for item in pattern.items:
        if item.kind == "rest":
            rest_at = len(words)
        elif item.place.startswith("#"):
            count = counted_dims(seen.arguments.get(item.place[1:]))
            if count is None:
                return None
            words += [(item, number) for number in range(count)]
        elif not item.place:
            words.append((item, 0))
    missing = free - len(words)
    if rest_at is not None:
        if missing < 0:
            return None
        rest: list[Role] = [(_REST, missing - 1 - number) for number in range(missing)]
        return iter(words[:rest_at] + rest + words[rest_at:])
    plain = not any(item.place for item in pattern.items)
    if missing == 0 or (missing < 0 and plain and operand):
        return iter(words[-missing:])  # an operand that is broadcast may lack the first dims
    return None


def named_dims(value: Any, ndim: int) -> list[int] | None:
    """The dims that an argument names, counted from the start; None if they are no dims."""
    values = [value] if _is_int(value) else value
    if values is None or (isinstance(values, (list, tuple)) and not values):
        return list(range(ndim))
    if not isinstance(values, (list, tuple)) or not all(map(_is_int, values)):
        return None
    if ndim == 0:
        return [] if set(values) <= {0, -1} else None
    if not all(-ndim <= dim < ndim for dim in values):
        return None
    dims = [dim % ndim for dim in values]
    return dims if len(set(dims)) == len(dims) else None


def counted_dims(value: Any) -> int | None:
    """How many dims an argument speaks of: its elements, or itself."""
    if _is_int(value):
        return int(value) if value >= 0 else None
    return len(value) if isinstance(value, (list, tuple)) and all(map(_is_int, value)) else None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def usable_patterns(
    slot: int, observations: Sequence[Observation]
) -> list[tuple[Pattern, list[list[Role] | None]]]:
    """The patterns that fit a slot in every call, each with the roles of its dims there."""
    fitting: list[tuple[Pattern, list[list[Role] | None]]] = []
    for pattern in sorted(set(_patterns(slot, observations)), key=lambda p: (p.tokens, str(p))):
        roles = [place(pattern, seen, slot) for seen in observations]
        given = [seen.ndim(slot) is not None for seen in observations]
        fits = all((found is not None) is here for found, here in zip(roles, given, strict=True))
        ones_are_ones = all(
            seen.sizes(slot, dim) == {1}
            for seen, found in zip(observations, roles, strict=True)
            for dim, (item, _) in enumerate(found or ())
            if item.kind == "one"
        )
        if fits and ones_are_ones:
            fitting.append((pattern, roles))
    return fitting


def _patterns(slot: int, observations: Sequence[Observation]) -> Iterator[Pattern]:
    present = [seen for seen in observations if seen.ndim(slot) is not None]
    if not present:
        yield Pattern(())
        return
    is_output = slot >= present[0].operands
    yield WHOLE
    most = max(seen.ndim(slot) or 0 for seen in present)
    if most <= _MOST_NAMES:
        yield from _with_ones(tuple(Item("name", str(at)) for at in range(most)))
    names = range(_MOST_BESIDE_REST + 1)
    for before, after in itertools.product(names, names):
        if before + after > _MOST_BESIDE_REST:
            continue
        left = tuple(Item("name", str(at)) for at in range(before))
        right = tuple(Item("name", str(at - after)) for at in range(after))
        yield from _with_ones((*left, _REST, *right))
    places = list(_places(observations[0].arguments, observations))
    for count in range(1, _MOST_ARGUMENTS + 1):
        for chosen in itertools.permutations(places, count):
            if len({p[1:] for p in chosen}) == count:
                marked = tuple(Item("name", p, p) for p in chosen)
                for words in ((_REST, *marked), (_REST, *marked, Item("name", "-1")), marked):
                    yield from _with_ones(words)
    if is_output and "keepdim" in present[0].arguments:
        for at in places:
            if at.startswith("@"):
                yield Pattern((_REST,), at[1:])
                yield Pattern((), at[1:])


def _with_ones(words: tuple[Item, ...]) -> Iterator[Pattern]:
    """A pattern, and the same with a dim of size 1 for one of its names."""
    yield Pattern(words)
    for at, word in enumerate(words):
        if word.kind == "name":
            one = Item("one", word.key, word.place)
            yield Pattern((*words[:at], one, *words[at + 1 :]))


def _places(arguments: Mapping[str, Any], observations: Iterable[Observation]) -> Iterator[str]:
    """The arguments that may name dims or count them."""
    for name in arguments:
        values = [seen.arguments.get(name) for seen in observations]
        lists = any(isinstance(value, (list, tuple)) for value in values)
        if not any(_is_int(value) or counted_dims(value) for value in values):
            continue
        if all(v is None or _is_int(v) or counted_dims(v) is not None for v in values):
            yield f"@{name}"
            if lists or all(counted_dims(v) is not None for v in values):
                yield f"#{name}"
