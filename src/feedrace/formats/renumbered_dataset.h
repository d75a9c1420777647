// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "feedrace/format.h"

namespace feedrace::formats {

/// The samples of `dataset` under the numbers that `reference` has for the same keys, so that an
/// order made for one continues over the other: sample i is the one whose canonical key is that of
/// the reference's sample i. Holds 8 bytes a sample, while it is made 16 more; reads every key and
/// label of both once. The reference is not needed afterwards.
///
/// Its fingerprint covers the numbering, its key fingerprint is the reference's, and it has no
/// parts. Throws Error kInvalidArgument, with the names: the counts differ, a key is in one only or
/// comes twice, a label differs, or one of the two has no labels.
std::shared_ptr<const Dataset> number_like(std::shared_ptr<const Dataset> dataset,
                                           const Dataset& reference);

}  // namespace feedrace::formats
