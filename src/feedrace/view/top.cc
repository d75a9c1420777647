// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/top.h"

#include <algorithm>
#include <vector>

#include "feedrace/core/json_text.h"

namespace feedrace::view {

using Json = nlohmann::ordered_json;

TopLook take_look(const TopOptions& options) {
  TopLook look;
  look.loaders = look_at_loaders(options.folders, options.root);
  look.when = std::chrono::steady_clock::now();
  look.host = read_host_use(options.root);
  if (options.ask_gpus) look.gpus = parse_shallow_json(options.ask_gpus());
  if (options.take_block_latency) look.block_latency = options.take_block_latency();
  return look;
}

Json top_between(const TopLook& before, const TopLook& after) {
  const double seconds = std::chrono::duration<double>(after.when - before.when).count();
  Json top = {{"seconds", seconds}};
  top.update(use_between(before.host, after.host, std::max(seconds, 1e-3)));
  top["block_latency"] = after.block_latency;
  top["gpus"] = after.gpus.is_object() ? Json(after.gpus) : Json(nullptr);
  top["loaders"] = Json::array();
  for (const LoaderLook& loader : after.loaders.loaders) {
    const auto& known = before.loaders.loaders;
    const auto earlier = std::find_if(known.begin(), known.end(), [&](const LoaderLook& one) {
      return one.socket == loader.socket;
    });
    // One that has just come has no rates yet.
    top["loaders"].push_back(loader_between(earlier == known.end() ? loader : *earlier, loader));
  }
  top["silent"] = after.loaders.silent;
  return top;
}

}  // namespace feedrace::view
