"""How a decision is made.

hook -> propagator -> route -> decision -> asked -> policy (decision_cache) -> core_call -> answer

`hook` puts the function of `propagator` where torch's dispatcher asks. `route` finds who decides,
and by which rule. `decision` decides by that rule, or by torch's own code. `asked` makes the op's
questions, with the metadata of its outputs. A rule that lists rows puts each question to the
policy: policy ``torch`` looks it up in its `decision_cache`, and `core_call` puts to the core what
is not there. (A rule that follows its operands chooses itself, and asks the policy for prices.)
`answer` makes torch's OutputSharding of the choices.
"""
