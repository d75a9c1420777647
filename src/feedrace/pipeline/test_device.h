// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loaders that deliver to a GPU, on the stub libraries: what their tests share.

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/cuda/test_stubs.h"
#include "feedrace/pipeline/test_sets.h"

namespace feedrace::pipeline {

class DeviceLoader : public cuda::OnStubs {
 protected:
  LoaderOptions options() const {
    LoaderOptions options = small_options(folder_);
    options.device = "cuda";
    options.cuda_plugin = {FEEDRACE_BUILT_PLUGIN};
    options.cuda_libraries = {FEEDRACE_STUB_FOLDER};
    return options;
  }

  /// What the same loader delivers to the host.
  std::vector<Seen> on_host(LoaderOptions options) const {
    options.device = "cpu";
    options.decode_device = "auto";
    Loader loader(options);
    return load_epoch(loader);
  }

  const testing::TempDir dir_;
  const std::string folder_ = write_folder(dir_, 48);
};

/// The batch as a consumer's stream sees it that waits for nothing but the hand-over.
inline Seen remember_on_device(const Batch& batch) {
  // In one piece, where they differ in size.
  std::vector<std::byte> images(batch.images.size_bytes());
  for (const Tensor& image : batch.image_list) {
    const std::size_t at = images.size();
    images.resize(at + image.size_bytes());
    batch.on_device->read(image, images.data() + at);
  }
  std::vector<std::int64_t> labels(batch.size());
  if (batch.image_list.empty()) batch.on_device->read(batch.images, images.data());
  batch.on_device->read(batch.labels, reinterpret_cast<std::byte*>(labels.data()));
  Batch copy = batch;
  copy.images = {images.data(), DType::kUint8, {static_cast<std::int64_t>(images.size())}};
  copy.labels.data = labels.data();
  return remember(copy);
}

inline std::vector<Seen> load_device_epoch(Loader& loader) {
  std::vector<Seen> epoch;
  while (const auto batch = loader.next()) epoch.push_back(remember_on_device(*batch));
  return epoch;
}

}  // namespace feedrace::pipeline
