"""Arguments that torch's cache of decisions leaves out of its keys."""

from __future__ import annotations

from .correction import Correction

LEFT_OUT_OF_KEYS = Correction(
    name="argument that the cache of decisions leaves out",
    where="`sum(dtype=...)` and other reductions with a dtype, an `out=` or tensors by keyword; "
    "`view(dtype)`; not counted, for no decision differs",
    fault="holds a decision under a key without these arguments: a call that differs in nothing "
    "else gets the decision, and the metadata, of the call before.",
    right="adds them to the key.",
    ends="notes of torch's on these ops that name the arguments.",
)
