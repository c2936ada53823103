#include "runtime/checkpoint/table_arrays.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/disk_faults.h"
#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "base/status_matchers.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/variables/slice_source.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kNumKeys = 3000;

// A .npy file of these numbers.
template <typename T>
std::string Npy(const std::string& type, const std::vector<int64_t>& dims,
                const std::vector<T>& numbers) {
  std::string header = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                                    absl::StrJoin(dims, ", "), dims.size() == 1 ? ",), }" : "), }");
  header.resize(117, ' ');
  header.push_back('\n');
  std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
  file.append(header);
  return file.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

v1::VariableSpec Variable(const std::string& name, int64_t size, uint32_t buckets) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(size);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_trainable(true);
  spec.mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
  spec.mutable_initializer()->set_a(7);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  if (buckets > 0) spec.mutable_table()->set_buckets(buckets);
  return spec;
}

class TableArraysTest : public ::testing::Test {
 protected:
  TableArraysTest() {
    EXPECT_OK(disk_.MakeDirectory("rows"));
    // Any order of the rows. Some keys have the bits of negative numbers.
    for (uint64_t i = 0; i < kNumKeys; ++i) {
      keys_.push_back(i * 7919 % kNumKeys - 1000);
      values_.push_back(static_cast<float>(i));
      values_.push_back(static_cast<float>(i) + 0.5f);
      wanted_[keys_.back()] = {values_[2 * i], values_[2 * i + 1], 9};
    }
    Write("item.keys.npy", Npy("<i8", {kNumKeys}, keys_));
    Write("item.values.npy", Npy("<f4", {kNumKeys, 2}, values_));
    run_.set_init_from("rows");
    run_.set_seed(1);
    SetVariables({Variable("bias", 4, 0), Variable("item", 2, 3), Variable("user", 2, 3)});
  }

  void Write(const std::string& name, const std::string& contents) {
    EXPECT_OK(WriteAtomically(disk_, "rows/" + name, contents));
  }

  // Writes model.safetensors beside the arrays, with one tensor of these numbers.
  void WriteModel(const std::string& name, const std::vector<float>& numbers,
                  const std::map<std::string, std::string>& metadata = {}) {
    const uint64_t bytes = numbers.size() * sizeof(float);
    SafetensorsHeader header;
    header.tensors = {{name, "F32", {numbers.size()}, 0, bytes}};
    header.metadata = metadata;
    Write("model.safetensors",
          EncodeSafetensorsHeader(header).append(reinterpret_cast<const char*>(numbers.data()),
                                                 numbers.size() * sizeof(float)));
  }

  // Returns the values of variable 0, which is not a table.
  std::vector<float> Bias() {
    std::vector<float> bias(4);
    SliceSource::Contents contents;
    contents.value = absl::MakeSpan(bias);
    const auto model = Open();
    EXPECT_OK(model.status());
    if (!model.ok()) return {};
    EXPECT_OK((*model)->Fill(0, &contents));
    return bias;
  }

  void SetVariables(std::vector<v1::VariableSpec> variables) {
    variables_ = std::move(variables);
    table_ = std::make_unique<SliceTable>(SliceTable::Create(variables_, 64).value());
  }

  absl::StatusOr<std::unique_ptr<InitialModel>> Open() {
    return InitialModel::Open(disk_, run_, variables_, *table_);
  }

  // Returns the rows of a table with the initial slot 9, keyed by key, as so many ps load them.
  absl::StatusOr<std::map<uint64_t, std::vector<float>>> Rows(uint32_t variable,
                                                              uint32_t num_ps = 1) {
    std::map<uint64_t, std::vector<float>> found;
    for (uint32_t ps = 0; ps < num_ps; ++ps) {
      ASSIGN_OR_RETURN(const std::unique_ptr<InitialModel> model, Open());
      for (uint32_t slice = table_->first_slice_of(variable) + ps;
           slice < table_->first_slice_of(variable + 1); slice += num_ps) {
        SliceSource::BucketContents contents;
        contents.initial_slots = {9};
        RETURN_IF_ERROR(model->FillBucket(slice, &contents));
        const std::vector<uint64_t>& keys = contents.rows.keys;
        EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
        EXPECT_EQ(contents.rows.touched, std::vector<uint32_t>(keys.size(), 0));
        for (size_t r = 0; r < keys.size(); ++r) {
          EXPECT_EQ(table_->BucketOf(variable, keys[r]), slice);
          const auto row = contents.rows.rows.begin() + static_cast<ptrdiff_t>(3 * r);
          EXPECT_TRUE(found.emplace(keys[r], std::vector<float>(row, row + 3)).second);
        }
      }
    }
    return found;
  }

  std::string Error() { return std::string(Rows(1).status().message()); }

  FaultyFileSystem disk_;
  std::vector<uint64_t> keys_;
  std::vector<float> values_;
  std::map<uint64_t, std::vector<float>> wanted_;  // rows with their slot, keyed by key
  v1::RunConfig run_;
  std::vector<v1::VariableSpec> variables_;
  std::unique_ptr<SliceTable> table_;
};

TEST_F(TableArraysTest, ATableStartsWithTheRowsOfItsArraysAndOtherVariablesStartFresh) {
  EXPECT_EQ(ResolveInitFrom(disk_, "rows").value(), "rows");
  EXPECT_EQ(Open().value()->num_given(), 1u);
  for (const uint32_t buckets : {1u, 3u, 1000u, TableArrays::kBuckets, 5000u}) {
    SetVariables({Variable("bias", 4, 0), Variable("item", 2, buckets), Variable("user", 2, 3)});
    ASSERT_OK_AND_ASSIGN(const auto rows, Rows(1, /*num_ps=*/2));
    EXPECT_EQ(rows, wanted_) << buckets << " buckets";
  }
  ASSERT_OK_AND_ASSIGN(const auto of_other_table, Rows(2));
  EXPECT_TRUE(of_other_table.empty());
  EXPECT_EQ(Bias(), std::vector<float>(4, 7.0f));
}

TEST_F(TableArraysTest, AModelFileBesideTheArraysHasTheOtherVariables) {
  const std::vector<float> wanted = {1, 2, 3, 4};
  WriteModel("bias", wanted);
  EXPECT_EQ(ResolveInitFrom(disk_, "rows").value(), "rows");
  for (const char* program : {"", "train.py"}) {
    run_.mutable_program()->set_file(program);
    EXPECT_EQ(Open().value()->num_given(), 2u);
    EXPECT_EQ(Bias(), wanted);
    EXPECT_EQ(Rows(1).value(), wanted_);
    EXPECT_TRUE(Rows(2).value().empty()) << "a table without files starts fresh";
  }
  run_.clear_program();
  run_.add_init_map("bias=");
  EXPECT_EQ(Bias(), std::vector<float>(4, 7.0f));
  EXPECT_EQ(Rows(1).value(), wanted_);
  run_.set_init_map(0, "bias=item");
  EXPECT_THAT(Error(), HasSubstr("rows has item [2], variable bias is [4]; map it to another"));
  run_.set_init_map(0, "item=bias");
  EXPECT_THAT(Error(), HasSubstr("rows has bias [4], variable item is [2]; map it to another"));
}

TEST_F(TableArraysTest, AModelFileThatDoesNotFitIsNamed) {
  WriteModel("other", {1});
  EXPECT_THAT(Error(), HasSubstr("init_from: rows has no tensor bias for variable bias, but item, "
                                 "other; map it with --init_map='bias=NAME', or let it start from "
                                 "its initializer with --init_map='bias='"));
  WriteModel("item", {1});
  EXPECT_THAT(Error(), HasSubstr("init_from: rows/model.safetensors has a tensor item, and "
                                 "item.keys.npy is beside it; rename one"));
  Write("model.safetensors", "hello");
  EXPECT_THAT(Error(), HasSubstr("init_from: rows/model.safetensors"));
}

TEST_F(TableArraysTest, NamesAreMappedAndASlashIsADotInThem) {
  SetVariables({Variable("bias", 4, 0), Variable("a/b", 2, 3), Variable("c", 2, 3)});
  EXPECT_THAT(Error(), HasSubstr("init_from: rows has tables item, and the run has none of them; "
                                 "map one with --init_map=TABLE=NAME"));
  Write("a.b.keys.npy", Npy<uint64_t>("<u8", {1}, {5}));
  Write("a.b.values.npy", Npy<float>("<f4", {1, 2}, {3, 4}));
  run_.add_init_map("c=item");
  EXPECT_EQ(Open().value()->num_given(), 2u);
  EXPECT_EQ(Rows(1).value(), (std::map<uint64_t, std::vector<float>>{{5, {3, 4, 9}}}));
  EXPECT_EQ(Rows(2).value(), wanted_);
  run_.set_init_map(0, "c=itme");
  EXPECT_THAT(Error(), HasSubstr("rows has no tensor itme for variable c, but a.b, item; map it"));
}

TEST_F(TableArraysTest, BadArraysAreNamedWithTheRemedy) {
  const std::string keys = Npy("<u8", {kNumKeys}, keys_);
  const std::string values = Npy("<f4", {kNumKeys, 2}, values_);
  const std::vector<int32_t> small(kNumKeys);
  const std::vector<double> large(2 * kNumKeys);
  std::vector<uint64_t> twice = keys_;
  twice[8] = twice[5];
  std::vector<float> infinite = values_;
  infinite[77] = std::numeric_limits<float>::infinity();
  const struct {
    std::string keys, values, error;
  } kCases[] = {
      {Npy("<i4", {kNumKeys}, small), values,
       "init_from: rows/item.keys.npy has elements of type <i4 and shape [3000]; save int64 or "
       "uint64 keys [rows]"},
      {Npy("<u8", {kNumKeys, 1}, keys_), values, "type <u8 and shape [3000,1]; save int64 or"},
      {keys, Npy("<f8", {kNumKeys, 2}, large),
       "rows/item.values.npy has elements of type <f8 and shape [3000,2]; save float32 values "
       "[rows, dim]"},
      {keys, Npy(">f4", {kNumKeys, 2}, values_),
       "rows/item.values.npy: elements of type >f4 are not read; save float32 values [rows, "
       "dim], little-endian"},
      {keys, Npy("<f4", {2 * kNumKeys}, values_), "type <f4 and shape [6000]; save float32"},
      {keys, Npy("<f4", {kNumKeys / 2, 4}, values_),
       "rows/item.keys.npy has 3000 keys, but rows/item.values.npy has 1500 rows; write a row for "
       "each key"},
      {keys, values.substr(0, values.size() - 1), "rows/item.values.npy: is truncated or too long"},
      {keys.substr(0, 50), values, "rows/item.keys.npy: is truncated in its header"},
      {"", values, "rows/item.keys.npy: is not an npy file"},
      {Npy("<i8", {kNumKeys}, twice), values,
       "init_from: table item: rows/item.keys.npy has key -405 in rows 5 and 8; leave one of them"},
      {keys, Npy("<f4", {kNumKeys, 2}, infinite), "tensor item has a value that is not finite"},
  };
  for (const auto& wrong : kCases) {
    Write("item.keys.npy", wrong.keys);
    Write("item.values.npy", wrong.values);
    EXPECT_THAT(Error(), HasSubstr(wrong.error));
  }
  Write("item.keys.npy", keys);
  Write("item.values.npy", values);
  ASSERT_OK(Rows(1).status());
  SetVariables({Variable("bias", 4, 0), Variable("item", 3, 3)});
  EXPECT_THAT(Error(), HasSubstr("rows has item [2], variable item is [3]; map it to another, or "
                                 "let it start from its initializer with --init_map='item='"));
  SetVariables({Variable("item", 2, 0), Variable("user", 2, 3)});
  EXPECT_THAT(Error(), HasSubstr("rows has item as a table, variable item is not"));
}

TEST_F(TableArraysTest, HalfATableAndHalfAnExportAreRefused) {
  Write("user.keys.npy", Npy<uint64_t>("<u8", {1}, {5}));
  EXPECT_THAT(Error(), HasSubstr("init_from: there is no rows/user.values.npy beside the other "
                                 "file of user; write both"));
  Write("user.values.npy", Npy<float>("<f4", {1, 2}, {3, 4}));
  EXPECT_OK(Rows(1).status());
  Write("user.keys.npy.new", "");
  EXPECT_THAT(Error(), HasSubstr("rows/user.keys.npy.new belongs to an export that has not ended; "
                                 "export again"));
  // The files of the earlier export are whole then.
  Write("export.json", "{}");
  EXPECT_OK(Rows(1).status());
  Write("item.removed.npy", Npy<uint64_t>("<u8", {0}, {}));
  EXPECT_THAT(Error(), HasSubstr("rows/item.removed.npy belongs to an export of what changed since "
                                 "a checkpoint; export all rows, without --since"));
}

TEST_F(TableArraysTest, RowsAndAModelFileOfDifferentStepsAreRefused) {
  WriteModel("bias", {1, 2, 3, 4}, {{"step", "7"}});
  EXPECT_OK(Rows(1).status()) << "arrays of a program have no export.json";
  Write("export.json", R"({"step": 9, "since": null})");
  EXPECT_THAT(
      Rows(1).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("init_from: rows/export.json says that the rows are of step 9, but "
                         "rows/model.safetensors is of step 7; export both at once (shoal export "
                         "RUN --tables=rows --model_file=rows/model.safetensors), or remove the "
                         "model file")));
  WriteModel("bias", {1, 2, 3, 4}, {{"step", "9"}});
  EXPECT_OK(Rows(1).status());
  WriteModel("bias", {1, 2, 3, 4});
  EXPECT_OK(Rows(1).status()) << "the model file does not say its step";
}

TEST_F(TableArraysTest, ThereAreNoValuesForOtherVariablesOfAProgram) {
  run_.mutable_program()->set_file("train.py");
  EXPECT_THAT(Error(), HasSubstr("init_from: rows has only tables, and only the program knows what "
                                 "bias starts from; name a run, or write rows/model.safetensors "
                                 "too (shoal export --tables --model_file)"));
  SetVariables({Variable("user", 2, 3), Variable("item", 2, 3)});
  EXPECT_EQ(Rows(1).value(), wanted_);
}

TEST_F(TableArraysTest, AnErrorThatMayPassKeepsItsCode) {
  WriteModel("bias", {1, 2, 3, 4});
  DiskFaults& faults = disk_.faults();
  const int before = faults.num_reads();
  ASSERT_OK(Rows(1).status());
  const int reads = faults.num_reads() - before;
  for (int k = 0; k < reads; k += k < 40 ? 1 : 100) {
    faults.FailReadAt(faults.num_reads() + k, absl::UnavailableError("stale"));
    EXPECT_THAT(Rows(1).status(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("stale")))
        << "read " << k;
    faults.StopFailing();
  }
}

}  // namespace
}  // namespace shoal
