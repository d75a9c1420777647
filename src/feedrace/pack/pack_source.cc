// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/pack_source.h"

#include <utility>

#include "feedrace/formats/image_folder.h"
#include "feedrace/formats/webdataset.h"

namespace feedrace::pack {

std::unique_ptr<PackSource> open_pack_source(const std::vector<std::string>& sources,
                                             const formats::OpenOptions& options,
                                             const Looked& looked) {
  if (formats::WebdatasetFormat().accepts(sources)) return open_shard_source(sources, options);
  auto dataset = formats::open_dataset(sources, options);
  if (formats::ImageFolderFormat().accepts(sources)) {
    return open_folder_source(std::move(dataset), sources.at(0), options, looked);
  }
  return open_list_source(std::move(dataset), options, looked);
}

}  // namespace feedrace::pack
