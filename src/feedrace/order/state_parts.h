// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "feedrace/order/state.h"

namespace feedrace::order {

/// "a, b, c and 4 more": at most three of the names, fit to print.
std::string some_of(const std::vector<std::string>& names);

/// True when both are cut alike: the same names and counts, whatever the digests.
bool same_cut(const std::vector<StatePart>& saved, const std::vector<StatePart>& current);

/// Which parts are gone, new or changed, as a clause: "shard-002.tar is gone". Empty where nothing
/// can be said: no parts known, or all the same.
std::string describe_parts(const std::vector<StatePart>& saved,
                           const std::vector<StatePart>& current);

/// Of parts in the same number: those whose digests differ, with the digests of the first:
/// "shard-002.tar has changed since the state was saved (its bytes differ;
/// digest 9f3a21c0 then, 11223344 now)". Empty: none differs.
std::string describe_changed(const std::vector<StatePart>& saved,
                             const std::vector<StatePart>& current);

}  // namespace feedrace::order
