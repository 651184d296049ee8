"""Reasons in words."""

from __future__ import annotations

from .consistency import coefficients_by_node, domains_after
from .constraints import Row
from .items import Item, Items, Limits

__all__ = ["sentence"]

# How many reasons a message lists.
_LISTED = 12


def sentence(items: Items, reasons: Limits, minimal: bool) -> str:
    """The message of an `InfeasibleError`."""
    told = "; ".join(_told(items, item, reasons) for item in reasons[:_LISTED])
    if len(reasons) > _LISTED:
        told += f"; and {len(reasons) - _LISTED} more"
    nodes = {node for item in reasons for node in item.nodes()}
    if len(nodes) == 1 and not any(isinstance(item.limit, Row) for item in reasons):
        name = items.problem.nodes[nodes.pop()].name
        return f"node {name!r}: Expected a label that is left, got none: {told}."
    if len(reasons) == 1:
        return f"Expected labels that meet all constraints, got one that none can meet: {told}."
    smallest = "any of which could be dropped" if minimal else "perhaps not the fewest"
    return (
        f"Expected labels that meet all constraints, got {len(reasons)} that cannot be met together"
        f" ({smallest}): {told}."
    )


def _told(items: Items, item: Item, reasons: Limits) -> str:
    text = item.text(items.problem.nodes)
    if not isinstance(item.limit, Row):
        return text
    low, high = _reach(items, item.limit, [other for other in reasons if other is not item])
    return f"{text}, where the labels left give {low:.10g} to {high:.10g}"


def _reach(items: Items, row: Row, others: Limits) -> tuple[float, float]:
    """The least and greatest sum of a row with the labels that the other reasons leave."""
    domains = domains_after(items, others)
    for node in row.nodes():
        domains.setdefault(node, items.problem.left[node] | True)
    low = high = 0.0
    for node, factors in coefficients_by_node(row, domains).items():
        left = factors[domains[node]] if domains[node].any() else factors
        low, high = low + float(left.min()), high + float(left.max())
    return low, high
