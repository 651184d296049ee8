"""aten.reshape.default under _S(0, 2) -> _S(0, 2) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.reshape.default
ARGS = (torch.tensor([[4, 7, 2, 9, 9, 1], [7, 4, 7, 11, 11, 5], [10, 3, 9, 7, 3, 5], [6, 10, 0, 7, 4, 9], [7, 5, 0, 5, 9, 10], [11, 3, 3, 1, 10, 4]], dtype=torch.int64), [-1], )
KWARGS = {}
OPERANDS = [[('SS', 0, 2)]]
OUTPUTS = [[('SS', 0, 2)]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, 1)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
