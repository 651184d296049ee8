"""Nested arguments, flattened the way torch flattens a schema."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch.distributed.tensor import _op_schema

# The one that torch flattens schemas with: it has two, and they order dicts differently.
tree_leaves: Callable[[Any], list[Any]] = vars(_op_schema)["tree_leaves"]
_pytree = sys.modules[tree_leaves.__module__]
tree_flatten: Callable[[Any], tuple[list[Any], Any]] = _pytree.tree_flatten
tree_map: Callable[[Callable[[Any], Any], Any], Any] = _pytree.tree_map
tree_unflatten: Callable[[list[Any], Any], Any] = _pytree.tree_unflatten
