"""What a compiler (Dynamo, make_fx) may be doing around a decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._C._dynamo import eval_frame as _eval_frame
from torch._guards import detect_fake_mode
from torch.distributed import _functional_collectives as _collectives

from .version import compiler_settings

are_we_tracing: Callable[[], bool] = _collectives._are_we_tracing


def plans_for_any_rank() -> bool:
    """Is one rank tracing for all of them, with its place in the mesh left open?"""
    if not are_we_tracing():
        return False
    return bool(compiler_settings().compile_on_one_rank)


def may_be_symbolic() -> bool:
    """Is somebody's fake mode around, where sizes may be symbols and tensors have real values?"""
    return are_we_tracing() or detect_fake_mode() is not None


def hide_from_dynamo(function: Callable[..., Any]) -> None:
    """Let Dynamo compile neither `function` nor what it calls.

    After a graph break, DTensor's ops run eagerly inside a frame that is being compiled. Dynamo
    passes over torch's own files then; ours it would try to compile, a tenth of a second each.
    """
    skip = _eval_frame._FrameAction.SKIP
    strategy = _eval_frame._FrameExecStrategy(skip, skip)
    _eval_frame.set_code_exec_strategy(function.__code__, strategy)
