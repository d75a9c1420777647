// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/file_list.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/csv.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> entries_of(std::string_view content, const std::string& path) {
  const ListEntries entries = parse_list(content, path);
  std::vector<std::string> lines;
  for (std::uint64_t i = 0; i < entries.size(); ++i) {
    lines.push_back(
        fmt::format("{}={}", entries.path(i),
                    entries.labels.empty() ? "none" : std::to_string(entries.labels[i])));
  }
  return lines;
}

std::string error_of(std::string_view content, const std::string& path) {
  try {
    parse_list(content, path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    return error.what();
  }
  return "";
}

TEST(FileList, SplitsPlainLinesAtTheLastBlank) {
  EXPECT_THAT(entries_of(" a b.jpg\t 3 \r\n\n\"c\".jpg -1\n#d.jpg 0", "l.txt"),
              ElementsAre(" a b.jpg=3", "\"c\".jpg=-1", "#d.jpg=0"));
  EXPECT_THAT(error_of("a.jpg 1\n\nb.jpg\n", "l.txt"),
              HasSubstr("l.txt: line 3: no label behind 'b.jpg'"));
  EXPECT_THAT(error_of("a.jpg cat\n", "l.lst"),
              HasSubstr("line 1: label 'cat' is not a whole number"));
  EXPECT_THAT(error_of("\n \n", "l.txt"), HasSubstr("l.txt: no entries"));
  EXPECT_THAT(error_of(" 3\n", "l.txt"), HasSubstr("line 1: no label"));
}

TEST(FileList, ReadsCsvByRfc4180) {
  EXPECT_THAT(entries_of("a.jpg,1\r\n\"b,\"\"c\"\"\nd.jpg\",2\n\ne.jpg, 3 ", "l.csv"),
              ElementsAre("a.jpg=1", "b,\"c\"\nd.jpg=2", "e.jpg=3"));
  EXPECT_THAT(entries_of("Label,split,PATH\n7,train,a.jpg\n", "l.CSV"), ElementsAre("a.jpg=7"));
  EXPECT_THAT(entries_of("path\na.jpg\n", "l.csv"), ElementsAre("a.jpg=none"));
}

TEST(FileList, NamesTheLineOfABadCsvRow) {
  EXPECT_THAT(error_of("a.jpg,1\n\"x\ny\",2\nb.jpg\n", "l.csv"),
              HasSubstr("l.csv: line 4: 1 field where 2 are expected"));
  EXPECT_THAT(error_of("a.jpg,1\nb\"x,2\n", "l.csv"), HasSubstr("line 2: a quote inside a field"));
  EXPECT_THAT(error_of("\"a\"b,1\n", "l.csv"), HasSubstr("line 1: text behind the quote"));
  EXPECT_THAT(error_of("a,1\n\"b\n\n", "l.csv"), HasSubstr("line 2: a quote that is never closed"));
  EXPECT_THAT(error_of("a,x\n", "l.csv"), HasSubstr("line 1: label 'x'"));
  EXPECT_THAT(error_of(",1\n", "l.csv"), HasSubstr("line 1: the path is empty"));
  EXPECT_THAT(error_of(std::string_view("a\0b,1\n", 6), "l.csv"), HasSubstr("NUL"));
}

TEST(FileList, ReadsJsonLines) {
  EXPECT_THAT(entries_of("{\"path\": \"a \\u00e9.jpg\", \"label\": 3, \"x\": []}\r\n\n{\"label\": "
                         "-1, \"path\": \"b\"}",
                         "l.jsonl"),
              ElementsAre("a \xc3\xa9.jpg=3", "b=-1"));
  EXPECT_THAT(entries_of("{\"path\": \"a\"}\n{\"path\": \"b\"}\n", "l.jsonl"),
              ElementsAre("a=none", "b=none"));
  EXPECT_THAT(error_of("{\"path\": \"a\"}\n{\"path\": \"b\", \"label\": 1}\n", "l.jsonl"),
              HasSubstr("line 2: a label, though"));
  EXPECT_THAT(error_of("{\"path\": \"a\", \"label\": 1}\n{\"path\": \"b\"}\n", "l.jsonl"),
              HasSubstr("line 2: no label, though"));
  EXPECT_THAT(error_of("{\"path\": 3}\n", "l.jsonl"), HasSubstr("line 1: no member \"path\""));
  EXPECT_THAT(error_of("[]\n", "l.jsonl"), HasSubstr("line 1: no member \"path\""));
  EXPECT_THAT(error_of("{\"path\": \"a\", \"label\": 1.5}\n", "l.jsonl"),
              HasSubstr("line 1: JSON member 'label' is '1.5'"));
  EXPECT_THAT(error_of("{\n", "l.jsonl"), HasSubstr("line 1: not valid JSON"));
  EXPECT_THAT(error_of("{\"path\": \"a\\u0000b\", \"label\": 1}\n", "l.jsonl"), HasSubstr("NUL"));
}

TEST(FileList, FindsRelativePathsBesideTheListAndKeepsDoubleLines) {
  const feedrace::testing::TempDir folder;
  const std::string path =
      folder.write("lists/l.txt", "\xef\xbb\xbf../x.jpg 1\n/abs.jpg 2\n../x.jpg 1\n");
  const auto list = open_dataset({path});
  EXPECT_EQ(list->size(), 3u);
  EXPECT_EQ(list->path(0), folder / "lists/../x.jpg");
  EXPECT_EQ(list->path(1), "/abs.jpg");
  EXPECT_EQ(list->key(2), "../x.jpg");
  EXPECT_EQ(list->place(0).shard, Place::kOwnFile);
  EXPECT_EQ(list->max_image_bytes(), Place::kUnknownSize);
  const std::string before = list->fingerprint();
  folder.write("lists/l.txt", "../x.jpg 1\n/abs.jpg 3\n../x.jpg 1\n");
  EXPECT_NE(open_dataset({path})->fingerprint(), before);
}

TEST(FileList, WarnsWhenItHasNoLabels) {
  const feedrace::testing::TempDir folder;
  const std::string csv = folder.write("l.csv", "path\na.jpg\n");
  const std::string jsonl = folder.write("l.jsonl", "{\"path\": \"a.jpg\"}\n");
  for (const std::string& path : {csv, jsonl}) {
    const auto list = open_dataset({path});
    EXPECT_EQ(*list->label(0), -1);
    EXPECT_EQ(list->label_source(), "none: every label is -1");
    EXPECT_THAT(list->warnings(),
                ElementsAre(HasSubstr(path + ": no labels: every label is -1; add a ")));
  }
  const auto labelled = open_dataset({folder.write("l.txt", "a.jpg 3\n")});
  EXPECT_EQ(labelled->label_source(), "list");
  EXPECT_THAT(labelled->warnings(), ElementsAre());
}

}  // namespace
}  // namespace feedrace::formats
