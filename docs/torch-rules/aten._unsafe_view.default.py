"""aten._unsafe_view.default under _S(0, 2) -> _S(1, 2) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten._unsafe_view.default
ARGS = (torch.tensor([-136.51546143558258, -23.124479775041053, 109.27039200361091, 86.5913702276367, 105.5769439067622, -29.62662458343374, 79.45652048962252, -120.14529141717296, -80.10876838708253, 16.61739935208938, -11.361195723626132, -52.89227858122649, 2.235593550448783, 195.46194779511413, 125.53912578919744, -166.6511602433088, -45.686792481742415, 35.31653212523037, 102.19705658638476, -138.76763445907864, -133.85639146574184, -6.292665129336845, -37.79932144456701, -31.826775827602653, 100.13949224741316, 208.8679575487621, -21.153454650723205, 31.79321982877489, -106.18392777594316, -14.299742951025753, 14.441206382441234, 75.75101601529572, 71.98990581096774, -19.822880377977192, 56.51164978519162, 17.831121026204368], dtype=torch.float64), [6, 6], )
KWARGS = {}
OPERANDS = [[('SS', 0, 2)]]
OUTPUTS = [[('SS', 1, 2)]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, 1)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
