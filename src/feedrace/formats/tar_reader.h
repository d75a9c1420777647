// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/formats/tar_header.h"

namespace feedrace::formats {

/// Bytes that can be read anywhere. Thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size_bytes() const noexcept = 0;
  /// Fills `out` from `offset_bytes` and returns how much came: less only at the end.
  virtual Result<std::size_t> read(std::uint64_t offset_bytes, std::span<char> out) const = 0;
};

/// A local file; its size is that at the time of opening.
class FileSource : public ByteSource {
 public:
  /// Failures: kNotFound, kIo (permission, not a regular file).
  static Result<FileSource> open(const std::string& path);

  std::uint64_t size_bytes() const noexcept override {
    return static_cast<std::uint64_t>(status_.st_size);
  }
  Result<std::size_t> read(std::uint64_t offset_bytes, std::span<char> out) const override {
    return read_at(fd_.get(), path_, offset_bytes, out);
  }
  int fd() const noexcept { return fd_.get(); }
  const struct stat& status() const noexcept { return status_; }

 private:
  FileSource(Fd fd, std::string path, const struct stat& status)
      : fd_(std::move(fd)), path_(std::move(path)), status_(status) {}

  Fd fd_;
  std::string path_;
  struct stat status_{};
};

struct TarMember {
  enum class Kind {
    kFile,
    kLink,  ///< Hard or symbolic: no data of its own.
    kFolder,
    kSpecial,  ///< Device, pipe.
    kOther,    ///< Of a type that neither POSIX nor GNU gives to files.
  };

  std::string_view name;  ///< Valid until the next call of the reader.
  Kind kind = Kind::kFile;
  std::uint64_t header_offset_bytes = 0;  ///< Of the header block itself, behind its extensions.
  std::uint64_t data_offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// Finds the members of a tar archive by its headers alone: v7, ustar, GNU and pax; sizes beyond
/// 8 GiB; names of any length. Payloads are jumped over where members are large and read along
/// where they are small, whichever is the fewer microseconds. Not thread-safe.
class TarReader {
 public:
  /// `source` must outlive the reader. `name` stands in front of every message.
  TarReader(const ByteSource& source, std::string name);

  /// Fills `member` with the next one and returns true, or returns false at the end.
  /// Failures: kCorruptData (not a tar, damaged, cut), kUnsupported (compressed, sparse), kIo.
  /// After a failure or the end the reader is of no further use.
  Result<bool> next(TarMember& member);

  /// The bytes of a small member, which must be the last that `next` gave; valid until the next
  /// call of the reader. Failure: kIo.
  Result<std::string_view> content(const TarMember& member);

  /// After the end: true when the file ended with no zero block, as after a cut at a member border.
  bool end_mark_missing() const noexcept { return end_mark_missing_; }
  /// After the end: where bytes other than 0 lie behind the end mark (within 64 KiB); 0 for none.
  std::uint64_t trailing_data_offset() const noexcept { return trailing_data_offset_; }

 private:
  struct Extensions {
    PaxRecords pax;
    std::string long_name;  ///< Of a GNU 'L' member; empty: none.
    bool any = false;
  };

  Result<bool> next_header(TarMember& member, Extensions& extensions, bool& done);
  Result<void> take_extension(char type, std::uint64_t size, Extensions& extensions);
  Result<void> fill_member(const TarHeader& header, const Extensions& extensions,
                           TarMember& member);
  Result<void> check_extent(std::string_view member_name, std::uint64_t data_offset,
                            std::uint64_t size) const;
  Result<bool> end_of_archive(bool has_mark, const Extensions& extensions);
  Failure not_a_header(std::string_view block) const;
  Failure failure(ErrorCode code, const std::string& what) const;

  /// `bytes` bytes at `offset_bytes`, fewer at the end of the file.
  Result<std::string_view> bytes_at(std::uint64_t offset_bytes, std::size_t bytes);
  std::size_t window_size() noexcept;

  const ByteSource& source_;
  const std::string name_;
  const std::uint64_t size_bytes_;
  std::uint64_t at_ = 0;  // Of the next header.

  std::vector<char> window_;
  std::uint64_t window_begin_ = 0;
  std::size_t window_bytes_ = 0;
  std::size_t headers_in_window_ = 0;

  PaxRecords global_;
  std::string member_name_;
  bool end_mark_missing_ = false;
  std::uint64_t trailing_data_offset_ = 0;
};

}  // namespace feedrace::formats
