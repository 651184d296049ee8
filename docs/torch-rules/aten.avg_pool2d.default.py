"""aten.avg_pool2d.default under P(sum) -> P(sum) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.avg_pool2d.default
ARGS = (torch.tensor([[[[-8, -4, -8, -7, -8, 5, 2, -2, -2], [9, 2, -8, 9, -1, 7, -1, -1, 6], [-8, 6, 5, -5, 8, 6, 6, 3, 8], [-4, 4, 1, -2, -9, -1, -7, 6, -3], [3, 3, -9, -9, 2, 6, -6, -5, 8], [-9, 0, 6, -8, 8, -9, -4, 5, 9], [-4, -2, 6, 7, -9, -4, 6, 8, 5], [-3, -7, -8, -2, -1, 7, -2, -2, 2], [7, 8, -7, -3, 1, -7, 5, 1, -7]], [[5, 7, -8, 8, -6, -5, -3, -1, 8], [1, 6, 0, -9, -8, -4, -9, -8, 6], [6, -2, 3, 7, -2, -4, 9, -6, -4], [-3, -1, 5, 7, -4, 7, -5, 6, 6], [1, -7, 2, 5, 9, 0, 4, 9, -9], [4, -4, -6, -2, -5, 5, 9, -9, -2], [9, 8, 1, 3, 8, 1, -4, 2, -6], [-7, -5, -4, 8, 8, 4, 0, -6, -9], [-3, 1, 1, -3, -7, 5, -5, 6, -6]], [[-3, 1, -7, 6, -6, -5, -9, -6, -6], [5, -6, -4, 0, -9, 5, -9, 2, -9], [7, -5, 0, 9, 4, -2, 4, -7, 5], [7, 1, 0, 2, 7, 0, -9, 0, 8], [-2, 2, -5, -7, 5, -3, 4, 7, 4], [-7, -6, -6, -4, -4, 9, -2, -8, 5], [-4, -6, -9, 4, 2, 3, 7, 8, 4], [-9, 9, 7, 3, 0, -8, -5, 2, 4], [9, -1, 3, -8, -2, 0, 4, 5, -5]]]], dtype=torch.int64), [6, 6], [3, 3], [2, 3], True, True, 2, )
KWARGS = {}
OPERANDS = [[('P', 'sum')]]
OUTPUTS = [[('P', 'sum')]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
