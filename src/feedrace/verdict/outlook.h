// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/verdict.h"
#include "feedrace/verdict/facts.h"

namespace feedrace::verdict {

/// What each part of the run could give by itself, and so what a change would bring.
class Outlook {
 public:
  explicit Outlook(const Facts& facts);

  /// Of one decode thread on a core of its own, now and from crop indexes; images/s.
  std::optional<double> decode_rate() const;
  std::optional<double> indexed_rate() const;
  const std::optional<Ceiling>& storage() const noexcept { return storage_; }
  const std::optional<Ceiling>& consumer() const noexcept { return consumer_; }

  /// The whole, when a part is replaced by one of this rate. The others stay as they are.
  double with_decode(double threads, double rate_of_one) const;
  double with_storage(double rate) const;
  /// With so many times the reads in flight, by Little's law and as far as storage goes. Nothing
  /// where that was not measured: a run with few in flight does not show how many a device takes.
  std::optional<double> with_window(double times) const;
  /// On average, by Little's law.
  double reads_in_flight() const;
  /// Handing over costs the same whatever a batch holds.
  double with_batches_larger(std::size_t times) const;

  /// All that are known, but that of `limiting`.
  std::vector<Ceiling> ceilings_without(const std::string& limiting) const;

 private:
  double least_of(std::optional<double> decode, std::optional<double> storage) const;

  const Facts& facts_;
  std::optional<Ceiling> storage_, decode_, cores_, consumer_, loader_;
};

}  // namespace feedrace::verdict
