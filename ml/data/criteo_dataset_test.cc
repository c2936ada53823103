#include "ml/data/criteo_dataset.h"

#include <zlib.h>
#include <zstd.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "ml/data/ids/text_hash.h"
#include "ml/data/records/text_lines.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A line whose numbers are 0, 1, ... and whose texts are "a0", "a1", ...
std::vector<std::string> Cells(const std::string& label) {
  std::vector<std::string> cells = {label};
  for (int i = 0; i < 13; ++i) cells.push_back(absl::StrCat(i));
  for (int i = 0; i < 26; ++i) cells.push_back(absl::StrCat("a", i));
  return cells;
}

std::string Line(const std::vector<std::string>& cells) {
  return absl::StrJoin(cells, "\t") + "\n";
}

std::string Gzip(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(&out[0]);
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(&out[0], out.size(), text.data(), text.size(), 3));
  return out;
}

class CriteoDatasetTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Dataset>> Load(const std::string& bytes,
                                                int64_t max_examples = 0) {
    EXPECT_OK(WriteAtomically(*NewPosixFileSystem(), path_, bytes));
    CriteoOptions options;
    options.path = path_;
    options.max_examples = max_examples;
    return LoadCriteo(options);
  }

  const std::string path_ = testing::TempDir() + "/train.tsv";
};

TEST_F(CriteoDatasetTest, ReadsNumbersKeysAndLabels) {
  std::vector<std::string> second = Cells("0");
  second[1] = "";
  second[2] = "-2";
  second[14] = "";
  ASSERT_OK_AND_ASSIGN(const auto dataset, Load(Line(Cells("1")) + "\n" + Line(second)));
  ASSERT_EQ(dataset->size(), 2);
  ASSERT_EQ(dataset->fields().size(), 28u);
  EXPECT_EQ(dataset->fields()[1].name, "c1");
  EXPECT_EQ(dataset->num_classes(), 2);
  std::vector<float> numbers(26);
  std::vector<RaggedRows> columns(26);
  std::vector<int32_t> labels(2);
  std::vector<void*> outputs = {numbers.data()};
  for (RaggedRows& column : columns) outputs.push_back(&column);
  outputs.push_back(labels.data());
  ASSERT_OK(dataset->FillBatch(0, {1, 0}, outputs));
  EXPECT_THAT(labels, ElementsAre(0, 1));
  EXPECT_EQ(numbers[0], 0) << "missing";
  EXPECT_EQ(numbers[1], 0) << "negative";
  EXPECT_FLOAT_EQ(numbers[13 + 12], std::log(13.0f));
  EXPECT_THAT(columns[0].keys_of(0), IsEmpty());
  EXPECT_THAT(columns[0].keys_of(1), ElementsAre(static_cast<int64_t>(HashText("a0"))));
  EXPECT_THAT(columns[25].keys_of(0), ElementsAre(static_cast<int64_t>(HashText("a25"))));
}

TEST_F(CriteoDatasetTest, TextsHaveTheKeysOfXxh3) {
  EXPECT_EQ(HashText(""), 0x2d06800538d394c2u);
  EXPECT_EQ(HashText("a"), 0xe6c632b61e964e1fu);
}

TEST_F(CriteoDatasetTest, CompressedFilesHaveTheSameExamples) {
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> cells = Cells(i % 3 == 0 ? "1" : "0");
    cells[20] = absl::StrCat("x", i);
    text += Line(cells);
  }
  ASSERT_OK_AND_ASSIGN(const auto plain, Load(text));
  EXPECT_EQ(plain->size(), 3000);
  ASSERT_OK_AND_ASSIGN(const auto gzip, Load(Gzip(text)));
  EXPECT_EQ(gzip->fingerprint(), plain->fingerprint());
  ASSERT_OK_AND_ASSIGN(const auto zstd, Load(Zstd(text)));
  EXPECT_EQ(zstd->fingerprint(), plain->fingerprint());
  ASSERT_OK_AND_ASSIGN(const auto first, Load(text, 10));
  EXPECT_EQ(first->size(), 10);
  EXPECT_NE(first->fingerprint(), plain->fingerprint());
}

TEST_F(CriteoDatasetTest, DamagedFilesAreNamed) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += Line(Cells(absl::StrCat(i % 2)));
  for (const std::string& whole : {Gzip(text), Zstd(text)}) {
    EXPECT_THAT(Load(whole.substr(0, whole.size() / 2)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("train.tsv")));
  }
  CriteoOptions missing;
  missing.path = testing::TempDir() + "/none.tsv";
  EXPECT_THAT(LoadCriteo(missing), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.tsv")));
}

TEST_F(CriteoDatasetTest, BadCellsAreNamedWithLineAndColumn) {
  const auto error = [&](size_t cell, const std::string& value) {
    std::vector<std::string> cells = Cells("1");
    cells[cell] = value;
    return std::string(Load(Line(Cells("0")) + Line(cells)).status().message());
  };
  EXPECT_THAT(error(0, "2"), HasSubstr("train.tsv:2: column 1 (label) is \"2\", which is neither"));
  EXPECT_THAT(error(4, "1.5"), HasSubstr("train.tsv:2: column 5 (number 4) is \"1.5\", which is "
                                         "not an integer; correct or remove the line"));
  EXPECT_THAT(error(39, "a\tb"), HasSubstr("train.tsv:2: has more than 40 columns"));
  EXPECT_THAT(std::string(Load("1\t2\n").status().message()),
              HasSubstr("train.tsv:1: has only 2 columns separated by tabs"));
  EXPECT_THAT(std::string(Load("\n").status().message()), HasSubstr("holds no examples"));
}

TEST_F(CriteoDatasetTest, LinesMayEndWithTheFile) {
  EXPECT_OK(WriteAtomically(*NewPosixFileSystem(), path_, "one\r\n\ntwo"));
  ASSERT_OK_AND_ASSIGN(const auto lines, TextLines::Open(path_));
  absl::string_view line;
  std::vector<std::string> all;
  while (lines->Next(&line).value()) all.emplace_back(line);
  EXPECT_THAT(all, ElementsAre("one", "", "two"));
  EXPECT_EQ(lines->number(), 3);
}

}  // namespace
}  // namespace shoal
