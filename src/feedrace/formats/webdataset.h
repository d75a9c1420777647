// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/formats/shard_set.h"

namespace feedrace::formats {

/// Tar shards by WebDataset's rules: members with the same path up to the first dot of the base
/// name, one behind the other, are a sample; the rest of the name, in lower case, is the field.
class WebdatasetFormat : public Format {
 public:
  std::string_view name() const noexcept override { return "webdataset"; }
  bool accepts(const std::vector<std::string>& sources) const override;
  std::unique_ptr<Dataset> open(const std::vector<std::string>& sources,
                                const OpenOptions& options) const override;
};

/// The same, but gives sets without any image or without any sample as well: for tools that list
/// what there is. Throws Error.
std::unique_ptr<ShardSet> open_shards(const std::vector<std::string>& sources,
                                      const OpenOptions& options = {});

}  // namespace feedrace::formats
