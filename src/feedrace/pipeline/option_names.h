// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "feedrace/loader.h"

namespace feedrace::pipeline {

template <typename T>
using Names = std::map<std::string, T>;

// Values of options as the command line and Python spell them.
inline const Names<Shuffle> kShuffleNames = {
    {"none", Shuffle::kNone}, {"window", Shuffle::kWindow}, {"global", Shuffle::kGlobal}};
inline const Names<LastBatch> kLastBatchNames = {{"drop", LastBatch::kDrop},
                                                 {"pad", LastBatch::kPad},
                                                 {"partial", LastBatch::kPartial},
                                                 {"fill", LastBatch::kFill}};
inline const Names<CropIndexes> kCropIndexNames = {{"auto", CropIndexes::kAuto},
                                                   {"off", CropIndexes::kOff}};
inline const Names<OnError> kOnErrorNames = {
    {"raise", OnError::kRaise}, {"replace", OnError::kReplace}, {"zero", OnError::kZero}};

inline const Names<decode::JpegEngine> kJpegEngineNames = {
    {"feedrace", decode::JpegEngine::kFeedrace},
    {"libjpeg-turbo", decode::JpegEngine::kLibjpegTurbo}};

}  // namespace feedrace::pipeline
