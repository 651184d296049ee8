"""List ops whose elements share a tensor, which can be in one place only."""

from __future__ import annotations

from .correction import Correction

SHARED_IN_LIST = Correction(
    name="tensor that the elements of a list share",
    where="`_foreach_add`, `_foreach_mul` and `_foreach_div` of a list and one tensor for all "
    "its elements",
    fault="decides each element of the list as if the tensor that all of them share were moved for "
    "it alone, and moves it to where the first element wants it: others take the part that a rank "
    "holds for the whole.",
    right="decides all elements with that tensor in one place, the one that costs least in all. "
    "Where an op writes into its list and no place is right for all elements, it is refused.",
    ends="a decision of torch's for all elements together.",
)
