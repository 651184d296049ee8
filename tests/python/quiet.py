"""Silences what torch prints for calls that are meant to fail."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

_NOISY = (
    "torch._subclasses.fake_tensor",  # a traceback for each call a fake kernel refuses
    "torch.distributed.tensor._redistribute",
    "torch.__trace",  # a line for each size that tracing tells
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _NOISY]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
