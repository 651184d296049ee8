"""What differs between the supported versions of torch, read from what the installed one has.

The place for a private name that torch moves, renames or gives another signature. Example:
``compile_on_one_rank`` stood in ``torch.distributed.config``, and stands in
``torch.compiler.config`` since torch 2.15. `compiler_settings` below gives the module that has it,
and the file of its theme, ``compiling.py``, calls that and knows no version.

To adapt a function that was renamed:

1. Find where it is named: private names of torch stand in ``_torch/`` only, most of them in
   one file.
2. Add a function or constant here that picks the name which the installed torch has, by `hasattr`
   on torch or by `IS_215_OR_LATER`, and say in its docstring which version changed what.
3. Have the file of the theme use it. Its own functions keep their names and signatures, so nothing
   outside of ``_torch/`` changes. (Where versions decide otherwise, not only under other names,
   the code that decides asks `IS_215_OR_LATER`.)
4. Run the tests on both ends of the supported versions. When the older version goes, so does the
   function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import _redistribute
from torch.distributed.tensor._op_schema import OpSchema

# torch 2.15: a plain shard may become Partial(sum) by zero fill, outputs that are absent in every
# row stay absent in the all-Replicate row, list outputs keep their container, the mesh is looked
# for in keyword arguments too.
IS_215_OR_LATER = hasattr(
    _redistribute.DTensorRedistributePlanner, "_get_shard_to_partial_target_states"
)


def compiler_settings() -> Any:
    """Where ``compile_on_one_rank`` is: in the compiler's settings, before torch 2.15 in those of
    ``torch.distributed``."""
    return torch.compiler.config if IS_215_OR_LATER else torch.distributed.config


def args_with_mesh(schema: OpSchema) -> tuple[Any, ...]:
    """The arguments among which torch looks for an op's mesh: keyword ones since torch 2.15."""
    args: tuple[Any, ...] = schema.args_schema
    return (*args, *schema.kwargs_schema.values()) if IS_215_OR_LATER else args
