// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/command.h"

#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::tools {
Exit exit_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
      return kWrongUse;
    case ErrorCode::kCorruptData:
      return kBadData;
    case ErrorCode::kIo:
    case ErrorCode::kUnsupported:
      return kEnvironment;
    case ErrorCode::kCancelled:
      return kInterrupted;
  }
  return kEnvironment;
}

void note(const std::string& sentence) noexcept {
  std::fputs(("feedrace: " + sentence + "\n").c_str(), stderr);
}

void warn(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) note(sentence);
}

std::string to_text(const FallbackCount& fallback) {
  return fmt::format("{} ({} {})", fallback.sentence, fallback.count,
                     fallback.count == 1 ? "time" : "times");
}

void warn(const std::vector<FallbackCount>& fallbacks) {
  for (const FallbackCount& each : fallbacks) note(to_text(each));
}

CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest) {
  const auto check = [lowest, highest](const std::string& text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_octal = text.size() > 1 && text.front() == '0';
    const bool is_whole = error == std::errc() && stop == end && !is_octal;
    if (is_whole && value >= lowest && value <= highest) return std::string();
    return fmt::format("{} is not a whole number from {} to {}", printable(text), lowest, highest);
  };
  return {check, "NUMBER"};
}

CLI::Validator finite_number(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_number = error == std::errc() && stop == end;
    if (is_number && value >= lowest && value <= highest) return std::string();  // Not nan.
    return fmt::format("{} is not a number from {} to {}", printable(text), lowest, highest);
  };
  return {check, "NUMBER"};
}

void add_command(CLI::App& command, Run run) {
  command.callback([run = std::move(run)] {
    if (const int code = run(); code != kGood) throw CLI::RuntimeError(code);
  });
}

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return text.empty() ? "an empty text was given; leave the option out, or give a value"
                        : std::string();
  };
  return {check, "TEXT"};
}

CLI::Option* DataOptions::add_to(CLI::App& command) {
  CLI::Option* path =
      command
          .add_option("path", sources,
                      "An image folder, tar shards (file, folder, glob or brace pattern) or a list")
          ->required();
  command
      .add_option("--image-fields", format.image_fields,
                  "Names of the image field in shards, the first found wins")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--label-field", format.label_field,
                  "Where a shard's label is: auto, cls, json, or none")
      ->capture_default_str();
  command
      .add_option("--label-json-key", format.label_json_key,
                  "The member of a .json field that holds the label")
      ->capture_default_str();
  command.add_option("--label-file", format.label_file, "A text file with a line 'key label' each");
  command.add_option("--cache-dir", format.cache_dir,
                     "Where indexes go when the shards' folder can't be written");
  return path;
}

}  // namespace feedrace::tools
