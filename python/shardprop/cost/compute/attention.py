"""Operations of attention: two products of matrices forward, five backward.

queries [..., s_q, d], keys [..., s_k, d], values [..., s_k, d_v]; keys and values may have fewer
heads, which does not make the products fewer.
"""

from __future__ import annotations

from math import prod

from .call import Call

__all__ = ["all_pairs_flops", "backward_flops", "forward_flops"]


def forward_flops(call: Call) -> int:
    """Scores (2 d for each pair of a query and a key) and what they weigh (2 d_v)."""
    return _pairs(call, causal=bool(call.values.get("is_causal"))) * _forward_of_a_pair(call)


def all_pairs_flops(call: Call) -> int:
    """The same where the causal mask saves nothing."""
    return _pairs(call, causal=False) * _forward_of_a_pair(call)


def backward_flops(call: Call) -> int:
    """The scores once more, and the gradients of queries and keys (2 d each for a pair), of the
    scores and of the values (2 d_v each)."""
    depth, value_depth = _depths(call)
    pairs = _pairs(call, causal=bool(call.values.get("is_causal")))
    return pairs * 2 * (3 * depth + 2 * value_depth)


def _forward_of_a_pair(call: Call) -> int:
    return 2 * sum(_depths(call))


def _depths(call: Call) -> tuple[int, int]:
    return call.tensor("query").shape[-1], call.tensor("value").shape[-1]


def _pairs(call: Call, *, causal: bool) -> int:
    """Of a query and a key that it attends to, over all heads. Kernels pass over what a causal mask
    hides (query i sees keys 0 to i), up to the edges of their blocks, which are not counted."""
    query, key = call.tensor("query").shape, call.tensor("key").shape
    queries, keys = query[-2], key[-2]
    seen = queries * keys
    if causal:
        short = min(queries, keys)
        seen = short * (short + 1) // 2 + (queries - short) * keys
    return prod(query[:-2]) * seen
