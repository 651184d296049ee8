"""aten.threshold.default under P(max) -> P(max) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.threshold.default
ARGS = (torch.tensor([7.573458314195285, 2.610434162209766, 5.240662059245466, -5.785088846386483, -2.680062760909289, 1.4641365565363413], dtype=torch.float64), -3.8117539415492967, -0.8483607201399439, )
KWARGS = {}
OPERANDS = [[('P', 'max')]]
OUTPUTS = [[('P', 'max')]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
