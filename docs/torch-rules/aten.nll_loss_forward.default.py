"""aten.nll_loss_forward.default under S(0), S(0), R -> P(avg), P(sum) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.nll_loss_forward.default
ARGS = (torch.tensor([[-3.750452622384528e-07, -15.897343223548473, -15.200430961698567], [-1.7381702000778287, -3.5526962686371406, -0.22877080021627919]], dtype=torch.float64), torch.tensor([1, 0], dtype=torch.int64), torch.tensor([8.460954032517956, 3.740757559196183, -0.7311070237058843], dtype=torch.float64), 1, -100, )
KWARGS = {}
OPERANDS = [[('S', 0)], [('S', 0)], [('R',)]]
OUTPUTS = [[('P', 'avg')], [('P', 'sum')]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
