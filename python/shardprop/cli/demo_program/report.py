"""What the demo prints, as text for people and as values for --json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ...support.stats import Stats
from .compare import Comparison, Difference
from .gloo import TOLERANCE, GlooReport
from .settings import Settings
from .train import Training

_SHOWN_DIFFERENCES = 5


def training_lines(settings: Settings, training: Training, stats: Stats) -> Iterator[str]:
    """The plain demo: where the first step's time went and who decided."""
    first, later = training.steps[0], training.steps[1:]
    yield f"{headline(settings)}; fake backend, this process is rank 0 of {settings.mesh.ranks}"
    yield f"first step          {first.total:.3f} s"
    yield f"  in propagation    {first.propagation:.3f} s for {first.decisions} decisions"
    if later:
        mean = sum(step.total for step in later) / len(later)
        decisions = sum(step.decisions for step in later)
        yield f"later steps         {mean:.3f} s each, {decisions} new decisions"
    yield f"made by the core    {stats.decisions} in all steps"
    yield f"delegated           {_counted(stats.delegated)}"
    yield f"fell back           {_counted(stats.fallbacks)}"
    yield f"strided operands    {stats.strided_operands}, {stats.strided_fallbacks} fell back"
    yield f"caches              {stats.cache_bytes / 1024:.0f} KiB"
    losses = ", ".join(f"{loss:.3f}" for loss in training.losses)
    yield f"fake losses         {losses}: they mean nothing, since the fake backend moves no data;"
    yield "                    --gloo 4 checks losses and gradients on real processes"


def comparison_lines(settings: Settings, result: Comparison) -> Iterator[str]:
    """torch alone against shardprop."""
    agreement = result.agreement
    yield f"{headline(settings)}; fake backend, {settings.steps} steps, caches cold"
    for name, run in (("torch alone", result.torch), ("shardprop", result.shardprop)):
        yield (
            f"{name:<12}  {run.propagation:.4f} s in propagation, {run.decisions} decisions, "
            f"first step {run.steps[0].total:.3f} s"
        )
    yield f"ratio         torch spent {result.ratio:.0f} times as long in propagation"
    order = "the same" if agreement.same_order else "differs, so paired by question"
    yield f"order         {order}"
    yield f"equal         {agreement.equal}"
    if cleared := agreement.equal_once_cleared:
        yield f"              and {cleared} equal once torch's planner history is cleared"
    yield f"different     {len(agreement.different)}"
    for difference in agreement.different[:_SHOWN_DIFFERENCES]:
        yield from _difference_lines(difference)
    yield "All decisions are equal." if agreement.all_equal else "Decisions differ."


def gloo_lines(settings: Settings, report: GlooReport) -> Iterator[str]:
    """Real processes against one device."""
    losses = ", ".join(f"{loss:.6f}" for loss in report.losses)
    processes = f"{settings.mesh.ranks} processes, gloo, float64, {report.seconds:.1f} s"
    yield f"{headline(settings)}; {processes}"
    yield f"losses              {losses} nats per token"
    yield f"made by the core    {report.decisions} on rank 0"
    yield f"delegated           {_counted(report.delegated)}"
    yield f"fell back           {_counted(report.fallbacks)}"
    yield f"strided operands    {report.strided_operands}, {report.strided_fallbacks} fell back"
    yield f"loss difference     {report.loss_difference:.2e} nats, tolerance {TOLERANCE:.0e}"
    yield (
        f"gradient difference {report.gradient_difference:.2e} of the largest element, "
        f"tolerance {TOLERANCE:.0e} (worst: {report.worst_gradient})"
    )
    verdict = "equal" if report.equal else "NOT equal"
    yield f"Losses and gradients are {verdict} to the model on a single device."


def training_values(settings: Settings, training: Training, stats: Stats) -> dict[str, object]:
    """`training_lines` as JSON values; times in seconds."""
    steps = [asdict(step) for step in training.steps]
    losses = list(training.losses)
    return {**_setup(settings), "steps": steps, "stats": asdict(stats), "fake_losses": losses}


def comparison_values(settings: Settings, result: Comparison) -> dict[str, object]:
    """`comparison_lines` as JSON values; times in seconds."""
    agreement = result.agreement
    return {
        **_setup(settings),
        "torch": {"steps": [asdict(step) for step in result.torch.steps]},
        "shardprop": {"steps": [asdict(step) for step in result.shardprop.steps]},
        "ratio": result.ratio,
        "all_equal": agreement.all_equal,
        "same_order": agreement.same_order,
        "equal": agreement.equal,
        "equal_once_torch_history_is_cleared": agreement.equal_once_cleared,
        "different": [asdict(difference) for difference in agreement.different],
    }


def gloo_values(settings: Settings, report: GlooReport) -> dict[str, object]:
    """`gloo_lines` as JSON values; differences as `GlooReport` defines them."""
    return {**_setup(settings), **asdict(report), "tolerance": TOLERANCE, "equal": report.equal}


def headline(settings: Settings) -> str:
    """The mesh and the model in a few words."""
    size = settings.model
    return (
        f"mesh {settings.mesh} ({', '.join(settings.mesh.names)}), {size.layers} blocks of "
        f"dim {size.dim}, batch {size.batch} x {size.seq} tokens"
    )


def _setup(settings: Settings) -> dict[str, object]:
    return {"mesh": list(settings.mesh.sizes), "model": asdict(settings.model)}


def _counted(reasons: dict[str, int]) -> str:
    """A total with its reasons, most frequent first."""
    if not reasons:
        return "0"
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return f"{sum(reasons.values())}: " + ", ".join(f"{reason} {n}" for reason, n in ranked)


def _difference_lines(difference: Difference) -> Iterator[str]:
    yield f"  asked      {difference.question}"
    yield f"  shardprop  {difference.shardprop}"
    yield f"  torch      {difference.torch}"
