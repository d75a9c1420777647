// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/packed_folder.h"

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/pack/checksum.h"
#include "feedrace/pack/pack_files.h"

namespace feedrace::pack {
namespace {

/// Of a run that did not end; locks lie there only while one works, or where it was killed.
bool is_work(const std::string& name) {
  return name.starts_with(kWorkPrefix) && !name.ends_with("lock");
}

void look_for_work(const PackFolder& folder, bool has_manifest, std::vector<Found>& found) {
  const Result<std::vector<std::string>> names = folder.names();
  if (!names) raise(names.error());
  std::vector<std::string> work;
  for (const std::string& name : *names) {
    if (is_work(name)) work.push_back(printable(folder.path_of(name)));
  }
  if (work.empty()) return;
  const std::uint64_t count = work.size();
  const char* what =
      has_manifest ? "files that a run of pack left; the same command removes them"
                   : "a set that is not packed to its end; give the same command of pack again";
  found.push_back({"manifest", !has_manifest, what, count, std::move(work)});
}

void look_at_classes(const PackFolder& folder, const Manifest& manifest,
                     std::vector<Found>& found) {
  if (manifest.classes_xxh3_128.empty()) return;
  const std::string path = folder.path_of(kClassListFile);
  const Result<std::string> checksum = checksum_of_file(path);
  const auto add = [&](const char* what, std::string example) {
    found.push_back({"manifest", true, what, 1, {std::move(example)}});
  };
  if (!checksum && checksum.error().code == ErrorCode::kNotFound) {
    add("a class list that is not there", printable(path));
  } else if (!checksum) {
    add("a class list that can't be read", checksum.error().message);
  } else if (*checksum != manifest.classes_xxh3_128) {
    add("a class list of other bytes than the manifest says",
        fmt::format("{}: xxh3_128 {}, and the manifest says {}", printable(path), *checksum,
                    manifest.classes_xxh3_128));
  }
}

}  // namespace

std::vector<Found> look_at_packed_folder(const std::string& path, const Manifest* manifest) {
  const Result<PackFolder> folder = PackFolder::open(path, /*create=*/false);
  if (!folder) raise(folder.error());
  std::vector<Found> found;
  look_for_work(*folder, manifest != nullptr, found);
  if (manifest != nullptr) look_at_classes(*folder, *manifest, found);
  return found;
}

}  // namespace feedrace::pack
