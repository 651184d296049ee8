"""What is shown of a calibration."""

from __future__ import annotations

import sys

from ...cost.calibration import Calibration, Fitted
from ...support.console import console_for_tables, table
from ..common import print_json
from .request import Request

__all__ = ["publish"]


def publish(found: Calibration, request: Request) -> None:
    """Print it, and then write the topology if a file is asked for: what is measured is seen.

    Raises:
        OSError: the file cannot be written.
    """
    if request.as_json:
        print_json(found.to_json())
    else:
        _print(found, request.names)
    if request.output is not None:
        found.topology.save(request.output)
        print(f"Written to {request.output}", file=sys.stderr)


def _print(found: Calibration, names: tuple[str, ...] | None) -> None:
    console = console_for_tables()
    console.print(f"{found.topology.name}: {', '.join(found.topology.sources)}", markup=False)
    headings = ("mesh dims", "what", "ranks", "fixed us", "GB/s", "median error", "worst error")
    rows = [_cells(one, names) for one in found.fitted]
    console.print(table(headings, rows, right=range(2, len(headings))))
    console.print(
        "Error: |predicted - measured| / measured, over the sizes. Fixed: at no bytes, the "
        "launch included.",
        markup=False,
    )
    compute = found.topology.compute
    assert compute is not None  # it is measured
    rates = ", ".join(f"{name} {rate:g}" for name, rate in compute.peak_tflops.items())
    console.print(f"Products of matrices, TFLOP/s: {rates}", markup=False)


def _cells(one: Fitted, names: tuple[str, ...] | None) -> tuple[str, ...]:
    fit = one.fit
    return (
        ", ".join(names[dim] if names else str(dim) for dim in one.mesh_dims) or "local",
        one.what,
        str(one.ranks),
        f"{fit.fixed_us:.1f}",
        f"{1e-3 / fit.us_per_byte:.3f}" if fit.us_per_byte else "not seen",
        f"{fit.median_error:.0%}",
        f"{fit.max_error:.0%}",
    )
