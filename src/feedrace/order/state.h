// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/order.h"

namespace feedrace::order {

/// Of the state's layout. A state of a newer one is refused.
inline constexpr std::uint64_t kStateVersion = 1;

/// Parts of a data set in a state at most; sets with more have several side by side in one.
inline constexpr std::size_t kMostStateParts = 32;
/// A longer text is not looked at: 4,096 sets with long names in all their parts are shorter.
inline constexpr std::size_t kMostStateBytes = std::size_t{16} << 20;

/// A stretch of a data set (a shard, a class folder, or several side by side) and a digest of what
/// is in it, so that a message can say where two sets differ.
struct StatePart {
  std::string name;         ///< Of its first shard or folder.
  std::string digest;       ///< 8 hex digits.
  std::uint64_t count = 1;  ///< Shards or folders that it stands for.

  friend bool operator==(const StatePart&, const StatePart&) = default;
};

/// What a state keeps of the (name, digest of 16 hex digits) of all parts of a set, in their order:
/// one each up to `kMostStateParts`, above that neighbours in groups of equal count, the last of
/// which may be smaller.
std::vector<StatePart> state_parts(const std::vector<std::pair<std::string, std::string>>& parts);

/// One data set in a state.
struct SetState {
  std::string name;
  std::uint64_t sample_count = 0;    ///< Of the data set.
  std::uint64_t selected_count = 0;  ///< Of its subset.
  std::string fingerprint;           ///< `Dataset::fingerprint`.
  std::string key_fingerprint;       ///< `Dataset::key_fingerprint`; empty where not known.
  std::string key_set_fingerprint;   ///< `Dataset::key_set_fingerprint`; empty where not known.
  std::string subset;                ///< "all", or what the subset is, with a digest of it.
  std::uint64_t repeat = 1;
  double weight = 0;           ///< 0: not mixed by weight.
  std::uint64_t position = 0;  ///< Samples of it that came before, over all epochs.
  std::vector<StatePart> parts;

  friend bool operator==(const SetState&, const SetState&) = default;
};

/// Where a loader stands between two batches, and all that says what comes next. The same on every
/// rank, but for `bad_samples`. Its size does not depend on the number of samples.
struct State {
  std::uint64_t version = kStateVersion;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  ///< Samples of this epoch that all ranks together have got.
  Shuffle shuffle = Shuffle::kGlobal;
  std::uint64_t chunk_samples = 0;   ///< 0 but for `Shuffle::kWindow`.
  std::uint64_t window_samples = 0;  ///< 0 but for `Shuffle::kWindow`.
  std::uint64_t epoch_samples = 0;
  std::vector<SetState> sets;
  /// Where the weights of a mix were changed last: epoch and position in it, and each set's
  /// position there (by the order of `sets`). Empty: never.
  struct Origin {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    std::vector<std::uint64_t> set_positions;
    friend bool operator==(const Origin&, const Origin&) = default;
  } origin;

  // What may differ when going on; said, where it changes what is delivered.
  std::uint64_t batch_size = 0;
  std::uint64_t world_size = 1;
  std::string last_batch;
  std::string pipeline;
  std::string on_error;
  std::uint64_t bad_samples = 0;  ///< Of this epoch, on the rank that saved.

  friend bool operator==(const State&, const State&) = default;
};

/// One line of JSON with a checksum over the rest.
std::string to_json(const State& state);
/// Whether a text that begins so is a state that `to_json` wrote.
bool is_state_text(std::string_view head);

/// Failures, all kInvalidArgument: not JSON or cut short, no Feedrace state, a newer version, a
/// member missing or of a wrong kind or out of its range, a checksum that does not fit (edited).
/// Never throws, whatever the text. Members that it does not know are ignored.
Result<State> parse_state(std::string_view text);

/// What stands between a saved state and the loader that is to go on from it.
struct StateDifferences {
  std::vector<std::string> errors;  ///< Each forbids it: both values and what to do.
  std::vector<std::string> notes;   ///< It goes on, and says so.
};

/// Compares `saved` with `current`, the state that the new loader would have at its start.
/// `accept_changed_data`: data that differs becomes a note, as long as its number of samples is the
/// same. Sets are matched by name. Where every set of both sides has a weight, weights may differ
/// and sets come and go: a note.
StateDifferences compare(const State& saved, const State& current, bool accept_changed_data);

}  // namespace feedrace::order
