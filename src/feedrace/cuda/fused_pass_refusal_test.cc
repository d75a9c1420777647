// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <vector>

#include "feedrace/cuda/test_fused_pass.h"

namespace feedrace::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A small call that would succeed, to be spoiled.
class FusedPassRefusal : public FusedPassOnStubs {
 protected:
  FusedPassRefusal() : memory_(device_, 4096), samples_{whole(ops::noise(9, 7, 9), {8, 8})} {
    samples_[0].place();
    feedrace_cuda_output output = output_of({8, 8}, all_formats().back());
    output.address = memory_.address();
    call_ = prepare(samples_, output);
  }
  ~FusedPassRefusal() override { stream_.reset(); }  // Waits for what a call put on it.
  std::string refusal() { return failure(call_, FEEDRACE_CUDA_INVALID); }

  DeviceMemory memory_;
  std::vector<Sample> samples_;
  Call call_;
};

TEST_F(FusedPassRefusal, NamesTheImageAndWhatIsWrongWithIt) {
  const Call& good = call_;
  const feedrace_cuda_geometry geometry = good.geometries[0];
  const feedrace_cuda_picture picture = good.pictures[0];
  const auto spoil = [&](const auto& change) {
    call_.geometries[0] = geometry;
    call_.pictures[0] = picture;
    change(call_.geometries[0], call_.pictures[0]);
    return refusal();
  };
  EXPECT_THAT(spoil([](auto& g, auto&) { g.box_width_px = 0; }), HasSubstr("the box is 0 x 7"));
  EXPECT_THAT(spoil([](auto& g, auto&) { g.box_x_px = 1; }),
              HasSubstr("image 0: the box ends at 10, 7, the picture is 9 x 7"));
  EXPECT_THAT(spoil([](auto& g, auto&) { g.full_height_px = 0; }), HasSubstr("full size is 0"));
  EXPECT_THAT(spoil([](auto& g, auto&) { g.full_width_px = std::uint64_t{1} << 52U; }),
              HasSubstr("full size is 4503599627370496"));
  EXPECT_THAT(spoil([](auto& g, auto&) { g.window_x_px = INT64_MIN; }),
              HasSubstr("window begins at -9223372036854775808"));
  EXPECT_THAT(spoil([](auto&, auto& p) { p.row_bytes = 26; }),
              HasSubstr("rows are 26 bytes apart, 9 pixels take 27"));
  EXPECT_THAT(spoil([](auto&, auto& p) { p.address = 0; }), HasSubstr("the picture is at 0"));
  EXPECT_EQ(feedrace_stub_calls("cuLaunchKernel"), 0U);
}

TEST_F(FusedPassRefusal, NamesWhatIsWrongWithTheOutputAndTheMemory) {
  const feedrace_cuda_output output = call_.output;
  const auto spoil = [&](const auto& change) {
    call_.output = output;
    change(call_.output);
    return refusal();
  };
  EXPECT_THAT(spoil([](auto& o) { o.width_px = 0; }), HasSubstr("the output is 0 x 8"));
  EXPECT_THAT(spoil([](auto& o) { o.dtype = 3; }), HasSubstr("dtype 3"));
  EXPECT_THAT(spoil([](auto& o) { o.std[1] = 0; }), HasSubstr("channel 1: mean 0.456, std 0"));
  EXPECT_THAT(spoil([](auto& o) { o.mean[2] = NAN; }), HasSubstr("channel 2: mean nan"));
  EXPECT_THAT(spoil([](auto& o) { o.address += 2; }), HasSubstr("elements of 4 bytes"));
  call_.output = output;
  call_.staging_bytes = 255;
  EXPECT_THAT(refusal(), HasSubstr("255 bytes of staging for 1 images; give 256 for each"));
  call_.staging_bytes = 256;
  call_.scratch_bytes -= 1;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("bytes of scratch"), HasSubstr("ask fused_pass_scratch")));
  std::size_t bytes = 0;
  call_.output.height_px = 0;
  EXPECT_EQ(device_->table().fused_pass_scratch(device_->handle(), call_.geometries.data(), 1,
                                                &call_.output, &bytes, &call_.error),
            FEEDRACE_CUDA_INVALID);
}

TEST_F(FusedPassRefusal, SaysWhichCallOfTheDriverFailed) {
  struct Case {
    const char* call;
    int nth;
    const char* said;
  };
  const Case cases[] = {
      {"cuCtxPushCurrent_v2", 1, ""},
      {"cuDeviceGetAttribute", 1, "cuDeviceGetAttribute of the compute capability: error 1"},
      {"cuModuleLoadData", 1, "cuModuleLoadData of the kernels: error 1"},
      {"cuModuleGetFunction", 1, "cuModuleGetFunction of feedrace_fused_weights: error 1"},
      {"cuModuleGetFunction", 2, "cuModuleGetFunction of feedrace_fused_pass_float32: error 1"},
      {"cuFuncSetAttribute", 1, "cuFuncSetAttribute of feedrace_fused_pass_float32"},
      {"cuMemcpyHtoDAsync_v2", 1, "cuMemcpyHtoDAsync of 1 images' parameters: error 1"},
      {"cuLaunchKernel", 1, "cuLaunchKernel of feedrace_fused_weights, 1 x 2 blocks: error 1"},
      {"cuLaunchKernel", 2, "cuLaunchKernel of feedrace_fused_pass_float32"},
  };
  for (const Case& c : cases) {
    feedrace_stub_fail(c.call, c.nth, 1);
    EXPECT_THAT(refusal(), HasSubstr(c.said)) << c.call;
  }
  EXPECT_EQ(run(call_), FEEDRACE_CUDA_OK);  // Nothing that failed stays behind.
}

class FusedPassTooOld : public FusedPassOnStubs {};

TEST_F(FusedPassTooOld, TheDriverIsRefusedWithTheRemedy) {
  stream_.reset();
  device_.reset();
  feedrace_stub_set_driver_version(12040);
  device_ = device();
  stream_ = std::make_unique<Stream>(device_);
  Sample sample = whole(ops::noise(4, 4, 10), {4, 4});
  sample.place();
  const DeviceMemory memory(device_, 4096);
  feedrace_cuda_output output = output_of({4, 4}, all_formats().front());
  output.address = memory.address();
  Call call = prepare({sample}, output);
  EXPECT_THAT(failure(call, FEEDRACE_CUDA_UNSUPPORTED),
              AllOf(HasSubstr("the driver is for CUDA 12.4, the kernels are built for CUDA 13."),
                    HasSubstr("install a newer driver")));
}

TEST_F(FusedPassTooOld, TheDeviceIsRefusedWithTheRemedy) {
  stream_.reset();
  device_.reset();
  feedrace_stub_set_compute(7, 5);
  device_ = device();
  stream_ = std::make_unique<Stream>(device_);
  Sample sample = whole(ops::noise(4, 4, 10), {4, 4});
  sample.place();
  const DeviceMemory memory(device_, 4096);
  feedrace_cuda_output output = output_of({4, 4}, all_formats().front());
  output.address = memory.address();
  Call call = prepare({sample}, output);
  EXPECT_THAT(failure(call, FEEDRACE_CUDA_UNSUPPORTED),
              AllOf(HasSubstr("compute capability 7.5, the kernels need 8.0"),
                    HasSubstr("device=\"cpu\"")));
}

}  // namespace
}  // namespace feedrace::cuda
