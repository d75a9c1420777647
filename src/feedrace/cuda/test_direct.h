// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of reads by cuFile share: a reader on the stub of libcufile, through the table of
// the plug-in, on a system whose /proc, /run and /dev are the test's own.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/test_stubs.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::cuda {

inline constexpr std::size_t kBlock = 4096;
inline constexpr std::size_t kPage = 65536;

inline std::string content_of(std::size_t bytes) {
  std::string content(bytes, '\0');
  std::uint32_t value = 1;
  for (char& c : content) c = static_cast<char>((value = value * 1664525U + 1013904223U) >> 24U);
  return content;
}

/// A descriptor, closed at the end.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(open(path.c_str(), flags)) {}
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

/// What a call gave.
struct Outcome {
  int status = FEEDRACE_CUDA_OK;
  std::string text;
  std::size_t bytes = 0;
};

class DirectTest : public OnStubs {
 protected:
  DirectTest() {
    system_.write("proc/modules", "");
    std::filesystem::create_directories(system_.path() / "run/udev");
    std::filesystem::create_directories(system_.path() / "dev");
    root_ = system_.path().string();
    options_.allow_compatible = 1;
    options_.system_root = root_.c_str();
  }
  ~DirectTest() override {
    close_all();
    for (const std::string& name : set_) unsetenv(name.c_str());
    EXPECT_EQ(feedrace_stub_calls("cuFileHandleRegister"),
              handles_told_to_fail_ + feedrace_stub_calls("cuFileHandleDeregister"));
  }

  void stub(const std::string& name, const std::string& value) {
    set_.push_back("FEEDRACE_STUB_CUFILE_" + name);
    setenv(set_.back().c_str(), value.c_str(), 1);
  }

  const feedrace_cuda_plugin& table() { return device_->table(); }

  Outcome open_direct() {
    feedrace_cuda_error error{};
    const int status = table().open_direct(device_->handle(), &options_, &direct_, &error);
    return {status, error.message};
  }
  Outcome open_file(int descriptor, feedrace_cuda_file** file) {
    feedrace_cuda_error error{};
    const int status = table().open_file(direct_, descriptor, file, &error);
    if (status != 0) ++handles_told_to_fail_;
    return {status, error.message};
  }
  /// A reader, memory of 4 pages and a file.
  void open_all(const std::string& content) {
    ASSERT_EQ(open_direct().text, "");
    take_memory();
    path_ = files_.write("data", content);
    descriptor_ = std::make_unique<Descriptor>(path_, O_RDONLY | O_DIRECT);
    ASSERT_EQ(open_file(descriptor_->number(), &file_).text, "");
  }
  void take_memory() {
    memory_ = DeviceMemory(device_, 4 * kPage);
    std::memset(bytes_of_memory(), 0x55, memory_.size_bytes());
    feedrace_cuda_error error{};
    ASSERT_EQ(table().register_memory(direct_, memory_.address(), 4 * kPage, &error), 0)
        << error.message;
  }
  void close_all() {
    table().close_file(std::exchange(file_, nullptr));
    table().close_direct(std::exchange(direct_, nullptr));
    memory_ = {};
  }

  /// The stub's device memory is the host's.
  char* bytes_of_memory() { return reinterpret_cast<char*>(memory_.address()); }
  std::string read_back(std::size_t from, std::size_t bytes) {
    return {bytes_of_memory() + from, bytes};
  }

  Outcome read(std::size_t bytes, std::uint64_t file_offset, std::uint64_t memory_offset = 0) {
    feedrace_cuda_error error{};
    Outcome out;
    out.status = table().read(file_, memory_.address(), bytes, file_offset, memory_offset,
                              &out.bytes, &error);
    out.text = error.message;
    return out;
  }
  feedrace_cuda_direct_counts counts() {
    feedrace_cuda_direct_counts counts{};
    feedrace_cuda_error error{};
    EXPECT_EQ(table().direct_counts(direct_, &counts, &error), 0);
    return counts;
  }
  nlohmann::json facts() {
    std::string text(65536, '\0');
    std::size_t needed = 0;
    feedrace_cuda_error error{};
    EXPECT_EQ(table().direct_facts(direct_, text.data(), text.size(), &needed, &error), 0)
        << error.message;
    return nlohmann::json::parse(text.c_str());
  }

  const testing::TempDir system_;
  const testing::TempDir files_;
  std::string root_;
  feedrace_cuda_direct_options options_{};
  std::shared_ptr<Device> device_ = device();
  feedrace_cuda_direct* direct_ = nullptr;
  feedrace_cuda_file* file_ = nullptr;
  DeviceMemory memory_;
  std::string path_;
  std::unique_ptr<Descriptor> descriptor_;
  std::vector<std::string> set_;
  std::uint64_t handles_told_to_fail_ = 0;  // That is: open_file calls that failed at all.
};

}  // namespace feedrace::cuda
