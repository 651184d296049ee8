"""torch, Python and the extension: are they made for one another?"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata

import torch

from ... import _torch
from ...support.build_info import BuildConfig, build_config
from ...version import __version__
from .finding import Finding, note, ok, problem

__all__ = ["extension", "installation", "python", "torch_version"]

# As pyproject.toml has them; a test compares.
TORCH_FROM = (2, 13)
PYTHON_FROM = (3, 10)


def torch_version() -> Iterator[Finding]:
    """Is torch one of the versions that shardprop is tested with?"""
    found, known = torch.__version__, f"{_torch.KNOWN[0]} to {_torch.KNOWN[-1]}"
    if _torch.is_known():
        yield ok("torch", found)
    elif _release(found) < TORCH_FROM:
        yield problem(
            "torch",
            f"{found}, and supported is {known}: decisions may differ from torch's",
            f"pip install 'torch>={_torch.KNOWN[0]}'",
        )
    else:
        yield note(
            "torch",
            f"{found}; shardprop is tested with {known}",
            "enable() has looked at its private functions and compared decisions",
        )


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def python() -> Iterator[Finding]:
    """Is Python one of the supported versions, and what about its lock?"""
    found = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info < PYTHON_FROM:
        least = ".".join(map(str, PYTHON_FROM))
        yield problem("python", found, f"run it on Python {least} or later")
    elif build_config()["free_threaded"] and _has_lock():
        yield note(
            "python",
            f"{found}, free-threaded, and its lock is on",
            "an extension module that was imported needs the lock, or PYTHON_GIL=1 is set; "
            "shardprop's does not need it",
        )
    else:
        yield ok("python", found)


def _has_lock() -> bool:
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def extension() -> Iterator[Finding]:
    """Was the extension built for this interpreter, from these sources, and to be fast?"""
    config = build_config()
    text = f"{_build_text(config)}, {config['compiler']}, pybind11 {config['pybind11']}"
    headers = _release(config["python"])
    if headers != sys.version_info[:2]:
        yield problem(
            "extension",
            f"built for Python {config['python']}: {text}",
            "install shardprop again with this interpreter",
        )
    elif config["version"] not in ("", __version__):
        yield problem(
            "extension",
            f"of shardprop {config['version']} beside Python files of {__version__}: {text}",
            "install shardprop again; an old build was left behind",
        )
    elif config["build_type"] not in ("Release", "RelWithDebInfo", "MinSizeRel"):
        yield note(
            "extension",
            f"not built to be fast: {text}",
            "build it with CMAKE_BUILD_TYPE=Release, which pip does by itself",
        )
    else:
        yield ok("extension", text)


def _build_text(config: BuildConfig) -> str:
    checks = " with assertions" if config["assertions"] else ""
    return f"{config['build_type'] or 'no build type'}{checks}"


def installation() -> Iterator[Finding]:
    """Is what is imported what pip has installed?"""
    try:
        installed = metadata.version("shardprop")
    except metadata.PackageNotFoundError:
        yield note("shardprop", f"{__version__}, imported from a folder that pip knows nothing of")
        return
    if installed == __version__:
        yield ok("shardprop", __version__)
    else:
        yield problem(
            "shardprop",
            f"{__version__} is imported, and pip has installed {installed}",
            "look for another shardprop on sys.path (PYTHONPATH?)",
        )
