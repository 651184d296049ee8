"""Imports every case module, so that all builders are registered."""

from . import (  # noqa: F401
    cases_decomposed,
    cases_image,
    cases_index,
    cases_linalg,
    cases_lists,
    cases_matrix,
    cases_norm,
    cases_pointwise,
    cases_reduce,
    cases_views,
)
