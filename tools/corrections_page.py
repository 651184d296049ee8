"""Writes docs/corrections.md from the corrections of the package.

python -m tools.corrections_page > docs/corrections.md
"""

from __future__ import annotations

import sys

from tools.refused_ops import recorded
from tools.torch_faults import PAGE, anchor_of

from shardprop.corrections.by_op import CORRECTIONS
from shardprop.corrections.correction import CallCorrection, Correction

_HEAD = """# Where torch's decisions are put right

With `shardprop.enable()` every decision and every plan is torch's, save where that silently gives
wrong values (the ranks together do not hold what the op gives on whole tensors, in value or
gradient, and nothing raises), or leaves ranks waiting for one that raises. Each such fault of torch
is an object in `python/shardprop/corrections/`, with a predicate of the calls that it may concern:
these are decided among the strategies that hold, and where torch's choice is one of them it is
made. `stats().corrections` counts such decisions and redistributions, by name;
`propagate(...).route.why`
and `explain` say it of one decision. Which lines of a program need one, `shardprop audit SCRIPT`
says ([cli.md](cli.md#shardprop-audit)), and `trace().corrections`; `shardprop doctor` says which
ones the installed torch makes needless.

`shardprop.enable(corrections=False)` decides as torch does, bit for bit, with its faults and its
refusals.

[torch-faults](torch-faults/index.md) has a script for each fault that shows it by torch alone, what
in torch it comes from, and in which versions it is seen; the names below lead there.

| fault | where | torch | shardprop | ends with |
|---|---|---|---|---|
"""

_REFUSED = """
## What torch refuses and shardprop decides

torch refuses an op without a rule if its decomposition calls a factory (`zeros`, `arange`), or
comes apart only outside of a DTensor call. Where a trace for the shapes that each rank holds
makes the same calls with the same numbers, shardprop decides it: the backward of hardswish and
logsigmoid are such ops. An op that draws random numbers there stays refused.
`propagate(...).refused_by_torch` tells. Of torch's own samples, on four layouts each, it refuses
calls of these ops (`tools/refused_ops.py`), and shardprop decides them:

"""

_TAIL = """
## What is no fault

`fill_` of a pending sum stays pending, as torch's own tests have it: every rank writes the
number, and what they hold is added up later. Whoever wants the number itself redistributes to
`Replicate()` before, or calls `zero_`.

`item()`, `float()` and `bool()` of a pending tensor (`loss.item()`, the norm that
`clip_grad_norm_` returns) read the part that a rank holds, as torch means it: to reduce it first
would leave ranks waiting where one alone prints it. shardprop warns, and names the way out,
`full_tensor()`. An op of torch's that reads a number out (`one_hot` without `num_classes`) takes
each rank's own, too.

## What is not put right yet

Other single-dim rules of torch are used as they are ([torch-rules.md](torch-rules.md) lists what
is wrong with them). Plans of symbolic sizes are torch's own. A mean loss whose targets are
ignored by default (-100), spread unevenly, is wrong in a way that depends on values.
"""


def page() -> str:
    """The text of docs/corrections.md."""
    return _HEAD + "".join(map(_row, CORRECTIONS)) + _REFUSED + _refused_ops() + _TAIL


def _refused_ops() -> str:
    """A line for the ops of each set of versions."""
    versions: dict[str, list[str]] = {}
    for version, ops in recorded().items():
        for op in ops:
            versions.setdefault(op, []).append(version)
    lines: dict[str, list[str]] = {}
    for op in sorted(versions):
        lines.setdefault(" and ".join(versions[op]), []).append(f"`{op}`")
    return "".join(f"- torch {those}: {', '.join(lines[those])}\n" for those in sorted(lines))


def _row(correction: Correction) -> str:
    where = correction.where
    if isinstance(correction, CallCorrection):
        where = "<br>".join([*(f"`{op}`" for op in correction.ops), *filter(None, [where])])
    return (
        f"| [{correction.name}]({_shown_at(correction)}) | {where} | {correction.fault} "
        f"| {correction.right} | {correction.ends} |\n"
    )


def _shown_at(correction: Correction) -> str:
    return f"{PAGE.parent.name}/{PAGE.name}#{anchor_of(correction)}"


if __name__ == "__main__":
    sys.stdout.write(page())
