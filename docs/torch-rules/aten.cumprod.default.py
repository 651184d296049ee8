"""aten.cumprod.default under S(1) -> S(1) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.cumprod.default
ARGS = (torch.tensor([[-0.7311070237058843, -0.7311070237058843, -0.7311070237058843, -0.7311070237058843, -0.7311070237058843], [7.573458314195285, 7.573458314195285, 7.573458314195285, 7.573458314195285, 7.573458314195285], [2.610434162209766, 2.610434162209766, 2.610434162209766, 2.610434162209766, 2.610434162209766], [5.240662059245466, 5.240662059245466, 5.240662059245466, 5.240662059245466, 5.240662059245466], [-5.785088846386483, -5.785088846386483, -5.785088846386483, -5.785088846386483, -5.785088846386483], [-2.680062760909289, -2.680062760909289, -2.680062760909289, -2.680062760909289, -2.680062760909289]], dtype=torch.float64), -1, )
KWARGS = {}
OPERANDS = [[('S', 1)]]
OUTPUTS = [[('S', 1)]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
