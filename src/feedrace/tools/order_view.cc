// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/order_view.h"

#include "feedrace/pipeline/open_sets.h"
#include "feedrace/pipeline/plan.h"

namespace feedrace::tools {

order::EpochOrder OrderView::batches_of(std::uint64_t rank) const {
  order::SplitOptions own = split;
  own.rank = rank;
  return {order, own, epoch};
}

OrderView view_order(const LoaderOptions& options, const Plan& plan, std::uint64_t epoch) {
  const pipeline::OpenedSets opened = pipeline::open_sets(options);
  return {opened.dataset,
          pipeline::make_order(options, opened, {}),
          {plan.batch_size, plan.rank, plan.world_size, plan.last_batch},
          epoch};
}

}  // namespace feedrace::tools
