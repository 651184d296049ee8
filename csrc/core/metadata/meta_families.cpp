#include "metadata/meta_families.h"

#include <algorithm>
#include <utility>

namespace shardprop {

bool answer(Family family, Call& call) {
  return family(call) && std::all_of(call.outputs.begin(), call.outputs.end(),
                                     [](const std::optional<TensorMeta>& output) {
                                       return !output || is_moderate(*output);
                                     });
}

Family find_family(std::string_view name) {
  static constexpr std::pair<std::string_view, Family> kFamilies[] = {
      {"addmm", addmm},
      {"baddbmm", baddbmm},
      {"bmm", bmm},
      {"cat", cat},
      {"clone", clone},
      {"cpu_attention", cpu_attention},
      {"dot", dot},
      {"dropout", dropout},
      {"efficient_attention", efficient_attention},
      {"embedding", embedding},
      {"embedding_backward", embedding_backward},
      {"expand", expand},
      {"flash_attention", flash_attention},
      {"flash_attention_backward", flash_attention_backward},
      {"gather", gather},
      {"group_norm", group_norm},
      {"heads_inside_backward", heads_inside_backward},
      {"index_select", index_select},
      {"layer_norm", layer_norm},
      {"layer_norm_backward", layer_norm_backward},
      {"like", like},
      {"mm", mm},
      {"mv", mv},
      {"new_of_sizes", new_of_sizes},
      {"new_strided", new_strided},
      {"nll_loss", nll_loss},
      {"nll_loss_backward", nll_loss_backward},
      {"nothing", nothing},
      {"permute", permute},
      {"pointwise", pointwise},
      {"reduce", reduce},
      {"reduce_pair", reduce_pair},
      {"repeat", repeat},
      {"rms_norm", rms_norm},
      {"rms_norm_backward", rms_norm_backward},
      {"same", same},
      {"scan", scan},
      {"scatter", scatter},
      {"select", select},
      {"select_backward", select_backward},
      {"slice", slice},
      {"slice_backward", slice_backward},
      {"softmax", softmax},
      {"softmax_backward", softmax_backward},
      {"sort", sort},
      {"split", split},
      {"split_with_sizes", split_with_sizes},
      {"squeeze", squeeze},
      {"stack", stack},
      {"t", t},
      {"to_copy", to_copy},
      {"top_k", top_k},
      {"transpose", transpose},
      {"unbind", unbind},
      {"unsqueeze", unsqueeze},
      {"view", view},
  };
  for (const auto& [known, family] : kFamilies) {
    if (known == name) return family;
  }
  return nullptr;
}

}  // namespace shardprop
