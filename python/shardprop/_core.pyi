"""The compiled core. Private: use the shardprop package."""

from collections.abc import Callable, Sequence
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Unsupported(Exception): ...
class RuleError(ValueError): ...

# A cost model that cannot be meant, or a price that is none.
class CostError(ValueError): ...

# Its args: message, position in the text, term, element of a list; each of the last three or None.
class NotationError(ValueError): ...

# Names, in the order of the core's numbers for them. Steps of plans begin with the collectives.
COLLECTIVES: tuple[str, ...]
STEPS: tuple[str, ...]
REDUCE_OPS: tuple[str, ...]
DTYPES: tuple[str, ...]
MEMORY_FORMATS: tuple[str, ...]

# What came of a search.
class Verdict(IntEnum):
    FOUND = 0
    NO_STRATEGY = 1
    NO_IN_PLACE_STRATEGY = 2
    UNREACHABLE = 3
    TOO_LARGE = 4

# What torch does differently for an op and its rule.
class Option(IntFlag):
    IN_PLACE = 1
    ALLOW_UNEVEN = 2
    PREFERS_NO_REDISTRIBUTE = 4
    FORCE_GRAPH = 8
    KEEP_ABSENT = 16
    ALWAYS_SHARDS = 32
    ASK_KINDS = 64

# What came of torch's own planning.
class PlanStatus(IntEnum):
    FOUND = 0
    UNREACHABLE = 1
    NOT_DECODABLE = 2

# What an argument may be.
class ValueKind(IntFlag):
    NONE = 1
    TENSOR = 2
    TENSORS = 4
    BOOL = 8
    INT = 16
    FLOAT = 32
    INTS = 64
    DTYPE = 128
    FORMAT = 256
    LAYOUT = 512
    DEVICE = 1024
    TEXT = 2048
    SCALARS = 4096
    FALSE = 8192

# Kinds of dtypes that an op is known for.
class Category(IntFlag):
    BOOL = 1
    INT = 2
    FLOAT = 4
    COMPLEX = 8

# What becomes of the promoted dtype of a pointwise op.
class Promotion(IntEnum):
    DEFAULT = 0
    INT_TO_FLOAT = 1
    TO_BOOL = 2
    INT_TO_FLOAT_UNLESS_ROUNDED = 3

# What else is to be known of a pointwise op.
class PointwiseFlag(IntFlag):
    IN_PLACE = 1
    SAME_DTYPE = 2
    ANY_CAST = 8
    BOOL_FIRST = 16
    BACKWARDS = 32
    UNIFORM = 64
    NO_DIMS = 128
    LIMITED = 256
    BOOL_SECOND = 512
    ROW_MAJOR = 1024

# The dtype that a reduction gives.
class ReductionResult(IntEnum):
    OWN = 0
    INT_TO_INT64 = 1
    TO_BOOL = 2
    TO_INT64 = 3

# What else is to be known of a reduction.
class ReductionFlag(IntFlag):
    NO_DIMS_IS_ODD = 1
    NEVER_NARROWS = 2

class Mesh:
    def __init__(
        self,
        sizes: Sequence[int],
        bandwidth: Sequence[float],
        latency: Sequence[float],
        coordinate: Sequence[int] | None,
    ) -> None: ...
    @property
    def member(self) -> bool: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def key(self) -> bytes: ...

class CostModel:
    def __init__(
        self,
        sizes: Sequence[int],
        groups: Sequence[tuple[Sequence[int], Sequence[Sequence[tuple[float, float, float]]]]],
        kernel_us: float,
        memory_us_per_byte: float,
        all_to_all_gathers: bool,
        callback: Callable[[str, tuple[int, ...], int, int], float] | None,
    ) -> None: ...
    @property
    def nbytes(self) -> int: ...

class History:
    def __init__(self) -> None: ...
    def cost(self, mesh: Mesh, src: object, dst: object, force_graph: bool) -> float | None: ...

# What the core is asked about one op. The constructor decodes its arguments, and raises Unsupported
# and RuleError. A problem holds placements of `rows`, `accepts`, and what `symbolic` returned: none
# may refer to the problem, which Python's garbage collector does not look into.
class Problem:
    def __init__(
        self,
        mesh: Mesh,
        device_mesh: object,
        rows: object,
        outputs: int,
        specs: object,
        positional: int,
        options: int,
        ask_kinds: Callable[[], Sequence[int]],
        ask_tracing: Callable[[], bool],
        fixed: Sequence[tuple[int, object]] | None,
        absent_outputs: Sequence[bool] | None,
        pinned: Sequence[int],
        accepts: Callable[[tuple[Any, ...]], bool] | None,
        symbolic: Callable[[], Any],
        output_shapes: Callable[[], Sequence[tuple[int, ...] | None]] | None = None,
    ) -> None: ...

class Region:
    def contains(self, specs: Sequence[object]) -> bool: ...
    @property
    def nbytes(self) -> int: ...

class Pattern:
    def __init__(self, text: str) -> None: ...
    @property
    def text(self) -> str: ...
    @property
    def arguments(self) -> list[str]: ...
    @property
    def operands(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def ranks(self) -> list[int | None]: ...
    @property
    def needs_outputs(self) -> bool: ...
    def rows(
        self,
        operands: list[Any],
        arguments: list[Any],
        keepdim: bool,
        outputs: Sequence[Any] | None,
        cells: dict[Any, Any],
    ) -> list[list[Any]]: ...
    def origins(
        self,
        operands: list[Any],
        arguments: list[Any],
        keepdim: bool,
        outputs: Sequence[Any] | None,
    ) -> list[str]: ...

class ClosedForm:
    def __init__(
        self,
        family: str,
        params: Sequence[int],
        names: Sequence[str],
        masks: Sequence[int],
        defaults: list[tuple[Any, ...]],
        *,
        each_element: bool,
        returns_nothing: bool,
        needs_device: bool,
    ) -> None: ...
    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

class GenerationSlot:
    def __init__(self, name: str, clear: Callable[[], bool]) -> None: ...
    def catch_up(self) -> None: ...

def begin_generation() -> None: ...
def fall_behind() -> None: ...
def build_config() -> dict[str, Any]: ...
def configure_metadata(
    types: dict[str, object], dtypes: Sequence[object], formats: Sequence[object]
) -> None: ...
def configure(
    types: dict[str, object],
    read_size: Callable[[object], tuple[int, str]],
    zero_fill_partial: bool,
    compensated_sum: bool,
) -> None: ...
def decide(problem: Problem) -> tuple[int, tuple[Any, ...], float, list[float], int]: ...
def rank(
    limit: int,
    problem: Problem,
) -> tuple[
    int,
    list[tuple[tuple[int, ...], tuple[Any, ...], float, list[float]]],
    int,
    int,
    list[tuple[int, int, str, int, int, tuple[int, ...]]],
    list[tuple[int | None, tuple[Any, ...]]],
    int,
    int,
]: ...
def decide_exactly(
    model: CostModel,
    memory_limit: float,
    output_weight: float,
    # What comes later: a spec, a function from the output's placements and those of the strategy to
    # microseconds, or None.
    priced_outputs: Sequence[tuple[Sequence[int], int, object | None]] | None,
    problem: Problem,
) -> tuple[tuple[int, tuple[Any, ...], float, list[float], int], float, float]: ...
def region(problem: Problem) -> Region | None: ...
def plan(
    mesh: Mesh, src: object, dst: object, force_graph: bool
) -> tuple[int, bool, list[tuple[int, Any, Any, list[int]]]]: ...

# The same for several ranks, with a logical shape for each of their coordinates.
def plan_for_ranks(
    mesh: Mesh, coordinates: Sequence[Sequence[int]], src: object, dst: object, force_graph: bool
) -> tuple[int, bool, list[tuple[int, Any, Any, list[list[int]]]]]: ...

# A layout: placements over the mesh, and (tensor dim, mesh dims in the order in which they cut it).
_Layout = tuple[tuple[Any, ...], tuple[tuple[int, tuple[int, ...]], ...]]
# Kind, mesh dims, layout before and after, us of communication, of local work, bytes sent, peak.
_Step = tuple[str, tuple[int, ...], _Layout, _Layout, float, float, int, int]

def exact_plan(
    model: CostModel, src: object, dst: object, memory_limit: float
) -> tuple[bool, list[_Step], int]: ...
def exact_price(
    model: CostModel, src: object, dst: object, memory_limit: float
) -> tuple[float, float, int] | None: ...
def price_steps_of(
    model: CostModel, src: object, dst: object, steps: Sequence[tuple[Sequence[int], object]]
) -> tuple[bool, list[_Step], int]: ...  # the last: how many of the steps are moves
def price_steps(
    mesh: Mesh, src: object, dst: object, force_graph: bool
) -> float | list[tuple[int, Any, Any]] | None: ...
def signature(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bytes, bytes, bytes, bytes] | None: ...
def group_alike(
    specs: Sequence[list[Any]], numbers: Sequence[list[Any]]
) -> tuple[list[int], list[int]]: ...
def has_empty_shard(
    args: tuple[Any, ...], mesh_of: Callable[[Any], Mesh], or_may: bool = False
) -> bool: ...
def has_own_order(args: object) -> bool: ...
def spec_key(spec: object, by_address: bool = False) -> bytes: ...
def set_order(hashes: Sequence[int]) -> list[int]: ...
def hash_int_pair(first: int, second: int) -> int: ...
def strategy_table(
    written: Sequence[tuple[int, int]],
    producers: Sequence[Sequence[Sequence[object]]],
    problem: Problem,
) -> tuple[NDArray[np.int32], list[tuple[Any, ...]]]: ...
def price_table(
    model: CostModel,
    spec: object,
    sources: Sequence[Sequence[object]],
    targets: Sequence[Sequence[object]],
    memory_limit: float,
) -> NDArray[np.float64]: ...

class GraphProblem:
    def __init__(
        self,
        unaries: list[Any],
        tables: list[Any],
        edges: Any,
        classes: list[Any],
        groups: list[Any],
        rows: list[tuple[float, float, Any, Any, Any]],
    ) -> None: ...

class GraphState: ...

class GraphAnswer:
    @property
    def status(self) -> str: ...
    @property
    def labels(self) -> Any: ...  # int32 array, or None
    @property
    def objective(self) -> float: ...
    @property
    def lower_bound(self) -> float: ...
    @property
    def proved(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @property
    def iterations(self) -> int: ...
    @property
    def fixed(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def state(self) -> GraphState: ...

def solve_graph(
    problem: GraphProblem,
    *,
    time_limit: float = ...,
    relative_gap: float = ...,
    warm: GraphState | None = ...,
    progress: Callable[[float, int, float, float], object] | None = ...,
) -> GraphAnswer: ...
