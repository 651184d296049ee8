"""`shardprop demo`: a small transformer in DTensor, timed, compared and checked.

settings    what a run is made of        model      the transformer
layout      where its tensors live       train      steps and their propagation time
decisions   a decision as plain values   compare    torch alone against shardprop
gloo        real processes against one   runs       which of these a request means
progress    the display                  report     what is printed
"""
