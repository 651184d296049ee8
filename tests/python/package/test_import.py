"""What ``import shardprop`` and ``enable()`` load, how long they take, and when they may be called.

A fork at each import of a module of torch shows what ``enable()`` does there: with the modules
that are half imported at that very moment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shardprop

PACKAGE = Path(shardprop.__file__).parent
# Every n-th module of torch is tried; SHARDPROP_EVERY_IMPORT=1 tries all, in some minutes.
EVERY = int(os.environ.get("SHARDPROP_EVERY_IMPORT", "60"))
# Of the CPU time that importing torch's DTensor takes, since machines differ and others may be at
# work on this one. 50 ms are aimed at, some 0.04.
MOST_OF_TORCHS = 0.1


def run(program: str, *args: object) -> Any:
    """What a program prints last, as JSON."""
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    held = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:shardprop", "-c", program, *map(str, args)],
        env={**held, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


LOADED = """
import gc, json, sys, time
start = time.process_time()
import torch, torch.distributed.tensor
torchs = time.process_time() - start
before = set(sys.modules)
# torch's import leaves 250,000 objects. Python goes through them all once more when so many are
# new, and that is torch's to pay: under Python 3.12 it fell among ours (120 of 170 ms).
gc.collect()
start = time.process_time()
import shardprop
shardprop.enable()
ours = time.process_time() - start
print(json.dumps([sorted(set(sys.modules) - before), ours, torchs]))
"""


@pytest.mark.slow
def test_enable_loads_nothing_that_dtensor_does_not() -> None:
    shares = []
    for _ in range(3):
        loaded, ours, torchs = run(LOADED)
        assert [name for name in loaded if name.partition(".")[0] != "shardprop"] == []
        shares.append(ours / torchs)
        print(f"import and enable(): {1e3 * ours:.1f} ms of CPU, torch {1e3 * torchs:.0f} ms")
    assert not {f"shardprop.{name}" for name in ("exact", "topology", "full_mesh")} & set(loaded)
    assert min(shares) < MOST_OF_TORCHS


def test_import_alone_loads_no_torch() -> None:
    assert (
        run(
            "import json, sys, shardprop; print(json.dumps([m for m in sys.modules if m in "
            "('torch', 'numpy', 'shardprop._core')]))"
        )
        == []
    )


@pytest.mark.slow
def test_every_public_name_is_there_after_any_other() -> None:
    program = """
import importlib, json, sys, types
import shardprop
names = shardprop.__all__ if sys.argv[1] == "up" else shardprop.__all__[::-1]
got = {name: getattr(shardprop, name) for name in names}
modules = [n for n, v in got.items() if isinstance(v, types.ModuleType)]
for name in names:
    assert getattr(shardprop, name) is got[name], name
assert set(names) <= set(dir(shardprop))
print(json.dumps(modules))
"""
    for order in ("up", "down"):
        assert run(program, order) == ["graph"]


def test_a_name_that_is_none_is_refused() -> None:
    misspelt = "enabel"
    with pytest.raises(AttributeError, match="module 'shardprop' has no attribute 'enabel'"):
        getattr(shardprop, misspelt)


def test_no_module_has_the_name_of_another_public_thing() -> None:
    """Its import would put it in the place of that."""
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert modules & set(shardprop.__all__) == {"graph"}


# In the child: 0 enabled, 3 did nothing, 4 enabled and torch is broken, else an error.
SWEEP = """
import collections, json, logging, os, sys, traceback, warnings
every, goes_on, shardprop_first = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "first"
warnings.simplefilter("ignore")
if shardprop_first:
    import shardprop
failed, statuses, seen = [], collections.Counter(), 0

OP = '''
import torch, torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
x = distribute_tensor(torch.ones(8, 8), init_device_mesh("cpu", (4,)), [Shard(0)])
assert (x + x).placements == (Shard(0),)
import shardprop
shardprop.enable()
assert shardprop.is_enabled()
shardprop.reset_stats()
assert (x + x).placements == (Shard(0),) and shardprop.stats().decisions == 1
'''

class Line(logging.Handler):
    def emit(self, record):
        lines.append((record.levelname, record.getMessage()))

lines = []
logging.getLogger("shardprop").setLevel(logging.INFO)
logging.getLogger("shardprop").addHandler(Line())
in_child = False

def child(name):
    global in_child
    in_child = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            import shardprop
            shardprop.enable()
        found = sys.modules.get("shardprop.propagation.propagator")
        if found is not None and found.is_enabled():
            return 0
        return 3 if [level for level, _ in lines] == ["INFO"] else 5
    except BaseException:
        traceback.print_exc()
        return 1

class Hook:
    def find_spec(self, name, path=None, target=None):
        global seen
        if in_child or name.partition(".")[0] != "torch":
            return None
        seen += 1
        if seen % every and name not in ("torch", "torch.distributed.tensor"):
            return None
        sys.stdout.flush(); sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            status = child(name)
            if status in (0, 3) and goes_on and seen % goes_on == 0:
                return None  # and the import goes on; see the end
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        statuses[status] += 1
        if status not in (0, 3):
            failed.append((name, status))
        return None

sys.meta_path.insert(0, Hook())
try:
    import torch
    import torch.distributed.tensor
    import torch.distributed.fsdp
    import torch._dynamo
    if in_child:
        exec(OP)
        os._exit(0)
except BaseException:
    if in_child:
        traceback.print_exc()
        os._exit(4)
    raise
print(json.dumps([failed, statuses, seen]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("order", ["first", "within"])
def test_enable_works_or_does_nothing_at_any_point_of_torchs_import(order: str) -> None:
    goes_on = max(20 * EVERY, 100)
    failed, statuses, seen = run(SWEEP, EVERY, goes_on, order)
    print(f"{seen} imports, {statuses}")
    assert failed == []
    assert seen > 500
    assert set(statuses) == {"0", "3"}, "early it does nothing, and late it works"
