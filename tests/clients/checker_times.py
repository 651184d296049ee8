"""What spmd_types' global checker takes in torchtitan's models: a forward of one layer, with the
embedding before it and the head after it, by DTensor alone or with shardprop.

    python -m tests.clients.checker_times MODEL FLAVOR [--enable]

On a fake group of 2 x 2 ranks; milliseconds of this thread's processor time, of the later runs the
least of ten. torchtitan 0.3.0 runs with spmd_types 0.2.3 here.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.distributed as dist

import shardprop

from .torchtitan_models import LENGTH, Built, built

LATER_RUNS = 10


class Times(NamedTuple):
    """Of one forward.

    Attributes:
        all_ms: With everything.
        asked_ms: In questions to DTensor.
        questions: How many these were.
    """

    all_ms: float
    asked_ms: float
    questions: int


@contextmanager
def questions_timed() -> Iterator[list[float]]:
    """How long each question takes, in milliseconds."""
    checker: Any = importlib.import_module("spmd_types._checker")
    asked: list[float] = []
    propagate = checker._ShardPropagator.propagate

    def timed(*args: Any, **kwargs: Any) -> Any:
        begun = time.thread_time()
        try:
            return propagate(*args, **kwargs)
        finally:
            asked.append(1e3 * (time.thread_time() - begun))

    with mock.patch.object(checker._ShardPropagator, "propagate", timed):
        yield asked


def forward(made: Built) -> Times:
    """One forward under the checker."""
    from torchtitan.distributed import utils as dist_utils
    from torchtitan.distributed.spmd_types import annotate_input_spmd_types

    ids = torch.randint(made.vocabulary, (2, LENGTH))
    labels = ids.clone()
    positions = {"positions": torch.arange(LENGTH).repeat(2, 1)}
    context = dist_utils.get_spmd_context(parallel_dims=made.dims, spmd_typechecking=True)
    with context(), questions_timed() as asked:
        inputs, _, more = annotate_input_spmd_types(made.dims, ids, labels, positions)
        begun = time.thread_time()
        made.module(inputs, **more)
        return Times(1e3 * (time.thread_time() - begun), sum(asked), len(asked))


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("flavor")
    parser.add_argument("--enable", action="store_true", help="with shardprop")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=4)
    degrees = {"tensor_parallel_degree": 2, "data_parallel_shard_degree": 2}
    if "moe" in given.flavor:
        degrees["expert_parallel_degree"] = 2
    with shardprop.enabled() if given.enable else nullcontext():
        made = built(given.model, given.flavor, "spmd_types", layers=1, **degrees)
        first, later = forward(made), min(forward(made) for _ in range(LATER_RUNS))
    for name, times in (("first", first), ("later", later)):
        print(
            f"{name}: {times.all_ms:.1f} ms, of it {times.asked_ms:.1f} in {times.questions} "
            "questions"
        )


if __name__ == "__main__":
    main()
