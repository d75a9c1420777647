// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/checksum.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

namespace feedrace::pack {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

struct FreeState {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

}  // namespace

Result<std::string> checksum_of(const formats::ByteSource& source) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  if (state == nullptr || XXH3_128bits_reset(state.get()) != XXH_OK) {
    return Failure{ErrorCode::kIo, "no memory for a checksum"};
  }
  std::vector<char> buffer(kReadBytes);
  std::uint64_t at = 0;
  while (at < source.size_bytes()) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, source.size_bytes() - at));
    const Result<std::size_t> got = source.read(at, std::span(buffer).first(wanted));
    if (!got) return got.error();
    if (*got != wanted) {
      return Failure{
          ErrorCode::kIo,
          fmt::format("the file became shorter, {} bytes, while it was read", at + *got)};
    }
    XXH3_128bits_update(state.get(), buffer.data(), wanted);
    at += wanted;
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Result<std::string> checksum_of_file(const std::string& path) {
  const Result<formats::FileSource> file = formats::FileSource::open(path);
  return file ? checksum_of(*file) : file.error();
}

}  // namespace feedrace::pack
