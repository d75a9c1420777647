// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/tar_reader.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

/// One page: a small member's header, its data and the next header usually lie in it.
constexpr std::size_t kJumpBytes = 4096;
/// What is read at once where members are small.
constexpr std::size_t kStreamBytes = std::size_t{128} << 10;
/// Distance between headers up to which reading everything beats one system call a header: a call
/// costs about 1 us, in which memory copies some 10 KB.
constexpr std::uint64_t kStreamStride = 16384;
/// Of one extended header. GNU tar and libarchive stop at 1 MiB as well.
constexpr std::uint64_t kMaxExtensionBytes = std::uint64_t{1} << 20;
/// How far behind the end mark something other than 0 is looked for.
constexpr std::size_t kTrailingBytes = std::size_t{64} << 10;

constexpr std::uint64_t padded(std::uint64_t bytes) noexcept {
  return (bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

TarMember::Kind kind_of(char type, std::string_view name) noexcept {
  switch (type) {
    case '\0':  // v7 marks folders by the name alone.
    case '0':
      return name.ends_with('/') ? TarMember::Kind::kFolder : TarMember::Kind::kFile;
    case '7':  // Contiguous; the same to us.
      return TarMember::Kind::kFile;
    case '1':
    case '2':
      return TarMember::Kind::kLink;
    case '3':
    case '4':
    case '6':
      return TarMember::Kind::kSpecial;
    case '5':
    case 'D':  // GNU: a folder with a listing of its entries.
    case 'V':  // GNU: a volume's label.
      return TarMember::Kind::kFolder;
    default:
      return TarMember::Kind::kOther;
  }
}

/// Links, folders and devices have no data, whatever their size field says.
bool has_data(char type) noexcept { return type < '1' || type > '6'; }

}  // namespace

Result<FileSource> FileSource::open(const std::string& path) {
  Result<Fd> fd = open_for_reading(path);
  if (!fd) return fd.error();
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return system_failure(path, "stat", errno);
  if (!S_ISREG(status.st_mode)) {
    return Failure{ErrorCode::kIo,
                   fmt::format("{}: not a regular file; a shard is a tar file", printable(path))};
  }
  return FileSource(*std::move(fd), path, status);
}

TarReader::TarReader(const ByteSource& source, std::string name)
    : source_(source), name_(std::move(name)), size_bytes_(source.size_bytes()) {}

Failure TarReader::failure(ErrorCode code, const std::string& what) const {
  return {code, fmt::format("{}: {}", printable(name_), what)};
}

Result<std::string_view> TarReader::bytes_at(std::uint64_t offset_bytes, std::size_t bytes) {
  const std::uint64_t left = offset_bytes < size_bytes_ ? size_bytes_ - offset_bytes : 0;
  bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left));
  const bool inside =
      offset_bytes >= window_begin_ && offset_bytes - window_begin_ + bytes <= window_bytes_;
  if (!inside) {
    const std::size_t wanted = std::max(bytes, window_size());
    if (window_.size() < wanted) window_.resize(wanted);
    const auto ask = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, left));
    const Result<std::size_t> got = source_.read(offset_bytes, std::span(window_.data(), ask));
    if (!got) return got.error();
    if (*got < ask) {
      return failure(ErrorCode::kIo, fmt::format("became shorter while it was read: {} of {} bytes "
                                                 "at offset {}; leave shards alone while in use",
                                                 *got, ask, offset_bytes));
    }
    window_begin_ = offset_bytes;
    window_bytes_ = ask;
  }
  return std::string_view(window_.data() + (offset_bytes - window_begin_), bytes);
}

std::size_t TarReader::window_size() noexcept {
  // How far apart headers were in the last window, up to where the reader stands now.
  const std::uint64_t distance = at_ - std::min(at_, window_begin_);
  const std::size_t headers = std::exchange(headers_in_window_, 0);
  const bool small_members = headers > 0 && distance / headers <= kStreamStride;
  return small_members ? kStreamBytes : kJumpBytes;
}

Result<bool> TarReader::next(TarMember& member) {
  Extensions extensions;
  bool done = false;
  while (true) {
    Result<bool> found = next_header(member, extensions, done);
    if (!found || *found || done) return found;
  }
}

/// One header block: true when it was a member, false when it was an extension or (`done`) the end.
Result<bool> TarReader::next_header(TarMember& member, Extensions& extensions, bool& done) {
  const Result<std::string_view> block = bytes_at(at_, kTarBlockBytes);
  if (!block) return block.error();
  if (block->size() < kTarBlockBytes || is_zero_block(*block)) {
    done = true;
    return end_of_archive(block->size() == kTarBlockBytes, extensions);
  }
  if (!tar_checksum_matches(*block)) return not_a_header(*block);
  const TarHeader header = parse_tar_header(*block);
  ++headers_in_window_;
  const bool is_extension = header.type == 'x' || header.type == 'X' || header.type == 'g' ||
                            header.type == 'L' || header.type == 'K';
  if (!is_extension) {
    const Result<void> filled = fill_member(header, extensions, member);
    if (!filled) return filled.error();
    return true;
  }
  const auto size = parse_tar_number(header.size_field);
  if (size && *size > kMaxExtensionBytes) {
    return failure(ErrorCode::kCorruptData,
                   fmt::format("extended header at offset {} claims {} bytes, and more than {} are "
                               "not read; the shard is damaged, copy or pack it anew",
                               at_, with_commas(*size), with_commas(kMaxExtensionBytes)));
  }
  if (!size) {
    return failure(ErrorCode::kCorruptData,
                   fmt::format("extended header at offset {} has a bad size field '{}'; the shard "
                               "is damaged, copy or pack it anew",
                               at_, printable(header.size_field)));
  }
  const Result<void> taken = take_extension(header.type, *size, extensions);
  if (!taken) return taken.error();
  return false;
}

Result<void> TarReader::take_extension(char type, std::uint64_t size, Extensions& extensions) {
  const std::uint64_t header_at = at_;
  if (Result<void> fits = check_extent("extended header", at_ + kTarBlockBytes, size); !fits) {
    return fits;
  }
  const auto text = bytes_at(at_ + kTarBlockBytes, static_cast<std::size_t>(size));
  if (!text) return text.error();
  at_ += kTarBlockBytes + padded(size);
  extensions.any = extensions.any || type != 'g';
  if (type == 'K') return {};  // A link's target; links are left out.
  if (type == 'L') {
    extensions.long_name = text->substr(0, text->find('\0'));
    return {};
  }
  Result<void> parsed = (type == 'g' ? global_ : extensions.pax).parse(*text);
  if (parsed) return parsed;
  return failure(parsed.error().code, fmt::format("extended header at offset {}: {}", header_at,
                                                  parsed.error().message));
}

Result<void> TarReader::fill_member(const TarHeader& header, const Extensions& extensions,
                                    TarMember& member) {
  member_name_.clear();
  if (extensions.pax.path) {
    member_name_ = *extensions.pax.path;
  } else if (!extensions.long_name.empty()) {
    member_name_ = extensions.long_name;
  } else if (global_.path) {
    member_name_ = *global_.path;
  } else {
    member_name_.append(header.prefix);
    if (!header.prefix.empty()) member_name_.push_back('/');
    member_name_.append(header.name);
  }
  const bool sparse = header.type == 'S' || extensions.pax.sparse || global_.sparse;
  if (sparse) {
    return failure(ErrorCode::kUnsupported,
                   fmt::format("member {} at offset {} is sparse, which cannot be read in place; "
                               "pack the shard without --sparse",
                               printable(member_name_), at_));
  }
  std::optional<std::uint64_t> size = extensions.pax.size;
  if (!size) size = global_.size;
  if (!size) size = parse_tar_number(header.size_field);
  if (!has_data(header.type)) size = 0;
  if (!size) {
    return failure(
        ErrorCode::kCorruptData,
        fmt::format("member {} at offset {} has a bad size field '{}' in its header; the "
                    "shard is damaged, copy or pack it anew",
                    printable(member_name_), at_, printable(header.size_field)));
  }
  member = {member_name_, kind_of(header.type, member_name_), at_, at_ + kTarBlockBytes, *size};
  if (Result<void> fits = check_extent(member_name_, member.data_offset_bytes, *size); !fits) {
    return fits;
  }
  at_ = member.data_offset_bytes + padded(*size);
  return {};
}

Result<void> TarReader::check_extent(std::string_view member_name, std::uint64_t data_offset,
                                     std::uint64_t size) const {
  // Compared without adding: a header can claim any 63 bits.
  const std::uint64_t left = size_bytes_ - data_offset;
  if (size <= left && padded(size) <= left) return {};
  return failure(
      ErrorCode::kCorruptData,
      fmt::format("truncated: {} at offset {} claims a size of {} bytes, but the shard ends "
                  "{} bytes behind its header, at {}; copy or pack the shard anew",
                  printable(member_name), data_offset - kTarBlockBytes, size, left, size_bytes_));
}

Result<bool> TarReader::end_of_archive(bool has_mark, const Extensions& extensions) {
  if (extensions.any) {
    return failure(ErrorCode::kCorruptData,
                   fmt::format("truncated: the shard ends at offset {} behind an extended header "
                               "without its member; copy or pack the shard anew",
                               at_));
  }
  if (size_bytes_ == 0) {
    return failure(ErrorCode::kCorruptData,
                   "empty file (0 bytes), not a tar; copy or pack the shard anew");
  }
  const auto rest = bytes_at(at_, kTrailingBytes);
  if (!rest) return rest.error();
  const std::size_t found = rest->find_first_not_of('\0');
  if (!has_mark) {
    if (found != std::string_view::npos) return not_a_header(*rest);
    end_mark_missing_ = true;
  } else if (found != std::string_view::npos) {
    trailing_data_offset_ = at_ + found;
  }
  return false;
}

Failure TarReader::not_a_header(std::string_view block) const {
  if (at_ != 0 && block.size() < kTarBlockBytes) {
    return failure(
        ErrorCode::kCorruptData,
        fmt::format("truncated: the shard ends within a header, {} bytes behind offset {}; "
                    "copy or pack the shard anew",
                    block.size(), at_));
  }
  if (at_ != 0) {
    return failure(
        ErrorCode::kCorruptData,
        fmt::format("not a tar header at offset {} (its checksum is wrong); the shard is "
                    "damaged, copy or pack it anew",
                    at_));
  }
  if (const std::string_view compression = compression_of(block); !compression.empty()) {
    return failure(ErrorCode::kUnsupported,
                   fmt::format("compressed with {}, which allows no random access; unpack it to a "
                               "plain .tar",
                               compression));
  }
  return failure(
      ErrorCode::kCorruptData,
      fmt::format("not a tar: no tar header at offset 0 of {} bytes; check what wrote it",
                  size_bytes_));
}

Result<std::string_view> TarReader::content(const TarMember& member) {
  auto text = bytes_at(member.data_offset_bytes, static_cast<std::size_t>(member.size_bytes));
  if (!text || text->size() == member.size_bytes) return text;
  return failure(ErrorCode::kIo,
                 "became shorter while it was read; leave shards alone while in use");
}

}  // namespace feedrace::formats
