"""aten.cumsum.default under S(0) -> S(0) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.cumsum.default
ARGS = (torch.tensor([0.4758222004381524, 2.491992283719561, 1.4762593140297644, -3.2386147655863464, -6.177391224523372], dtype=torch.float64), -1, )
KWARGS = {}
OPERANDS = [[('S', 0)]]
OUTPUTS = [[('S', 0)]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
