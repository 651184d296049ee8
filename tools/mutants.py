"""Random mutants of the decision path and of plans, and whether the tests notice them.

    pip install -e '.[test,dev]' cosmic-ray pytest-cov
    python tools/mutants.py --sample 200 --seed 1 --write mutants.json
    python tools/mutants.py --again mutants.json --slow      # survivors, against the slow tests

cosmic-ray makes each mutant in a copy of the last commit; there the tests run that execute its
line, by contexts of a run under coverage, until one fails. A mutant that is killed has its tests
run once more without it: they have to pass. Ends with 1 where fewer than 90 % of the mutants are
killed. Not drawn are mutants that hardly anything can notice: of annotations, of decorators (most
of them caches), of a class's bases, and `is` for `==`.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import MutationSpec
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("python/shardprop")
DRAWN_FROM = ("model", "rules", "redistribution", "propagation", "planning/strategies")
# Rules of single ops: parity with torch is their test.
LEFT_OUT = "families"
LEAST_KILLED = 0.9
_SAME = ("Is_Eq", "Eq_Is", "IsNot_NotEq", "NotEq_IsNot")


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: Relative to the checkout.
        line: Counted from 1.
        operator: cosmic-ray's name of the change.
        occurrence: Which of the places in the file where the operator applies.
    """

    file: str
    line: int
    operator: str
    occurrence: int

    def spec(self) -> MutationSpec:
        """As cosmic-ray takes it; it finds the place by the occurrence alone."""
        where = (self.line, 0), (self.line, 1)
        return MutationSpec(Path(self.file), self.operator, self.occurrence, *where)


@dataclass(frozen=True)
class Verdict:
    """What the tests said: ``killed``, ``timeout``, ``survived``, or ``no test`` executes it.
    ``unsound`` is a kill that says nothing: the test fails without the mutant, too."""

    mutant: Mutant
    outcome: str
    tests: int
    diff: str


class Tests:
    """Which tests execute a line, from a run of theirs under coverage."""

    def __init__(self, recorded: Path) -> None:
        self._recorded = CoverageData(str(recorded))
        self._recorded.read()

    @cached_property
    def _files(self) -> dict[str, str]:
        names = self._recorded.measured_files()
        return {name[name.index(str(PACKAGE)) :]: name for name in names}

    def of(self, mutant: Mutant) -> list[str]:
        """Node ids; of all tests for a line that runs at import."""
        if mutant.file not in self._files:
            return []
        lines = self._recorded.contexts_by_lineno(self._files[mutant.file])
        contexts = set(lines.get(mutant.line, ()))
        if "" in contexts:
            contexts = self._recorded.measured_contexts()
        # "file::test|run"; a file that mirrors the mutated one comes first.
        tests = {context.rpartition("|")[0] for context in contexts} - {""}
        near = mutant.file.removeprefix(f"{PACKAGE}/").partition("/")[0]
        return sorted(tests, key=lambda test: (f"/{near}/" not in test, test))


def main() -> int:
    """Draw, test and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, help="survivors of this file instead of a sample")
    parser.add_argument("--slow", action="store_true", help="run the slow tests, not the fast")
    parser.add_argument("--coverage", type=Path, help="contexts of an earlier run of these tests")
    parser.add_argument("--write", type=Path, help="where the verdicts go, as JSON")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a mutant")
    options = parser.parse_args()
    mutants = _survivors(options.again) if options.again else _sample(options.sample, options.seed)
    with ExitStack() as stack:
        copies = [stack.enter_context(_copy()) for _ in range(options.workers)]
        recorded = options.coverage or _recorded(copies[0], slow=options.slow)
        verdicts = _verdicts(mutants, Tests(recorded), copies, options.timeout)
    if options.write:
        options.write.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    return _report(verdicts)


def _sample(size: int, seed: int) -> list[Mutant]:
    """At most one mutant of a place, all places equally likely."""
    places: defaultdict[tuple[str, tuple[int, int]], list[Mutant]] = defaultdict(list)
    for folder in DRAWN_FROM:
        for file in sorted((ROOT / PACKAGE / folder).rglob("*.py")):
            if LEFT_OUT not in file.parts:
                for place, mutant in _mutants(file):
                    places[mutant.file, place].append(mutant)
    draw = random.Random(seed)
    return [draw.choice(places[place]) for place in draw.sample(sorted(places), size)]


def _mutants(file: Path) -> Iterator[tuple[tuple[int, int], Mutant]]:
    """All of a file that something could notice, with the line and column of each."""
    unseen = _unseen(file)
    nodes = list(ast_nodes(get_ast_from_path(file)))
    for name in cosmic_ray.plugins.operator_names():
        operator_class = cosmic_ray.plugins.get_operator(name)
        if operator_class.arguments() or name.endswith(_SAME):
            continue
        operator = operator_class()
        found = (place for node in nodes for place, _ in operator.mutation_positions(node))
        for occurrence, place in enumerate(found):
            if not any(begin <= place < end for begin, end in unseen):
                relative = file.relative_to(ROOT).as_posix()
                yield place, Mutant(relative, place[0], name, occurrence)


def _unseen(file: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Begin and end of annotations, decorators and bases."""
    parts: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.AnnAssign, ast.arg)):
            parts.append(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts += [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            parts += [*node.decorator_list, *node.bases]
    return [
        ((part.lineno, part.col_offset - 1), (part.end_lineno or 0, part.end_col_offset or 0))
        for part in parts
        if part is not None
    ]


def _survivors(file: Path) -> list[Mutant]:
    read = json.loads(file.read_text())
    return [Mutant(**v["mutant"]) for v in read if v["outcome"] in ("survived", "no test")]


@contextmanager
def _copy() -> Iterator[Path]:
    """A checkout of the last commit that has the compiled core of this one."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    git = ("git", "-C", str(ROOT), "worktree")
    subprocess.run([*git, "add", "--quiet", "--force", "--detach", str(folder)], check=True)
    try:
        core = importlib.util.find_spec("shardprop._core")
        if core is None or core.origin is None:
            raise SystemExit("Expected an environment in which shardprop is installed, got none.")
        shutil.copy(core.origin, folder / PACKAGE)
        # An installation for editing comes before PYTHONPATH.
        (folder / "python" / "sitecustomize.py").write_text(_WITHOUT_EDITABLE)
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


_WITHOUT_EDITABLE = """\
import sys

sys.meta_path[:] = [x for x in sys.meta_path if type(x).__name__ != "ScikitBuildRedirectingFinder"]
"""


def _recorded(copy: Path, *, slow: bool) -> Path:
    """Coverage of the tests by test; all of them pass."""
    covered = [f"--cov={PACKAGE / folder}" for folder in DRAWN_FROM]
    marks = "slow" if slow else "not slow"
    options = ["-m", marks, "-n", "auto", *covered, "--cov-context=test", "--cov-report="]
    _enter(copy)
    subprocess.run([sys.executable, "-m", "pytest", "-q", *options], check=True, cwd=copy)
    recorded = copy / ".coverage"
    if not recorded.exists():
        raise SystemExit(f"The tests did not run the package in {copy}.")
    return recorded


def _enter(copy: Path) -> None:
    """Let this process and those it begins import the package of a copy."""
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy / "python")
    os.environ["OMP_NUM_THREADS"] = "1"


def _verdicts(
    mutants: Sequence[Mutant], tests: Tests, copies: Sequence[Path], timeout: float
) -> list[Verdict]:
    """A process for each copy, the mutants shared among them."""
    context = get_context("spawn")
    free = context.Queue()
    for copy in copies:
        free.put(copy)
    with ProcessPoolExecutor(len(copies), context, _take, (free,)) as pool:
        tried = [pool.submit(_try, mutant, tests.of(mutant), timeout) for mutant in mutants]
        for count, done in enumerate(as_completed(tried), start=1):
            verdict = done.result()
            where = f"{verdict.mutant.file}:{verdict.mutant.line}"
            print(f"{count}/{len(tried)} {verdict.outcome} {where}", flush=True)
        return [verdict.result() for verdict in tried]


def _take(free: Queue[Path]) -> None:
    _enter(free.get())


def _try(mutant: Mutant, tests: list[str], timeout: float) -> Verdict:
    """Run the tests of a mutant in this process's copy."""
    listed = Path(tempfile.mkdtemp(), "tests.txt")
    listed.write_text("\n".join(tests))
    command = f"{sys.executable} -m pytest -q -x -rfE -p no:cacheprovider -p no:xdist -o addopts="
    # Without a test the change is made all the same, to show it.
    with_tests = f"{command} @{listed}" if tests else "true"
    result = mutate_and_test([mutant.spec()], with_tests, timeout)
    shutil.rmtree(listed.parent)
    if result.test_outcome is None:
        raise RuntimeError(f"{mutant} was not made: {result.output}")
    outcome = "timeout" if result.output == "timeout" else result.test_outcome.value
    if outcome == "killed" and not _passes(command, result.output or ""):
        outcome = "unsound"
    return Verdict(mutant, outcome if tests else "no test", len(tests), result.diff or "")


def _passes(command: str, output: str) -> bool:
    """Does the file of the test that failed pass now that the mutant is gone? (One that cannot be
    imported with the mutant is named by its file.)"""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?\.py)", output, re.MULTILINE)
    if failed is None:
        return False
    alone = f"{command} {failed[1]}"
    return subprocess.run(alone.split(), capture_output=True, check=False).returncode == 0


def _report(verdicts: Sequence[Verdict]) -> int:
    """Print survivors and counts."""
    for verdict in verdicts:
        if verdict.outcome not in ("killed", "timeout"):
            print(f"\n{verdict.outcome} ({verdict.tests} tests)\n{verdict.diff}")
    counts = Counter(verdict.outcome for verdict in verdicts)
    noticed = counts["killed"] + counts["timeout"]
    print(f"\n{noticed} of {len(verdicts)} killed: {dict(counts)}")
    return 0 if noticed >= LEAST_KILLED * len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
