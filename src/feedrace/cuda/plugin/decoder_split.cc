// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/decoder_split.h"

#include <algorithm>

namespace feedrace::cuda_plugin {

std::vector<std::size_t> pictures_of_engine(std::span<const DecodeCost> pictures, double share) {
  std::vector<DecodeCost> open;
  double of_software = 0;
  for (const DecodeCost& picture : pictures) {
    if (picture.engine_takes) {
      open.push_back(picture);
    } else {
      of_software += static_cast<double>(picture.cost);
    }
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const DecodeCost& a, const DecodeCost& b) { return a.cost > b.cost; });
  std::vector<std::size_t> indexes;
  double of_engine = 0;
  for (const DecodeCost& picture : open) {
    const auto cost = static_cast<double>(picture.cost);
    // (of_engine + cost) / share against (of_software + cost) / (1 - share), without dividing by 0.
    if ((of_engine + cost) * (1 - share) <= (of_software + cost) * share) {
      of_engine += cost;
      indexes.push_back(picture.index);
    } else {
      of_software += cost;
    }
  }
  std::sort(indexes.begin(), indexes.end());
  return indexes;
}

}  // namespace feedrace::cuda_plugin
