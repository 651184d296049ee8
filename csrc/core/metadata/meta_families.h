// The families of ops, each of which gives the metadata of its ops' outputs in closed form. What
// they take and decline is said at each; their names for the table of ops are in meta_families.cpp.
#pragma once

#include <algorithm>

#include "metadata/meta_call.h"

namespace shardprop {

bool pointwise(Call& call);

// The first tensor, as it is: in-place ops and aliases. The parameter says whether the op writes,
// so that an expanded tensor is an error.
bool same(Call& call);
// Ops that return nothing, over lists of tensors.
bool nothing(Call& call);
// A new tensor like the first one: dtype and memory format by the slots of the parameters.
bool like(Call& call);
// A new contiguous tensor of given sizes; dtype by a slot, or the first tensor's.
bool new_of_sizes(Call& call);
bool new_strided(Call& call);
bool to_copy(Call& call);
bool clone(Call& call);
bool dropout(Call& call);

bool mm(Call& call);
bool bmm(Call& call);
bool addmm(Call& call);
bool baddbmm(Call& call);
bool mv(Call& call);
bool dot(Call& call);

bool view(Call& call);
bool repeat(Call& call);
bool transpose(Call& call);
bool t(Call& call);
bool permute(Call& call);
bool unsqueeze(Call& call);
bool squeeze(Call& call);
bool expand(Call& call);
bool select(Call& call);
bool slice(Call& call);
bool split(Call& call);
bool split_with_sizes(Call& call);
bool unbind(Call& call);

bool reduce(Call& call);
bool reduce_pair(Call& call);
bool scan(Call& call);

bool cat(Call& call);
bool stack(Call& call);
bool embedding(Call& call);
bool embedding_backward(Call& call);
bool index_select(Call& call);
bool slice_backward(Call& call);
bool select_backward(Call& call);
bool gather(Call& call);
bool scatter(Call& call);
bool top_k(Call& call);
bool sort(Call& call);

bool flash_attention(Call& call);
bool flash_attention_backward(Call& call);
bool efficient_attention(Call& call);
bool heads_inside_backward(Call& call);
bool cpu_attention(Call& call);

bool softmax(Call& call);
bool softmax_backward(Call& call);
bool layer_norm(Call& call);
bool layer_norm_backward(Call& call);
bool group_norm(Call& call);
bool rms_norm(Call& call);
bool rms_norm_backward(Call& call);
bool nll_loss(Call& call);
bool nll_loss_backward(Call& call);

}  // namespace shardprop
