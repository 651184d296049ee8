"""aten.upsample_linear1d_backward.grad_input under S(0), S(0) -> S(0) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.upsample_linear1d_backward.grad_input
ARGS = (torch.tensor([[[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]], dtype=torch.float64), [6], [2, 3, 4], True, 1.7, )
KWARGS = {'grad_input': torch.tensor([[[1.4, 1.6, 1.5999999999999999, 1.4], [1.4, 1.6, 1.5999999999999999, 1.4], [1.4, 1.6, 1.5999999999999999, 1.4]], [[1.4, 1.6, 1.5999999999999999, 1.4], [1.4, 1.6, 1.5999999999999999, 1.4], [1.4, 1.6, 1.5999999999999999, 1.4]]], dtype=torch.float64)}
OPERANDS = [[('S', 0)], [('S', 0)]]
OUTPUTS = [[('S', 0)]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
