"""aten.view.dtype under P(sum) -> P(sum) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.view.dtype
ARGS = (torch.tensor([[1.5550795027098296, 1.161729796599682, 0.7890744146911762, 1.4811215261829405, 1.0675361801841472, 1.2867218382704557], [0.36790926280112646, 0.6266614365908926, 0.9720113797113618, 0.5323538382042253, 0.7793032733216713, 0.3651992893055711], [0.6329001375089597, 1.0328578730192917, 0.8227726011725628, 0.7612007485665392, 0.7109223615466623, 0.4081578901923807], [1.0975572636252242, 1.2773108506826767, 0.4155497123775769, 1.1151086813765188, 0.26460289035616913, 0.8856280891033651], [0.43903030440758584, 0.9373646130703387, 0.9812934427546703, 1.1229185285203127, 1.2180642408663798, 0.4414834548953219], [1.3148383996479591, 1.0458854700933775, 0.3938322185638118, 0.32908935681689255, 0.8222597533280879, 1.4762587187348823]], dtype=torch.float64), torch.float32, )
KWARGS = {}
OPERANDS = [[('P', 'sum')]]
OUTPUTS = [[('P', 'sum')]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
