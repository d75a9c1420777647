// SPDX-License-Identifier: Apache-2.0
// Our tar reader against Python's tarfile, on random archives that tarfile, GNU tar and bsdtar
// wrote in every format that they know.

#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/formats/tar_reader.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using nlohmann::json;

/// Makes archives of random trees in the folder argv[1] with seed argv[2], and prints what tarfile
/// finds in each: {"archive": [[name as hex, kind, data offset, size], ...]}.
constexpr const char* kScript = R"py(
import io, json, os, random, shutil, subprocess, sys, tarfile

root, seed = sys.argv[1], int(sys.argv[2])
random.seed(seed)

def name(longest):
    alphabet = "abcXYZ019._- " + "\u00e9\u6771\U0001f600"
    text = "".join(random.choice(alphabet) for _ in range(random.randint(1, longest)))
    return text.strip(" .") or "n"

def long_name():
    return "/".join(name(40) for _ in range(random.randint(1, 9)))

def content():
    return random.randbytes(random.choice([0, 1, 511, 512, 513, 1024, 5000, 70000]))

def add_random(tar):
    for _ in range(random.randint(1, 40)):
        info = tarfile.TarInfo(random.choice([lambda: name(40), long_name])())
        kind = random.random()
        data = b""
        if kind < 0.7:
            data = content()
            info.size = len(data)
        elif kind < 0.8:
            info.type = tarfile.DIRTYPE
        elif kind < 0.9:
            info.type, info.linkname = tarfile.SYMTYPE, long_name()
        else:
            info.type, info.linkname = tarfile.LNKTYPE, long_name()
        info.mtime = random.choice([0, 1234567890.5, 2**33])
        info.uid = random.choice([0, 1000, 2**22])
        info.uname = random.choice(["", "user", "\u00fc" * 10])
        try:
            tar.addfile(info, io.BytesIO(data))
        except ValueError:
            pass  # Does not fit the format.

made = []
for format_name, number in [("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)]:
    path = os.path.join(root, f"python-{format_name}.tar")
    headers = {"comment": "x" * random.randint(1, 900)} if number == tarfile.PAX_FORMAT else None
    with tarfile.open(path, "w", format=number, pax_headers=headers) as tar:
        add_random(tar)
    made.append(path)

tree = os.path.join(root, "tree")
for _ in range(30):
    path = os.path.join(tree, name(20), name(60), name(90))
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content())
    except OSError:
        pass  # A folder where the name wants a file, or the reverse.
for program, flag, formats in [("tar", "--format=", ["v7", "oldgnu", "gnu", "ustar", "posix"]),
                               ("bsdtar", "--format=", ["ustar", "pax", "gnutar", "v7"])]:
    if not shutil.which(program):
        continue
    for format_name in formats:
        path = os.path.join(root, f"{program}-{format_name}.tar")
        # Names that v7 and ustar cannot hold are left out with a complaint; that is fine here.
        subprocess.run([program, "-c", flag + format_name, "-f", path, "-C", tree, "."],
                       stderr=subprocess.DEVNULL, check=False)
        made.append(path)

listing = {}
for path in made:
    with tarfile.open(path, "r:") as tar:
        listing[path] = [
            [os.fsencode(m.name).hex(), "file" if m.isreg() else "link" if m.issym() or m.islnk() else "folder",
             m.offset_data if m.isreg() else 0, m.size if m.isreg() else 0] for m in tar]
json.dump(listing, sys.stdout)
)py";

/// Standard output of a command; empty when it fails.
std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::string part(65536, '\0');
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe))
    text.append(part, 0, got);
  return pclose(pipe) == 0 ? text : "";
}

json our_listing(const std::string& path) {
  json members = json::array();
  const auto source = FileSource::open(path);
  if (!source) return source.error().message;
  TarReader reader(*source, path);
  TarMember member;
  while (true) {
    const Result<bool> found = reader.next(member);
    if (!found) return found.error().message;
    if (!*found) return members;
    std::string_view name = member.name;
    while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);  // As tarfile does.
    std::string hex;
    for (const char c : name) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    const bool is_file = member.kind == TarMember::Kind::kFile;
    const bool is_link = member.kind == TarMember::Kind::kLink;
    members.push_back({hex, is_file ? "file" : (is_link ? "link" : "folder"),
                       is_file ? member.data_offset_bytes : 0, is_file ? member.size_bytes : 0});
  }
}

TEST(TarPeers, AgreeWithUsOnRandomArchivesOfEveryFormat) {
  if (output_of("python3 -c 'print(1)' 2>/dev/null").empty()) GTEST_SKIP() << "no python3 here";
  std::size_t member_count = 0;
  for (int seed = 0; seed < 5; ++seed) {
    const feedrace::testing::TempDir folder;
    const std::string script = folder.write("make.py", kScript);
    const std::string text =
        output_of(fmt::format("python3 {} {} {}", script, folder.path().native(), seed));
    ASSERT_FALSE(text.empty()) << "seed " << seed;
    const json listing = json::parse(text);
    EXPECT_GE(listing.size(), 3u);
    for (const auto& [path, members] : listing.items()) {
      EXPECT_EQ(our_listing(path), members) << "seed " << seed << ", " << path;
      member_count += members.size();
    }
  }
  EXPECT_GT(member_count, 1000u);
}

}  // namespace
}  // namespace feedrace::formats
