// SPDX-License-Identifier: Apache-2.0
#pragma once

// The plug-in that was built, on the stub libraries: what tests of this layer share.

#include <memory>

#include <gtest/gtest.h>

#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/cuda/stubs/stub_control.h"

namespace feedrace::cuda {

/// FEEDRACE_BUILT_PLUGIN and FEEDRACE_STUB_FOLDER come from CMake.
inline PluginPlaces stub_places() { return {{FEEDRACE_BUILT_PLUGIN}, {FEEDRACE_STUB_FOLDER}}; }

/// Stubs that nobody has told anything before, and all that was taken of them back afterwards.
class OnStubs : public ::testing::Test {
 protected:
  OnStubs() { feedrace_stub_reset(); }
  ~OnStubs() override {
    feedrace_stub_reset();
    EXPECT_EQ(feedrace_stub_memory_in_use(), 0U);
    EXPECT_EQ(feedrace_stub_pinned_bytes(), 0U);
    EXPECT_EQ(feedrace_stub_objects(), 0U);
  }

  static std::shared_ptr<Plugin> plugin() { return *Plugin::load(stub_places()); }
  static std::shared_ptr<Device> device(int ordinal = 0) {
    return *Device::open(plugin(), ordinal);
  }
};

}  // namespace feedrace::cuda
