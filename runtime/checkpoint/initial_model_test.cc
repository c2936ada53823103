#include "runtime/checkpoint/initial_model.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/disk_faults.h"
#include "base/faulty_file_system.h"
#include "base/status_macros.h"
#include "base/status_matchers.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/checkpoint/checkpoint_testing.h"
#include "runtime/checkpoint/model_export.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class InitialModelTest : public ::testing::Test {
 protected:
  InitialModelTest() {
    SaveOptions saved;
    saved.step = 5;
    EXPECT_OK(SaveTestRun(disk_, "other/checkpoints", saved));
    checkpoint_ = "other/checkpoints/" + TestName(saved).ToString();
    run_.set_init_from("other");
    run_.set_seed(1);
  }

  absl::StatusOr<std::unique_ptr<InitialModel>> Open() {
    table_ = std::make_unique<SliceTable>(SliceTable::Create(variables_, kTestSliceBytes).value());
    return InitialModel::Open(disk_, run_, variables_, *table_);
  }

  // The values of a variable, filled slice by slice.
  std::vector<float> ValuesOf(InitialModel* model, uint32_t variable) {
    std::vector<float> values(table_->elements_of(variable));
    for (uint32_t s = table_->first_slice_of(variable); s < table_->first_slice_of(variable + 1);
         ++s) {
      SliceSource::Contents contents;
      contents.value =
          absl::MakeSpan(values).subspan((*table_)[s].first_element, (*table_)[s].num_elements);
      EXPECT_OK(model->Fill(s, &contents));
      EXPECT_TRUE(contents.slots_follow_value);
      EXPECT_EQ(contents.version, 0u);
    }
    return values;
  }

  // Reads all that a run with one ps reads.
  absl::Status Load() {
    ASSIGN_OR_RETURN(const std::unique_ptr<InitialModel> model, Open());
    for (uint32_t s = 0; s < table_->size(); ++s) {
      if ((*table_)[s].is_bucket) {
        SliceSource::BucketContents contents;
        RETURN_IF_ERROR(model->FillBucket(s, &contents));
      } else {
        std::vector<float> values((*table_)[s].num_elements);
        SliceSource::Contents contents;
        contents.value = absl::MakeSpan(values);
        RETURN_IF_ERROR(model->Fill(s, &contents));
      }
    }
    return absl::OkStatus();
  }

  std::string Error() { return std::string(Open().status().message()); }

  FaultyFileSystem disk_;
  std::string checkpoint_;
  v1::RunConfig run_;
  std::vector<v1::VariableSpec> variables_ = TestVariables();
  std::unique_ptr<SliceTable> table_;
};

TEST_F(InitialModelTest, FilesOfInitialValuesAreRemoved) {
  EXPECT_OK(RemoveInitialValues(disk_, "run"));
  const std::string file = InitialValuesPath("run", 7);
  EXPECT_EQ(file, "run/initial/0000000000000007.safetensors");
  ASSERT_OK(disk_.MakeDirectory("run/initial"));
  ASSERT_OK(WriteAtomically(disk_, file, "x"));
  ASSERT_OK(WriteAtomically(disk_, file + ".worker-1", "x"));
  EXPECT_OK(RemoveInitialValues(disk_, "run"));
  EXPECT_FALSE(FileExists(disk_, file));
  EXPECT_FALSE(FileExists(disk_, file + ".worker-1"));
  EXPECT_OK(RemoveInitialValues(disk_, "run"));
}

TEST_F(InitialModelTest, ARunAndItsExportGiveTheSameValues) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(disk_, checkpoint_, Checkpoint::Verify::kIndex));
  ASSERT_OK(ExportModel(disk_, *checkpoint, "other", "m.safetensors"));
  for (const std::string& path :
       {std::string("other"), checkpoint_, std::string("other/m.safetensors")}) {
    run_.set_init_from(path);
    ASSERT_OK_AND_ASSIGN(const auto model, Open());
    EXPECT_EQ(model->num_given(), 3u) << path;
    for (uint32_t v = 0; v < 3; ++v) {
      const std::vector<float> values = ValuesOf(model.get(), v);
      for (uint64_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], TestValue(v, i, "", 5));
    }
  }
}

TEST_F(InitialModelTest, NamesAreMappedAndSomeKeepTheirInitializers) {
  const std::string first = variables_[0].name();
  variables_[0].set_name("mine/" + first);
  variables_[1].mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
  variables_[1].mutable_initializer()->set_a(7);
  run_.add_init_map("mine/(.*)=\\1");
  run_.add_init_map(variables_[1].name() + "=");
  ASSERT_OK_AND_ASSIGN(const auto model, Open());
  EXPECT_EQ(model->num_given(), 2u);
  EXPECT_EQ(ValuesOf(model.get(), 0)[3], TestValue(0, 3, "", 5));
  EXPECT_EQ(ValuesOf(model.get(), 1)[0], 7.0f);
}

TEST_F(InitialModelTest, AMisfitIsNamedWithTheRemedy) {
  variables_[0].set_name("body/w");
  EXPECT_THAT(Error(), HasSubstr(" has no tensor body/w for variable body/w, but "));
  EXPECT_THAT(Error(), HasSubstr("map it with --init_map='body/w=NAME', or let it start from its "
                                 "initializer with --init_map='body/w='"));
  variables_ = TestVariables();
  variables_[0].set_shape(0, 12);
  EXPECT_THAT(Error(), HasSubstr(" [11,7], variable "));
  EXPECT_THAT(Error(), HasSubstr(" is [12,7]; map it to another"));
  run_.add_init_map(".*=");
  EXPECT_THAT(Error(), HasSubstr("lets every variable start from its initializer"));
  run_.set_init_from("nowhere");
  EXPECT_THAT(Error(), HasSubstr("init_from: there is no nowhere"));
  ASSERT_OK(disk_.MakeDirectory("empty"));
  run_.set_init_from("empty");
  EXPECT_THAT(Error(), HasSubstr("init_from: empty is not the directory of a run"));
  ASSERT_OK(WriteAtomically(disk_, "text.safetensors", "hello"));
  run_.set_init_from("text.safetensors");
  EXPECT_THAT(Error(), HasSubstr("init_from: text.safetensors"));
}

TEST_F(InitialModelTest, AVariableOfAProgramNeedsATensorAndATableDoesNot) {
  run_.mutable_program()->set_file("train.py");
  run_.add_init_map("item=");
  variables_.push_back(TestTable());
  ASSERT_OK_AND_ASSIGN(const auto model, Open());
  EXPECT_EQ(model->num_given(), 3u);
  run_.add_init_map("scale=");
  EXPECT_THAT(Error(), HasSubstr("init_map gives variable scale no tensor, and only the program "
                                 "knows what it starts from; map it to a tensor"));
  run_.mutable_init_map()->RemoveLast();
  variables_[0].set_shape(0, 12);
  EXPECT_THAT(Error(), HasSubstr(" is [12,7]; map it to another"));
  EXPECT_THAT(Error(), Not(HasSubstr("initializer")));
}

TEST_F(InitialModelTest, ATableStartsWithTheRowsOfATable) {
  SaveOptions saved;
  saved.step = 7;
  saved.with_table = true;
  ASSERT_OK(SaveTestRun(disk_, "other/checkpoints", saved));
  variables_.push_back(TestTable());
  ASSERT_OK_AND_ASSIGN(const auto model, Open());
  EXPECT_EQ(model->num_given(), 4u);
  for (uint32_t slice = table_->first_slice_of(3); slice < table_->size(); ++slice) {
    const BucketRows rows = TestRows(*table_, slice, 7, 0);
    SliceSource::BucketContents contents;
    contents.initial_slots = {9};
    ASSERT_OK(model->FillBucket(slice, &contents));
    EXPECT_EQ(contents.rows.keys, rows.keys);
    EXPECT_EQ(contents.rows.touched, std::vector<uint32_t>(rows.keys.size(), 0));
    ASSERT_EQ(contents.rows.rows.size(), 3 * rows.keys.size());
    EXPECT_EQ(contents.rows.rows[3], rows.rows[2]);
    EXPECT_EQ(contents.rows.rows[4], rows.rows[3]);
    EXPECT_EQ(contents.rows.rows[5], 9);
    EXPECT_TRUE(contents.rows.counted_keys.empty());
  }
  variables_[3].clear_table();
  EXPECT_THAT(Error(), HasSubstr("has item as a table, variable item is not"));
  variables_[3] = TestTable();
  run_.add_init_map("item=dense/b");
  variables_[3].set_shape(0, 5);
  EXPECT_THAT(Error(), HasSubstr("has dense/b, which is not a table, variable item is one"));
}

TEST_F(InitialModelTest, ATableMayHaveAnotherNumberOfBuckets) {
  SaveOptions saved;
  saved.step = 7;
  saved.num_ps = 2;
  saved.slots = {"m"};
  saved.with_table = true;
  ASSERT_OK(SaveTestRun(disk_, "other/checkpoints", saved));
  std::map<uint64_t, std::vector<float>> rows;  // the values, keyed by key
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(disk_, "other/checkpoints/" + TestName(saved).ToString(),
                                        Checkpoint::Verify::kIndex));
  const SliceTable& before = checkpoint->slices();
  for (uint32_t slice = before.first_slice_of(3); slice < before.size(); ++slice) {
    const BucketRows bucket = TestRows(before, slice, 7, /*num_slots=*/0);
    for (size_t r = 0; r < bucket.keys.size(); ++r) {
      rows[bucket.keys[r]] = {bucket.rows[2 * r], bucket.rows[2 * r + 1], 9, 8};
    }
  }
  EXPECT_EQ(rows.size(), 39u);
  variables_.push_back(TestTable());
  for (const uint32_t buckets : {1, 2, 4, 5, 6, 7, 31, 1000}) {
    variables_[3].mutable_table()->set_buckets(buckets);
    std::map<uint64_t, std::vector<float>> filled;
    const uint32_t num_ps = 3;
    for (uint32_t ps = 0; ps < num_ps; ++ps) {
      ASSERT_OK_AND_ASSIGN(const auto model, Open());
      for (uint32_t slice = table_->first_slice_of(3) + ps; slice < table_->size();
           slice += num_ps) {
        SliceSource::BucketContents contents;
        contents.initial_slots = {9, 8};
        ASSERT_OK(model->FillBucket(slice, &contents));
        const std::vector<uint64_t>& keys = contents.rows.keys;
        EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
        EXPECT_EQ(contents.rows.touched, std::vector<uint32_t>(keys.size(), 0));
        EXPECT_TRUE(contents.rows.counted_keys.empty());
        ASSERT_EQ(contents.rows.rows.size(), 4 * keys.size());
        for (size_t r = 0; r < keys.size(); ++r) {
          EXPECT_EQ(table_->BucketOf(3, keys[r]), slice);
          const auto row = contents.rows.rows.begin() + static_cast<ptrdiff_t>(4 * r);
          EXPECT_TRUE(filled.emplace(keys[r], std::vector<float>(row, row + 4)).second);
        }
      }
    }
    EXPECT_EQ(filled, rows) << buckets << " buckets";
  }
}

TEST_F(InitialModelTest, AnErrorThatMayPassKeepsItsCodeSoThatTheLoadIsRepeated) {
  SaveOptions saved;
  saved.step = 7;
  saved.with_table = true;
  ASSERT_OK(SaveTestRun(disk_, "other/checkpoints", saved));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(disk_, checkpoint_, Checkpoint::Verify::kIndex));
  ASSERT_OK(ExportModel(disk_, *checkpoint, "other", "m.safetensors"));
  DiskFaults& faults = disk_.faults();
  for (const std::string& path :
       {std::string("other/m.safetensors"), checkpoint_, std::string("other")}) {
    if (path == "other") variables_.push_back(TestTable());
    run_.set_init_from(path);
    const int before = faults.num_reads();
    ASSERT_OK(Load());
    const int reads = faults.num_reads() - before;
    for (int k = 0; k < reads; ++k) {
      faults.FailReadAt(faults.num_reads() + k, absl::UnavailableError("stale"));
      const absl::Status status = Load();
      faults.StopFailing();
      // CheckpointDirectory::Open continues if it cannot see a directory that is there.
      if (path == "other" && status.ok()) continue;
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stale")))
          << path << ", read " << k;
    }
    faults.FailReadAt(faults.num_reads() + reads - 1, absl::DataLossError("damaged"));
    EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("damaged")));
    faults.StopFailing();
  }
}

TEST_F(InitialModelTest, ARunsDirectoryIsResolvedToItsNewestCheckpoint) {
  EXPECT_EQ(ResolveInitFrom(disk_, "other").value(), checkpoint_);
  EXPECT_EQ(ResolveInitFrom(disk_, checkpoint_).value(), checkpoint_);
}

}  // namespace
}  // namespace shoal
