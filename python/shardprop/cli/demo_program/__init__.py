"""`shardprop demo`: a small transformer in DTensor, timed, compared and checked.

settings    what a run is made of        llama      the model, which knows nothing of DTensor
placement   where its tensors live       train      steps and their propagation time
compare     torch alone and shardprop    gloo       real processes against one
report      what is printed
"""
