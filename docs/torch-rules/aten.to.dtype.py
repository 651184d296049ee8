"""aten.to.dtype under P(sum) -> P(sum) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.to.dtype
ARGS = (torch.tensor([[[[153.17007882147698, 38.03062865464752, 100.50491259611543], [220.1679224137086, 28.348141566851577, 206.42911808298814]], [[201.19122454611514, 203.40187070570698, 103.7120672260507], [184.5233822086332, 3.012723968914244, 65.43096191229104]], [[48.10663213473142, 41.45393450657825, 126.25773793594921], [39.3615940135014, 58.5325310332073, 104.70315892698554]]], [[[95.39095892412374, 46.63967806013142, 101.94054870660487], [132.00789679865125, 156.0632699796457, 99.4899606204944]], [[137.29764756855207, 50.64639130508129, 109.45103043840358], [218.3949946390296, 235.1155328890826, 9.715907360773636]], [[179.43698287305446, 44.85770532812675, 45.51420734857486], [45.96721747389672, 170.64043726971838, 157.1685826028107]]]], dtype=torch.float64), torch.uint8, False, False, torch.channels_last, )
KWARGS = {}
OPERANDS = [[('P', 'sum')]]
OUTPUTS = [[('P', 'sum')]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
