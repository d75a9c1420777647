// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace feedrace::doctor {

enum class Grade {
  kGood,
  kAdvice,   ///< Works, and would be better otherwise.
  kProblem,  ///< Takes speed or a path away.
  kUnknown,  ///< Can't be seen from here.
};

/// How much the item decides about the rate of a loader.
enum class Weight { kLittle, kSome, kLarge };

const char* to_string(Grade grade) noexcept;    ///< "good", "advice", "problem", "unknown".
const char* to_string(Weight weight) noexcept;  ///< "little", "some", "large".

/// What was looked at, and what follows.
struct Finding {
  std::string item;     ///< A stable name for scripts: "io_scheduler".
  std::string subject;  ///< Of what: "nvme0n1", "/data". Empty: the machine.
  Grade grade = Grade::kUnknown;
  Weight weight = Weight::kLittle;
  std::string found;   ///< "mq-deadline"; for `kUnknown` why it can't be seen.
  std::string wanted;  ///< "none".
  std::string why;     ///< One sentence.
  std::string tip;     ///< What is often advised, and whether it still holds. May be empty.
  std::string fix;     ///< Commands for a shell, as root; empty where there are none.
};

using Findings = std::vector<Finding>;

}  // namespace feedrace::doctor
