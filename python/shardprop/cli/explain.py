"""The command `shardprop explain`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ShardpropError
from ..support.console import console_for_tables
from .common import AsJson, print_json
from .policy import PolicyOption, TopologyOption, chosen_policy

if TYPE_CHECKING:
    from .._torch import OpOverload

__all__ = ["explain"]


def explain(
    op: Annotated[str, typer.Argument(help="Such as mm, add.Tensor, aten.mm.default, mylib::op.")],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARG]...", help="See above.", show_default=False),
    ] = None,
    mesh: Annotated[
        str, typer.Option(metavar="NxN", help="Sizes of the mesh dims.", show_default=False)
    ] = "",
    mesh_dims: Annotated[
        str | None, typer.Option(metavar="dp,tp", help="Names of the mesh dims.")
    ] = None,
    policy: PolicyOption = "torch",
    topology: TopologyOption = None,
    module: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Python file to import: it defines ops, or rules."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the candidates by cost as SVG."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why one op is sharded as it is, which operand forces which collective, and what would
    avoid it.

    Nothing is run: no GPU and no other process is needed. ARGs are those of the op. A tensor is
    written dtype[shape]@placements, with one placement for each mesh dim: `R`, `S(0)`, `P` or
    `P(max)` (a pending reduction), `_S(0,2)` (a strided shard of dim 0, split factor 2);
    `S(0)[1],S(0)[0]` says which mesh dim cuts first. Without @ it is replicated. dtypes are f32,
    bf16, i64 and so on, or torch's names. Other arguments are Python literals, a list of tensors is
    `[f32[4]@R, f32[4]@P]`, keyword arguments are name=value. Quote what the shell would read.

    Examples:

    - `shardprop explain mm 'f32[512,1024]@S(0),R' 'f32[1024,64]@R,S(0)' --mesh 2x4`
    - `shardprop explain softmax.int 'bf16[8,512]@S(1)' -1 --mesh 8`
    - `shardprop explain mm 'f32[64,64]@P,R' 'f32[64,64]@R,S(1)' --mesh 2x4 --mesh-dims dp,tp
      --policy optimal --topology h100-nvlink --json`

    Exit codes:

    - 0: it is explained
    - 1: the op has no decision on these operands; why not is printed
    - 2: the request makes no sense: an unknown op, an argument that cannot be read
    """
    from ..inspection.explanation import explain as explain_decision
    from ..verification.files import import_file
    from .notation import arguments
    from .ranks import fake_mesh, fake_ranks, mesh_names, mesh_sizes

    for text in (op, *(args or ())):
        if text.startswith("--"):  # -1 is an argument, so typer passes on what it does not know
            raise ShardpropError(f"Expected an option that there is, got {text!r}. Try --help.")
    if not mesh:
        raise ShardpropError("--mesh: Expected sizes such as 2x4, got none.")
    sizes = mesh_sizes(mesh)
    names = mesh_names(mesh_dims, len(sizes))
    if module is not None:
        import_file(module)
    with fake_ranks(math.prod(sizes)), chosen_policy(policy, topology):
        positional, named = arguments(args or (), fake_mesh(sizes, names))
        found = explain_decision(_overload(op, positional, named), *positional, **named)
        if plot is not None:
            _draw(found, plot)
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(found.text(width=min(console_for_tables().width, 120)))
    raise typer.Exit(1 if found.error is not None else 0)


def _overload(name: str, args: list[Any], kwargs: dict[str, Any]) -> OpOverload:
    """The one op of that name that takes such arguments; of several the default one.

    Raises:
        ShardpropError: there is none, or it cannot be told which.
    """
    from ..verification.names import ops_named
    from .fitting import fits

    named = ops_named([name])
    if len(named) == 1:
        return named[0]
    fitting = [op for op in named if fits(op, args, kwargs)]
    if len(fitting) > 1:
        fitting = [op for op in fitting if str(op).endswith(".default")] or fitting
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(map(str, fitting or named))
    raise ShardpropError(
        f"Expected an op that takes these {len(args) + len(kwargs)} arguments, got {name!r}, which "
        f"may be {names}. Name one of them."
    )


def _draw(found: Any, file: Path) -> None:
    """Save the picture of the candidates.

    Raises:
        ShardpropError: the file cannot be written, or is no SVG.
    """
    try:
        found.plot().save(file)
    except OSError as error:
        raise ShardpropError(f"--plot: Expected a file that can be written, got {error}.") from None
