"""The whole comparison: `python -m tests.python.metadata.run [--op OP] [--samples 24]`.

Every op that torch's sample inputs call, or that the validator knows calls of, in every context,
each call also in other layouts and dtypes. Exits with 1 if an answer differs, or if an admitted op
was not compared in all of the contexts that admit it. `--write-samples` keeps one call of each op
for CI.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console

from shardprop.metadata.admitted import ADMITTED
from shardprop.metadata.classes import means_for

from ..parity.meshes import ensure_process_group
from ..parity.opinfo_recorder import RecordedCall
from ..parity.recorded import library
from ..parity.registry import find_op
from ..quiet import quiet
from .calls import variants
from .compare import by_meta_tensors, ours, same, torchs, without_cuda
from .contexts import CONTEXTS, EVERYWHERE, Context
from .detours import runs_for_real
from .devices import device_looked_at
from .samples import faults, write
from .written_calls import written_calls

__all__ = ["Report", "main"]


@dataclass
class Report:
    """What was compared, and where the answers differ."""

    compared: int = 0
    by_meta_tensors: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    candidates: dict[str, bool] = field(default_factory=dict)

    def compare(self, call: RecordedCall, context: Context) -> None:
        """One call in one context: what users get, and what meta tensors would say of the op."""
        self.compared += 1
        expected = torchs(call, context)
        with device_looked_at() as looked:
            direct = by_meta_tensors(call, context)
        unchanged = (
            "autocast" not in context.name or not means_for(find_op(call.op)).autocast_matters
        )
        answered = direct.error is None and unchanged
        answer = ours(call, context)
        # A closed form answers for CUDA where a torch that was built without it cannot.
        if not same(answer, expected) and not without_cuda(expected):
            self.differences.append(f"{call} ({context.name})\n  {expected}\n  ours: {answer}")
        if not answered or without_cuda(expected):
            return
        fine = same(direct, expected) and not looked
        self.candidates[call.op] = self.candidates.get(call.op, True) and fine
        self.by_meta_tensors[call.op, context.name] += fine

    def not_compared(self, ops: set[str]) -> list[str]:
        """Admitted ops of which meta tensors answered for no call in one of the contexts."""
        contexts = {name for _, name in self.by_meta_tensors} & {c.name for c in EVERYWHERE}
        return sorted(
            f"{op} ({context})"
            for op in ADMITTED & ops
            for context in contexts
            if not self.by_meta_tensors[op, context]
        )


def main() -> int:
    options = _parse()
    console = Console(width=160, soft_wrap=True)
    ensure_process_group()
    by_op: dict[str, list[RecordedCall]] = {}
    for call in library().calls:
        by_op.setdefault(call.op, []).append(call)
    for call in list(written_calls(by_op)):
        by_op.setdefault(call.op, []).append(call)
    if options.op is not None:
        by_op = {op: calls for op, calls in by_op.items() if op == options.op}
    if options.write_samples:
        write(by_op)
        return 0
    started, report = time.monotonic(), Report()
    with quiet():
        for calls in by_op.values():
            calls.sort(key=faults)
        for done, calls in enumerate(by_op.values()):
            _compare_op(report, calls[: options.samples], options.variants)
            if done % 200 == 0:
                console.print(f"{done} of {len(by_op)} ops, {report.compared} comparisons")
    for difference in report.differences[:40]:
        console.print(difference, markup=False, highlight=False)
    missing = report.not_compared(set(by_op))
    console.print(
        f"{report.compared} comparisons of {len(by_op)} ops in {time.monotonic() - started:.0f} s: "
        f"{len(report.differences)} differences; admitted and not compared: {missing}"
    )
    more = [op for op, fine in report.candidates.items() if fine and op not in ADMITTED]
    console.print(f"{len(more)} ops agree and are not admitted: {' '.join(sorted(more))}")
    return 1 if report.differences or missing else 0


def _compare_op(report: Report, calls: list[RecordedCall], varied: int) -> None:
    if runs_for_real(find_op(calls[0].op)):
        varied = 0
    for number, call in enumerate(calls):
        for context in CONTEXTS if number < varied else EVERYWHERE:
            report.compare(call, context)
        for variant in list(variants(call))[1:] if number < varied else ():
            for context in EVERYWHERE:
                report.compare(variant, context)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", help='one op only, e.g. "aten.add.Tensor"')
    parser.add_argument("--samples", type=int, default=24, help="calls of each op")
    parser.add_argument("--variants", type=int, default=3, help="of which varied, in all contexts")
    parser.add_argument("--write-samples", action="store_true", help="write samples.txt instead")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
