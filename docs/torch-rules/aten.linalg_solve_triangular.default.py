"""aten.linalg_solve_triangular.default under R, S(0) -> S(0) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.linalg_solve_triangular.default
ARGS = (torch.empty_strided((3, 4, 4), (16, 1, 4), dtype=torch.float64).copy_(torch.tensor([[[1.0, -0.3457810296633654, -0.6268669409957779, -0.44605087784988806], [0.0, 1.0, 0.18473295871461792, -0.0024119336441742485], [0.0, 0.0, 1.0, 0.5355350742118152], [0.0, 0.0, 0.0, 1.0]], [[1.0, -0.860378126618045, 0.7853610117285458, 0.12894694036817664], [0.0, 1.0, -0.21487264619519986, -0.02841693343131908], [0.0, 0.0, 1.0, -0.8593357717832383], [0.0, 0.0, 0.0, 1.0]], [[1.0, -0.04284614565645764, -0.6355693467677953, -0.4185541052316048], [0.0, 1.0, 0.9445436238880935, -0.9405190308591623], [0.0, 0.0, 1.0, -0.7764578294147858], [0.0, 0.0, 0.0, 1.0]]], dtype=torch.float64)), torch.tensor([[[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [2.2644324783821297, 1.0, 1.0, 1.0, 1.0, 1.0], [4.151143412127345, -5.929617585430388, 1.0, 1.0, 1.0, 1.0], [3.443775432351493, -5.106915534882012, 1.4003506911118628, 1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.5342142212525302, 1.0, 1.0, 1.0, 1.0, 1.0], [-0.2563380518879198, 0.508899351926988, 1.0, 1.0, 1.0, 1.0], [1.0787882409755196, 1.971325942560663, -0.15153981899070373, 1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.45792504910938236, 1.0, 1.0, 1.0, 1.0, 1.0], [-0.3606212273741673, -1.2410092416567526, 1.0, 1.0, 1.0, 1.0], [0.608428110832367, 1.9700869926282925, -0.7365092151573878, 1.0, 1.0, 1.0]]], dtype=torch.float64), )
KWARGS = {'upper': True, 'unitriangular': True}
OPERANDS = [[('R',)], [('S', 0)]]
OUTPUTS = [[('S', 0)]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
