"""All corrections, and those of an op."""

from __future__ import annotations

from .._torch import OpOverload
from .argmax_handler import ARGMAX_HANDLER
from .average_of_integers import AVERAGE_OF_INTEGERS
from .backward_from_the_end import BACKWARD_FROM_THE_END
from .bits_of_another_dtype import BITS_OF_ANOTHER_DTYPE
from .broadcast_batches import BROADCAST_BATCHES
from .complex_as_real import COMPLEX_AS_REAL
from .conversion_of_pending import CONVERSION_OF_PENDING
from .converted_pending import CONVERTED_PENDING
from .convolution_handler import CONVOLUTION_HANDLER
from .correction import CallCorrection, Correction
from .embedding_by_frequency import EMBEDDING_BY_FREQUENCY
from .empty_like_pending import EMPTY_LIKE_PENDING
from .empty_shards import EMPTY_SHARDS
from .extremes_through_ops import EXTREMES_THROUGH_OPS
from .factory_of_pending import FACTORY_OF_PENDING
from .fill_into_pending import FILL_INTO_PENDING
from .first_of_equals import FIRST_OF_EQUALS
from .identity_on_all import IDENTITY_ON_ALL
from .indexed_by_another_size import INDEXED_BY_ANOTHER_SIZE
from .infinity_of_others import INFINITY_OF_OTHERS
from .integers_made_pending import INTEGERS_MADE_PENDING
from .joined_bools import JOINED_BOOLS
from .left_out_of_keys import LEFT_OUT_OF_KEYS
from .list_moved_inside import LIST_MOVED_INSIDE
from .local_sizes import LOCAL_SIZES
from .masked_twice import MASKED_TWICE
from .mean_into_pending import MEAN_INTO_PENDING
from .named_as_in_place import NAMED_AS_IN_PLACE
from .nansum_of_pending import NANSUM_OF_PENDING
from .no_dims_named import NO_DIMS_NAMED
from .pooling_of_one_image import POOLING_OF_ONE_IMAGE
from .powers_of_pending import POWERS_OF_PENDING
from .reshaped_in_place import RESHAPED_IN_PLACE
from .scan_from_the_end import SCAN_FROM_THE_END
from .shard_order import SHARD_ORDER
from .shared_in_list import SHARED_IN_LIST
from .sizes_of_the_whole import SIZES_OF_THE_WHOLE
from .strided_out_of_order import STRIDED_OUT_OF_ORDER
from .strided_view import STRIDED_VIEW
from .sum_of_pending_norm import SUM_OF_PENDING_NORM
from .uneven_flattened_gather import UNEVEN_FLATTENED_GATHER
from .unmoved_keyword import UNMOVED_KEYWORD
from .weighted_mean import WEIGHTED_MEAN
from .written_and_moved import WRITTEN_AND_MOVED
from .written_view import WRITTEN_VIEW

__all__ = ["CORRECTIONS", "corrections_of"]

CORRECTIONS: tuple[Correction, ...] = (
    LOCAL_SIZES,
    LIST_MOVED_INSIDE,
    SHARED_IN_LIST,
    SHARD_ORDER,
    NO_DIMS_NAMED,
    SCAN_FROM_THE_END,
    BACKWARD_FROM_THE_END,
    POWERS_OF_PENDING,
    CONVERSION_OF_PENDING,
    CONVERTED_PENDING,
    NANSUM_OF_PENDING,
    SUM_OF_PENDING_NORM,
    IDENTITY_ON_ALL,
    FACTORY_OF_PENDING,
    FILL_INTO_PENDING,
    EMPTY_LIKE_PENDING,
    BITS_OF_ANOTHER_DTYPE,
    COMPLEX_AS_REAL,
    AVERAGE_OF_INTEGERS,
    WEIGHTED_MEAN,
    MEAN_INTO_PENDING,
    EXTREMES_THROUGH_OPS,
    POOLING_OF_ONE_IMAGE,
    BROADCAST_BATCHES,
    UNMOVED_KEYWORD,
    WRITTEN_AND_MOVED,
    SIZES_OF_THE_WHOLE,
    STRIDED_VIEW,
    EMBEDDING_BY_FREQUENCY,
    INDEXED_BY_ANOTHER_SIZE,
    MASKED_TWICE,
    JOINED_BOOLS,
    CONVOLUTION_HANDLER,
    NAMED_AS_IN_PLACE,
    RESHAPED_IN_PLACE,
    ARGMAX_HANDLER,
    FIRST_OF_EQUALS,
    INFINITY_OF_OTHERS,
    EMPTY_SHARDS,
    UNEVEN_FLATTENED_GATHER,
    STRIDED_OUT_OF_ORDER,
    INTEGERS_MADE_PENDING,
    LEFT_OUT_OF_KEYS,
    WRITTEN_VIEW,
)


def corrections_of(op: OpOverload) -> tuple[CallCorrection, ...]:
    """The corrections of calls of an op."""
    return tuple(
        each for each in CORRECTIONS if isinstance(each, CallCorrection) and op in each.ops
    )
