"""What the extension was built from."""

from __future__ import annotations

from typing import TypedDict, cast

from .. import _core

__all__ = ["BuildConfig", "build_config"]


class BuildConfig(TypedDict):
    """How the extension was built.

    Keys:
        version: Of shardprop; empty if it was built by CMake alone.
        build_type: CMake's, such as ``Release``.
        assertions: Are they compiled in?
        compiler: Name and version.
        cxx_standard: ``__cplusplus``, such as 202002.
        pybind11: Its version.
        python: The version of the headers.
        free_threaded: Built for a Python without a GIL?
    """

    version: str
    build_type: str
    assertions: bool
    compiler: str
    cxx_standard: int
    pybind11: str
    python: str
    free_threaded: bool


def build_config() -> BuildConfig:
    """What the extension was built from, and how. Of torch it takes nothing: one build serves all
    supported versions."""
    return cast(BuildConfig, _core.build_config())
