// The commands that read tables from checkpoints: export --tables, lookup and inspect.
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "deploy/export_command.h"
#include "deploy/inspect_command.h"
#include "deploy/lookup_command.h"
#include "deploy/table_export.h"
#include "ml/data/ids/text_hash.h"
#include "ml/data/records/npy_file.h"
#include "nlohmann/json.hpp"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_testing.h"
#include "runtime/checkpoint/model_export.h"

namespace shoal {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TableCommandsTest : public ::testing::Test {
 protected:
  TableCommandsTest() {
    std::string pattern = ::testing::TempDir() + "/tables.XXXXXX";
    out_ = mkdtemp(pattern.data());
    rows_ = out_ + "/rows/of/tables";
  }

  void Save(uint64_t step, bool with_table = true) {
    SaveOptions options;
    options.step = step;
    options.with_table = with_table;
    EXPECT_OK(SaveTestRun(*files_, out_ + "/checkpoints", options));
  }

  // Returns the exit code; keeps what is printed.
  int Run(int (*command)(absl::Span<const std::string>), std::vector<std::string> args) {
    args.insert(args.begin(), "--out=" + out_);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = command(args);
    printed_ = ::testing::internal::GetCapturedStdout();
    errors_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  // Returns export.json with sorted fields, in one line.
  std::string Description() { return Sorted(ReadFile(*files_, rows_ + "/export.json").value()); }
  static std::string Sorted(const std::string& json) { return nlohmann::json::parse(json).dump(); }

  NpyArray Array(const std::string& name) { return ReadNpyFile(rows_ + "/" + name).value(); }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string out_, rows_, printed_, errors_;
};

TEST_F(TableCommandsTest, ExportWritesAllRowsAsArrays) {
  Save(7);
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 0) << errors_;
  EXPECT_EQ(printed_, "step 7: item 39 rows; in " + rows_ + "\n");
  const NpyArray keys = Array("item.keys.npy"), values = Array("item.values.npy");
  EXPECT_EQ(keys.Type(), "<u8");
  EXPECT_EQ(values.Type(), "<f4");
  ASSERT_EQ(keys.dims, (std::vector<int64_t>{39}));
  ASSERT_EQ(values.dims, (std::vector<int64_t>{39, 2}));
  double sum = 0;
  for (int64_t row = 0; row < 39; ++row) {
    sum += keys.At(row);
    EXPECT_EQ(values.At(2 * row), 10 * keys.At(row) + 7);
    EXPECT_EQ(values.At(2 * row + 1), 10 * keys.At(row) + 8);
  }
  EXPECT_EQ(sum, 39 * 40 / 2 - 7);
  EXPECT_FALSE(FileExists(*files_, rows_ + "/item.removed.npy"));
}

// --init_from takes such a directory.
TEST_F(TableCommandsTest, ExportWritesRowsAndVariablesOfOneCheckpoint) {
  Save(7);
  Save(9);
  const std::string file = rows_ + "/model.safetensors";
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_, "--model_file=" + file, "--step=7"}), 0)
      << errors_;
  EXPECT_EQ(printed_,
            "step 7: item 39 rows; in " + rows_ + "\n3 variables, step 7: " + file + "\n");
  EXPECT_EQ(Array("item.keys.npy").dims, (std::vector<int64_t>{39}));
  EXPECT_THAT(ReadFile(*files_, file).value(), HasSubstr("dense/b"));
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 0) << errors_;
  EXPECT_TRUE(FileExists(*files_, file)) << "an export of tables removes only its own files";
}

TEST_F(TableCommandsTest, TheDirectoryOfTheModelFileIsCheckedBeforeRowsAreWritten) {
  Save(7);
  EXPECT_NE(Run(&ExportMain, {"--tables=" + rows_, "--model_file=" + out_ + "/no/m.safetensors"}),
            0);
  EXPECT_THAT(errors_, HasSubstr("--model_file: cannot write " + out_ +
                                 "/no/m.safetensors: there "
                                 "is no directory " +
                                 out_ + "/no; create it"));
  EXPECT_FALSE(FileExists(*files_, rows_));
  // A directory in the place of the file is found only when the file gets its name.
  ASSERT_OK(files_->MakeDirectory(rows_ + "/model.safetensors/inside"));
  EXPECT_NE(
      Run(&ExportMain, {"--tables=" + rows_ + "/", "--model_file=" + rows_ + "/model.safetensors"}),
      0);
  EXPECT_FALSE(FileExists(*files_, rows_ + "/export.json"));
}

TEST_F(TableCommandsTest, ExportSinceACheckpointWritesWhatChanged) {
  Save(7);
  Save(9);
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_, "--since=7"}), 0) << errors_;
  EXPECT_EQ(printed_, "step 9 since step 7: item 39 rows and 1 removed; in " + rows_ + "\n");
  const NpyArray removed = Array("item.removed.npy");
  ASSERT_EQ(removed.dims, (std::vector<int64_t>{1}));
  EXPECT_EQ(removed.At(0), 9);
  // Changes since another step replace them.
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_, "--since=9"}), 0) << errors_;
  EXPECT_EQ(printed_, "step 9 since step 9: item 0 rows and 0 removed; in " + rows_ + "\n");
  EXPECT_EQ(Array("item.values.npy").dims, (std::vector<int64_t>{0, 2}));
  EXPECT_NE(Run(&ExportMain, {"--tables=" + rows_, "--since=8"}), 0);
  EXPECT_THAT(errors_, HasSubstr("--since: there is no checkpoint of step 8; there are those of "));
  EXPECT_NE(Run(&ExportMain, {"--since=7"}), 0);
  EXPECT_THAT(errors_, HasSubstr("--since: has no meaning without --tables"));
}

TEST_F(TableCommandsTest, ExportJsonSaysWhatTheFilesAre) {
  Save(7);
  Save(9);
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_, "--step=7"}), 0) << errors_;
  EXPECT_EQ(Description(), Sorted(R"({
    "run_id": "0123456789abcdef0123456789abcdef", "step": 7, "term": 1,
    "lineage": "0000000000000000", "since": null,
    "tables": [{
      "name": "item", "dim": 2, "rows": 39, "removed": 0,
      "files": [{"name": "item.keys.npy", "bytes": 440}, {"name": "item.values.npy", "bytes": 440}],
      "initializer": {"distribution": "constant", "value": 0.0, "seed": 0}
    }]})"));
  rows_ = out_ + "/changes";
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_, "--since=7"}), 0) << errors_;
  EXPECT_EQ(Description(), Sorted(R"({
    "run_id": "0123456789abcdef0123456789abcdef", "step": 9, "term": 1,
    "lineage": "0000000000000000",
    "since": {"run_id": "0123456789abcdef0123456789abcdef", "step": 7, "term": 1,
              "lineage": "0000000000000000"},
    "tables": [{
      "name": "item", "dim": 2, "rows": 39, "removed": 1,
      "files": [{"name": "item.keys.npy", "bytes": 440}, {"name": "item.values.npy", "bytes": 440},
                {"name": "item.removed.npy", "bytes": 136}],
      "initializer": {"distribution": "constant", "value": 0.0, "seed": 0}
    }]})"));
}

// Returns the contents of the files in the directory, keyed by name.
std::map<std::string, std::string> FilesIn(FileSystem& disk, const std::string& directory) {
  std::map<std::string, std::string> files;
  const absl::StatusOr<std::vector<std::string>> names = disk.List(directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    files[name] = ReadFile(disk, JoinPath(directory, name)).value();
  }
  return files;
}

TEST_F(TableCommandsTest, AnExportOfAnotherKindOrRunIsNotReplaced) {
  Save(7);
  Save(9);
  const auto refused = [&](const std::vector<std::string>& args, const std::string& words) {
    const std::map<std::string, std::string> earlier = FilesIn(*files_, rows_);
    EXPECT_EQ(Run(&ExportMain, args), 78);
    EXPECT_EQ(errors_, "shoal export: --tables: " + rows_ + words +
                           "; name another directory, or remove this one first\n");
    EXPECT_EQ(FilesIn(*files_, rows_), earlier);
  };
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 0) << errors_;
  refused({"--tables=" + rows_, "--since=7"},
          " has all rows of this run, and an export with --since has only changes");
  const std::string whole = ReadFile(*files_, rows_ + "/export.json").value();
  const std::string other(32, 'f');
  ASSERT_OK(
      WriteAtomically(*files_, rows_ + "/export.json",
                      absl::StrReplaceAll(whole, {{"0123456789abcdef0123456789abcdef", other}})));
  refused({"--tables=" + rows_}, " has rows of another run, " + other);
  rows_ = out_ + "/changes";
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_, "--since=7"}), 0) << errors_;
  refused({"--tables=" + rows_}, " has an export with --since, and this one has all rows");
  ASSERT_OK(WriteAtomically(*files_, rows_ + "/export.json", "[1]"));
  EXPECT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 78);
  EXPECT_THAT(errors_, HasSubstr("/export.json is not of an export of tables; name another"));
}

TEST_F(TableCommandsTest, FilesOfAnEarlierExportThatTheNewOneDoesNotWriteAreRemoved) {
  Save(7);
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 0) << errors_;
  const std::map<std::string, std::string> whole = FilesIn(*files_, rows_);
  ASSERT_OK(WriteAtomically(
      *files_, rows_ + "/export.json",
      absl::StrReplaceAll(whole.at("export.json"), {{"item.keys.npy", "old.keys.npy"}})));
  ASSERT_OK(files_->Rename(rows_ + "/item.keys.npy", rows_ + "/old.keys.npy"));
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 0) << errors_;
  EXPECT_EQ(FilesIn(*files_, rows_), whole);
}

TEST_F(TableCommandsTest, OnlyFilesOfAnExportAreRemoved) {
  Save(7);
  ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 0) << errors_;
  const std::string whole = ReadFile(*files_, rows_ + "/export.json").value();
  ASSERT_OK(WriteAtomically(*files_, rows_ + "/notes.txt", "mine"));
  for (const char* name : {"..", ".", "notes.txt", "../model.keys.npy"}) {
    ASSERT_OK(WriteAtomically(*files_, rows_ + "/export.json",
                              absl::StrReplaceAll(whole, {{"item.keys.npy", name}})));
    ASSERT_EQ(Run(&ExportMain, {"--tables=" + rows_}), 0) << errors_;
    EXPECT_TRUE(FileExists(*files_, rows_ + "/notes.txt")) << name;
    EXPECT_TRUE(FileExists(*files_, out_ + "/checkpoints")) << name;
  }
}

class ExportToABadDiskTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Checkpoint> Save(FileSystem& disk, uint64_t step) {
    SaveOptions options;
    options.step = step;
    options.with_table = true;
    EXPECT_OK(SaveTestRun(disk, "run", options));
    return Checkpoint::Open(disk, JoinPath("run", TestName(options).ToString()),
                            Checkpoint::Verify::kIndex)
        .value();
  }
};

TEST_F(ExportToABadDiskTest, AnErrorWhileFilesAreWrittenLeavesThoseOfTheEarlierExport) {
  FaultyFileSystem disk;
  const std::unique_ptr<Checkpoint> then = Save(disk, 7), now = Save(disk, 9);
  for (Checkpoint* const since : {static_cast<Checkpoint*>(nullptr), then.get()}) {
    const std::string rows = since == nullptr ? "rows" : "changes";
    ASSERT_OK(ExportTables(disk, *then, since, rows).status());
    int first = disk.faults().num_changes();
    ASSERT_OK(ExportTables(disk, *now, since, rows).status());
    const int num_changes = disk.faults().num_changes() - first;
    // export.json is removed, and the directory synced; two or three files are renamed; the
    // directory is synced; WriteAtomically makes five changes.
    const int first_visible = num_changes - (since == nullptr ? 10 : 11);
    ASSERT_GT(first_visible, 0);
    for (int n = 0; n < num_changes; ++n) {
      ASSERT_OK(ExportTables(disk, *then, since, rows).status());
      const std::map<std::string, std::string> earlier = FilesIn(disk, rows);
      ASSERT_EQ(earlier.size(), since == nullptr ? 3u : 4u);
      first = disk.faults().num_changes();
      disk.faults().FailAt(first + n, absl::ResourceExhaustedError("rows: the disk is full"));
      EXPECT_EQ(ExportTables(disk, *now, since, rows).status(),
                absl::ResourceExhaustedError(
                    "rows: the disk is full; make room or name another directory"));
      disk.faults().StopFailing();
      const std::map<std::string, std::string> files = FilesIn(disk, rows);
      EXPECT_EQ(files == earlier, n <= first_visible) << n << " of " << num_changes;
      for (const auto& [name, contents] : files) EXPECT_THAT(name, Not(HasSubstr(".new")));
      // When the last change fails, all others are made.
      const bool is_described = n <= first_visible || n == num_changes - 1;
      EXPECT_EQ(files.count("export.json"), is_described ? 1u : 0u) << n << " of " << num_changes;
    }
  }
}

TEST_F(ExportToABadDiskTest, AfterAKillAllFilesAreOfOneExportWhereExportJsonIsThere) {
  std::map<std::string, std::string> earlier, later;
  int num_changes = 0;
  {
    FaultyFileSystem disk;
    const std::unique_ptr<Checkpoint> then = Save(disk, 7), now = Save(disk, 9);
    ASSERT_OK(ExportTables(disk, *then, nullptr, "rows").status());
    earlier = FilesIn(disk, "rows");
    const int first = disk.faults().num_changes();
    ASSERT_OK(ExportTables(disk, *now, nullptr, "rows").status());
    num_changes = disk.faults().num_changes() - first;
    later = FilesIn(disk, "rows");
  }
  int without = 0;
  for (int n = 0; n <= num_changes; ++n) {
    FaultyFileSystem disk;
    const std::unique_ptr<Checkpoint> then = Save(disk, 7), now = Save(disk, 9);
    ASSERT_OK(ExportTables(disk, *then, nullptr, "rows").status());
    ASSERT_OK(disk.SyncDirectory("."));
    disk.faults().FailFrom(disk.faults().num_changes() + n, absl::UnavailableError("killed"));
    EXPECT_EQ(ExportTables(disk, *now, nullptr, "rows").ok(), n == num_changes);
    disk.Crash();
    std::map<std::string, std::string> files;
    for (auto& [name, contents] : FilesIn(disk, "rows")) {
      if (name.find(".npy.new") == std::string::npos) files[name] = contents;
    }
    if (files.count("export.json") == 0) {
      ++without;
    } else {
      EXPECT_THAT(files, AnyOf(earlier, later)) << "change " << n;
    }
  }
  EXPECT_GT(without, 0);
}

TEST_F(ExportToABadDiskTest, TheModelFileIsReplacedWithTheRowsAndBeforeExportJsonIsThere) {
  bool done = false;
  int without = 0;
  for (int n = 0; !done; ++n) {
    FaultyFileSystem disk;
    const std::unique_ptr<Checkpoint> then = Save(disk, 7), now = Save(disk, 9);
    Checkpoint* checkpoint = then.get();
    const ModelFileOfExport model = {"rows/model.safetensors",
                                     [&](const std::string& directory, const std::string& name) {
                                       return ExportModel(disk, *checkpoint, directory, name);
                                     }};
    ASSERT_OK(ExportTables(disk, *then, nullptr, "rows", &model).status());
    const std::map<std::string, std::string> earlier = FilesIn(disk, "rows");
    ASSERT_EQ(earlier.size(), 4u);
    ASSERT_OK(disk.SyncDirectory("."));
    checkpoint = now.get();
    disk.faults().FailFrom(disk.faults().num_changes() + n, absl::UnavailableError("killed"));
    done = ExportTables(disk, *now, nullptr, "rows", &model).ok();
    disk.Crash();
    std::map<std::string, std::string> files;
    for (auto& [name, contents] : FilesIn(disk, "rows")) {
      if (name.find(".new") == std::string::npos) files[name] = contents;
    }
    if (files.count("export.json") == 0) {
      ++without;
      continue;
    }
    const bool is_new = files["export.json"].find("\"step\": 9") != std::string::npos;
    EXPECT_EQ(files.size(), 4u) << "change " << n;
    EXPECT_EQ(files["model.safetensors"] == earlier.at("model.safetensors"), !is_new) << n;
    EXPECT_EQ(files["item.values.npy"] == earlier.at("item.values.npy"), !is_new) << n;
    EXPECT_TRUE(is_new || !done);
  }
  EXPECT_GT(without, 0);
}

TEST_F(ExportToABadDiskTest, FilesThatAKilledExportLeftAreReplaced) {
  FaultyFileSystem disk;
  const std::unique_ptr<Checkpoint> now = Save(disk, 7);
  ASSERT_OK(ExportTables(disk, *now, nullptr, "rows").status());
  const std::map<std::string, std::string> whole = FilesIn(disk, "rows");
  ASSERT_OK(WriteAtomically(disk, "rows/item.keys.npy.new", std::string(10000, 'x')));
  ASSERT_OK(ExportTables(disk, *now, nullptr, "rows").status());
  EXPECT_EQ(FilesIn(disk, "rows"), whole);
}

TEST_F(TableCommandsTest, ARunWithoutTablesIsNamed) {
  Save(7, /*with_table=*/false);
  EXPECT_NE(Run(&ExportMain, {"--tables=" + rows_}), 0);
  EXPECT_THAT(errors_, HasSubstr("has no tables; `shoal export` without --tables writes"));
  EXPECT_NE(Run(&LookupMain, {"--table=item", "1"}), 0);
  EXPECT_THAT(errors_, HasSubstr("--table: "));
  EXPECT_THAT(errors_, HasSubstr("has no tables"));
}

TEST_F(TableCommandsTest, LookupPrintsRowsAndSaysWhichWereNeverTrained) {
  Save(7);
  ASSERT_EQ(Run(&LookupMain, {"--table=item", "3", "39", "50", "51"}), 0) << errors_;
  EXPECT_THAT(printed_, HasSubstr("item, step 7\n3: 37 38  (version 4)\n"
                                  "39: 397 398  (version 7)\n50: 0 0  (touched in 1 of 2 "));
  EXPECT_THAT(printed_, HasSubstr("\n51: 0 0  (never trained: the initial value)\n"));
  ASSERT_EQ(Run(&LookupMain, {"--table=item", "-5", "18446744073709551611"}), 0) << errors_;
  EXPECT_THAT(printed_, HasSubstr("item, step 7\n-5: "));
  EXPECT_THAT(printed_, HasSubstr("\n18446744073709551611: "));
  EXPECT_NE(Run(&LookupMain, {"--table=other", "3"}), 0);
  EXPECT_THAT(errors_, HasSubstr("has no table other; it has item"));
  EXPECT_NE(Run(&LookupMain, {"--table=item", "three"}), 0);
  EXPECT_THAT(errors_, HasSubstr("three: is not a key; a key is a whole number of 64 bits; give "
                                 "--words for words"));
  EXPECT_NE(Run(&LookupMain, {"3"}), 0);
  EXPECT_THAT(errors_, HasSubstr("--table: is missing"));
  EXPECT_EQ(Run(&LookupMain, {"--help"}), 0);
}

TEST_F(TableCommandsTest, LookupTakesTheDirectoryOfARunAsItsFirstArgument) {
  Save(7);
  const auto lookup = [&](const std::vector<std::string>& args) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = LookupMain(args);
    printed_ = ::testing::internal::GetCapturedStdout();
    errors_ = ::testing::internal::GetCapturedStderr();
    return code;
  };
  EXPECT_EQ(lookup({out_, "--table=item", "3"}), 64) << "it has no file of a run";
  EXPECT_EQ(errors_, "shoal lookup: --out: is missing, and the first argument, " + out_ +
                         ", is not the directory of a run; name one\n");
  EXPECT_EQ(lookup({"--table=item"}), 64);
  EXPECT_EQ(errors_, "shoal lookup: --out: is missing; name the directory of a run\n");
  ASSERT_OK(WriteAtomically(*files_, out_ + "/RUN_ID", "a run"));
  EXPECT_EQ(lookup({out_, "--table=item", "3"}), 0) << errors_;
  EXPECT_EQ(printed_, "item, step 7\n3: 37 38  (version 4)\n");
  EXPECT_EQ(lookup({"--words", out_, "--table=item", "blue"}), 0) << errors_;
  EXPECT_THAT(printed_, HasSubstr(" blue: 0 0 "));
  // Each argument is a key if --out is given.
  EXPECT_NE(lookup({out_, "--out=" + out_, "--table=item", "3"}), 0);
  EXPECT_THAT(errors_, HasSubstr(": is not a key"));
}

TEST_F(TableCommandsTest, LookupFindsTheKeysOfWords) {
  Save(7);
  const std::string key = absl::StrCat(HashText("blue"));
  ASSERT_EQ(Run(&LookupMain, {"--table=item", key}), 0) << errors_;
  std::string row = printed_;
  ASSERT_EQ(Run(&LookupMain, {"--table=item", "--words", "blue"}), 0) << errors_;
  EXPECT_EQ(printed_, absl::StrReplaceAll(row, {{key + ": ", key + " blue: "}}));
  ASSERT_EQ(Run(&LookupMain, {"--table=item", "--words", "3"}), 0) << errors_;
  EXPECT_THAT(printed_, HasSubstr(absl::StrCat("\n", HashText("3"), " 3: 0 0  (never trained")));
  EXPECT_NE(Run(&LookupMain, {"--table=item", "--words", ""}), 0);
  EXPECT_THAT(errors_, HasSubstr("KEY: is empty; an empty text is never an id"));
}

TEST_F(TableCommandsTest, InspectListsTables) {
  Save(7);
  const absl::StatusOr<RunReport> report = InspectRun(files_.get(), out_, std::nullopt);
  ASSERT_TRUE(report.ok()) << report.status();
  // 39 rows of 8 bytes of key, 4 of version, and 2 floats of value and of each of two slots.
  EXPECT_THAT(report->text, HasSubstr("          39           1404        3  m,v\n"));
}

}  // namespace
}  // namespace shoal
