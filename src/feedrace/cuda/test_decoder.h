// SPDX-License-Identifier: Apache-2.0
#pragma once

// nvJPEG on the stubs: what the tests of the decoder share.

#include "feedrace/cuda/test_jpegs.h"
#include "feedrace/cuda/test_stubs.h"

namespace feedrace::cuda {

class DecoderTest : public OnStubs {};

}  // namespace feedrace::cuda
