"""torch's database of sample inputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def opinfos(sizes: Mapping[str, int]) -> Iterator[list[Any]]:
    """torch's database of sample inputs; `sizes` stand for the constants S, M, L of its modules.

    Imported here, for it takes a second.
    """
    from torch.testing._internal import common_methods_invocations as database

    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    infos = [*database.op_db]
    infos += [info for kind in kinds for info in getattr(database, f"foreach_{kind}_op_db")]
    modules = [m for name, m in sys.modules.items() if name.startswith("torch.testing._internal")]
    before = [
        (vars(module), name, vars(module)[name])
        for module in modules
        for name in sizes
        if isinstance(vars(module).get(name), int)
    ]
    for constants, name, _ in before:
        constants[name] = sizes[name]
    try:
        yield infos
    finally:
        for constants, name, size in before:
            constants[name] = size
