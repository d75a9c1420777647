// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/outlook.h"

#include <algorithm>

namespace feedrace::verdict {
namespace {

// A part that was busy for less of the time can do more than its share says: at least so much.
constexpr double kBusyEnough = 0.8;
// A wait share above it says little of what the consumer could take.
constexpr double kBarelyBusy = 0.999;

std::optional<Ceiling> measured(const char* part, const std::optional<double>& rate) {
  if (!rate) return std::nullopt;
  return Ceiling{part, *rate, true, false};
}

}  // namespace

Outlook::Outlook(const Facts& facts) : facts_(facts) {
  storage_ = measured("storage", facts.ceilings.storage);
  if (!storage_ && facts.io && facts.io->busy_share > 0 && facts.images_per_second > 0) {
    storage_ = Ceiling{"storage", facts.images_per_second / facts.io->busy_share, false,
                       facts.io->busy_share < kBusyEnough};
  }
  if (facts.host.own_cpu_cores > 0 && facts.images_per_second > 0) {
    const double cpu_seconds_an_image = facts.host.own_cpu_cores / facts.images_per_second;
    cores_ = Ceiling{"cores", facts.usable_cores / cpu_seconds_an_image, false, false};
  }
  const auto rate = decode_rate();
  if (rate && !facts.reads_only) {
    const double threads = static_cast<double>(facts.decode->thread_count);
    const double own = std::min(threads, std::max(1.0, facts.usable_cores));
    decode_ = Ceiling{"decode", *rate * own, facts.ceilings.decode.has_value(), false};
  }
  consumer_ = measured("consumer", facts.ceilings.consumer);
  if (!consumer_ && facts.wait_share && *facts.wait_share < kBarelyBusy &&
      facts.images_per_second > 0) {
    consumer_ =
        Ceiling{"consumer", facts.images_per_second / (1 - *facts.wait_share), false, false};
  }
  loader_ = measured("loader", facts.ceilings.loader);
}

/// What the run shows, rather than what was measured at another hour.
std::optional<double> Outlook::decode_rate() const {
  if (!facts_.decode) return std::nullopt;
  if (facts_.decode->images_per_cpu_second > 0) return facts_.decode->images_per_cpu_second;
  return facts_.ceilings.decode;
}

std::optional<double> Outlook::indexed_rate() const {
  const auto now = decode_rate();
  if (!now || !facts_.ceilings.decode || !facts_.ceilings.decode_indexed) return std::nullopt;
  // The ratio holds where the rates do not: cores differ in speed from hour to hour.
  return *now * *facts_.ceilings.decode_indexed / *facts_.ceilings.decode;
}

double Outlook::least_of(std::optional<double> decode, std::optional<double> storage) const {
  double least = -1;
  const auto take = [&least](double rate) { least = least < 0 ? rate : std::min(least, rate); };
  if (decode) take(*decode);
  if (storage) take(*storage);
  if (consumer_) take(consumer_->images_per_second);
  return std::max(least, 0.0);
}

double Outlook::with_decode(double threads, double rate_of_one) const {
  double rate = threads * rate_of_one;
  const auto now = decode_rate();
  if (now && facts_.host.own_cpu_cores > 0 && facts_.images_per_second > 0) {
    // The CPU time that an image takes besides decoding stays: reading it, and the training loop's.
    const double all = facts_.host.own_cpu_cores / facts_.images_per_second;
    const double rest = std::max(0.0, all - 1 / *now);
    rate = std::min(rate, facts_.usable_cores / (rest + 1 / rate_of_one));
  }
  // A part that is only "at least" so fast is no reason to promise less.
  const bool is_known = storage_ && !storage_->is_at_least;
  return least_of(rate, is_known ? std::optional(storage_->images_per_second) : std::nullopt);
}

double Outlook::with_storage(double rate) const {
  const auto decode = decode_ ? std::optional(decode_->images_per_second) : std::nullopt;
  return least_of(decode, rate);
}

std::optional<double> Outlook::with_window(double times) const {
  if (!storage_ || !storage_->is_measured) return std::nullopt;
  return with_storage(std::min(times * facts_.images_per_second, storage_->images_per_second));
}

double Outlook::reads_in_flight() const {
  return facts_.reads_per_second * facts_.read_mean_ms * 1e-3;
}

double Outlook::with_batches_larger(std::size_t times) const {
  const double handing = facts_.handing_share.value_or(0);
  const double saved = handing * (1 - 1 / static_cast<double>(times));
  double rate = facts_.images_per_second / std::max(1 - saved, 1e-3);
  for (const auto* part : {&storage_, &decode_, &cores_}) {
    if (*part && !(*part)->is_at_least) rate = std::min(rate, (*part)->images_per_second);
  }
  return rate;
}

std::vector<Ceiling> Outlook::ceilings_without(const std::string& limiting) const {
  std::vector<Ceiling> all;
  for (const auto* one : {&storage_, &decode_, &cores_, &consumer_, &loader_}) {
    if (*one && (*one)->part != limiting) all.push_back(**one);
  }
  return all;
}

}  // namespace feedrace::verdict
