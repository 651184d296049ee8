"""Parity of shardprop with the installed torch: random decisions and plans, compared exactly.

How the pieces fit together:

* ``meshes``, ``topology``, ``sketch``, ``layouts``: an operand, a tensor on a mesh;
* ``dice``, ``schema_args``, ``builders``, ``cases_*``: what an op is called with, by rule family;
* ``opinfo_recorder``, ``recorded``: calls taken from torch's sample inputs instead;
* ``mix``, ``op_choice``, ``guide``, ``placing``, ``budget``, ``cases``: one random problem;
* ``outcome``, ``oracle``, ``known``: both answers, normalised, and the differences we accept;
* ``redistribute_cases``: the same for one redistribution, its price and its plan;
* ``runner``, ``run``: many cases, over processes, with a summary; ``coverage``: what they reach.
"""
