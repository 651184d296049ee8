"""aten.linalg__powsum.default under P(sum) -> P(sum) on a mesh of 2 ranks.

Written by `shardprop validate`; see docs/torch-rules.md.
Ends with 1 and a message if the ranks together have other values than the op on whole
tensors."""

import math

import torch
from shardprop.verification.validate.standalone_check import check

nan, inf = math.nan, math.inf
OP = torch.ops.aten.linalg__powsum.default
ARGS = (torch.tensor([[0.8378033786380563, 0.8765617044536641, 1.3823998586735367, 1.3527229462782648, 0.8528006842295164, 1.1792750957858447], [0.9078389212124276, 1.465629225616452, 0.8269021331602133, 0.10787054292270956, 1.1559812420688242, 1.15741601128626], [0.9870991306693794, 0.8064966198460949, 1.1523123613769157, 0.23275139799162117, 1.58315858939002, 1.034305364243974], [1.4783682402546774, 1.3640709438690632, 0.7256336701383946, 0.32115563424662774, 0.6020250771400129, 0.3137628924294201], [0.8139356995420449, 0.6945480685301998, 1.3094246766381934, 0.5376205498195333, 0.4130311647856403, 1.2719059844922653], [0.7509532279526542, 1.314328866984718, 0.838973075021347, 1.421374059852372, 1.479457769726714, 0.18326681230775413]], dtype=torch.float64), 0.5, [0], False, )
KWARGS = {'dtype': torch.float32}
OPERANDS = [[('P', 'sum')]]
OUTPUTS = [[('P', 'sum')]]

if __name__ == '__main__':
    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, (2,), 0, None)
    print(message or 'The ranks together have the values of the op on whole tensors.')
    raise SystemExit(1 if message else 0)
