"""aten.avg_pool3d.default under P(sum) -> P(sum) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.avg_pool3d.default
ARGS = (torch.tensor([[[[[-1, 9, 4, 9, -3], [0, 5, 6, 7, 2], [4, -6, -3, 7, 1], [0, -9, 6, 7, 6], [-6, -4, -7, 7, 5]], [[2, 1, 5, 0, -6], [3, -8, 6, 9, -7], [-2, 3, 3, 1, 9], [9, 3, 1, 2, -6], [7, -4, 4, 6, 6]], [[6, 0, 5, 8, 5], [-6, 1, 3, 8, 5], [-3, -8, 8, 7, 4], [-1, -4, -3, -4, -2], [-9, 1, -1, 3, -5]], [[-2, 5, 1, -2, -4], [-6, 4, -7, -3, 5], [6, 0, 5, 3, 8], [1, 2, 8, 0, 4], [9, 7, 6, -8, 1]], [[-2, 5, -5, 6, -1], [-2, -9, -1, -4, 3], [-1, -6, 7, 8, 0], [6, 8, -5, 0, -6], [0, 5, -1, -3, -3]]], [[[-8, 8, -2, -6, -8], [3, -2, -3, -8, -2], [7, 9, 1, -4, 9], [-1, 6, 7, 2, -9], [0, 7, 6, 6, -5]], [[-9, 8, -9, -5, 1], [-2, 6, -4, -4, 8], [9, 6, -7, -2, 1], [-9, -3, 6, 8, 5], [7, -4, -9, 5, 0]], [[1, -3, 1, -1, -2], [1, 0, 6, 7, 4], [-1, -7, 2, 5, 9], [9, -1, 2, 9, 0], [-9, 0, 0, -3, 9]], [[2, -7, 6, -5, 4], [3, 5, 8, -2, 0], [2, -4, -8, 0, 3], [5, -6, 8, 5, 7], [2, -2, 8, -4, -9]], [[3, -4, -6, -1, -6], [-8, -2, 2, -9, 0], [5, -3, 2, -9, 8], [-8, 4, 0, 7, -7], [2, -4, 7, 9, -6]]]]], dtype=torch.int64), [2, 3, 4], [1, 2, 2], [0, 1, 2], )
KWARGS = {}
OPERANDS = [[('P', 'sum')]]
OUTPUTS = [[('P', 'sum')]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
