// Tests that ids in tables, arrays and records, read through tables of the ps, train to the same
// bytes: whatever the format is, and for any number of tasks.
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/random.h"
#include "base/status_matchers.h"
#include "ml/data/ids/text_hash.h"
#include "ml/data/records/tf_example.pb.h"
#include "ml/data/records/tf_record_file.h"
#include "tests/cluster/trained_run.h"

namespace shoal {
namespace {

using ::testing::SizeIs;

constexpr char kRun[] = R"pb(
  name: "ids"
  model {
    feature { column: "user" table: "user" }
    feature { column: "items" table: "item" pooling: POOLING_MEAN }
    feature { column: "colour" table: "colour" }
    layer { dense { units: 4 activation: ACTIVATION_KIND_RELU } }
    layer { interaction { dot {} } }
    layer { dense { units: 1 } }
    loss: "sigmoid_cross_entropy"
  }
  table {
    name: "*"
    dim: 4
    optimizer { adagrad { learning_rate: 0.1 initial_accumulator: 0 epsilon: 1e-10 } }
    buckets: 4
  }
  data { evaluation_block: 25 }
  optimizer {
    learning_rate: 0.01
    adam {}
  }
  sync { replicas_to_aggregate: 2 }
  cluster { slice_bytes: 256 }
  batch_size: 16
  num_epochs: 4
)pb";

constexpr size_t kSteps = 4 * 8;  // 240 examples are 8 steps of 32.

// The same columns in each format.
struct Format {
  const char* name;  // FORMAT_...
  const char* data;
};
constexpr Format kFormats[] = {{"CSV", R"pb(csv { label: "click" }
                                            ids { column: "user" }
                                            ids { column: "items" separator: "|" weights: ":" }
                                            ids { column: "colour" words: true })pb"},
                               {"NPY", R"pb(ids { column: "user" missing: -1 }
                                            ids { column: "items" weights: "ratings" }
                                            ids { column: "colour" })pb"},
                               {"TFRECORD", R"pb(tfrecord { label: "click" }
                                                 numbers: "age"
                                                 ids { column: "user" }
                                                 ids { column: "items" weights: "ratings" }
                                                 ids { column: "colour" words: true })pb"}};

struct Example {
  int64_t user = -1;  // -1: it is missing
  std::vector<int64_t> items;
  std::vector<float> ratings;  // multiples of 1/8, which texts have exactly
  float age = 0;               // the same
  std::string colour;
  int64_t click = 0;
};

// Makes examples with ids, some missing and some of which are lists, that say what the label is.
std::vector<Example> MakeExamples(uint64_t seed, int count) {
  constexpr const char* kColours[] = {"red", "green", "blue", "white"};
  uint64_t draws = 0;
  const auto below = [&](uint64_t bound) { return RandomBelow(seed, draws++, bound); };
  std::vector<Example> examples;
  for (int i = 0; i < count; ++i) {
    Example& example = examples.emplace_back();
    float sum = 0;
    if (below(8) > 0) {
      example.user = static_cast<int64_t>(below(30));
      sum += example.user % 2 == 0 ? 2.0f : -2.0f;
    }
    for (uint64_t k = below(4); k > 0; --k) {
      example.items.push_back(static_cast<int64_t>(below(20)));
      example.ratings.push_back(static_cast<float>(below(16)) / 8);
      sum += (example.items.back() % 2 == 0 ? 1.0f : -1.0f) * example.ratings.back();
    }
    example.age = static_cast<float>(below(64)) / 8;
    const uint64_t colour = below(4);
    example.colour = kColours[colour];
    sum += colour == 0 ? 1.0f : 0.0f;
    example.click = sum > 0 ? 1 : 0;
  }
  return examples;
}

std::string CsvOf(const std::vector<Example>& examples) {
  std::string text = "user,items,age,colour,click\n";
  for (const Example& example : examples) {
    std::vector<std::string> items;
    for (size_t i = 0; i < example.items.size(); ++i) {
      items.push_back(absl::StrCat(example.items[i], ":", example.ratings[i]));
    }
    absl::StrAppend(&text, example.user < 0 ? "" : absl::StrCat(example.user), ",",
                    absl::StrJoin(items, "|"), ",", example.age, ",", example.colour, ",",
                    example.click, "\n");
  }
  return text;
}

template <typename T>
std::string NpyOf(const char* type, const std::string& shape, const std::vector<T>& values) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  while ((10 + header.size()) % 64 != 63) header += ' ';
  header += '\n';
  return absl::StrCat(
      absl::string_view("\x93NUMPY\x01\x00", 8), std::string(1, static_cast<char>(header.size())),
      std::string(1, '\0'), header,
      absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

std::string RecordsOf(const std::vector<Example>& examples) {
  std::string bytes;
  for (const Example& example : examples) {
    tf::Example record;
    auto& features = *record.mutable_features()->mutable_feature();
    if (example.user >= 0) features["user"].mutable_int64_list()->add_value(example.user);
    for (const int64_t item : example.items)
      features["items"].mutable_int64_list()->add_value(item);
    for (const float rating : example.ratings) {
      features["ratings"].mutable_float_list()->add_value(rating);
    }
    features["age"].mutable_float_list()->add_value(example.age);
    features["colour"].mutable_bytes_list()->add_value(example.colour);
    features["click"].mutable_int64_list()->add_value(example.click);
    bytes += FrameTfRecord(record.SerializeAsString());
  }
  return bytes;
}

class IdsTrainingTest : public ::testing::Test {
 protected:
  IdsTrainingTest() {
    EXPECT_OK(RemoveTree(*files_, directory_));
    EXPECT_OK(files_->MakeDirectory(directory_));
    WriteSplit("train", MakeExamples(1, 240));
    WriteSplit("test", MakeExamples(2, 60));
  }

  void Write(const std::string& name, const std::string& bytes) {
    EXPECT_OK(WriteAtomically(*files_, JoinPath(directory_, name), bytes));
  }

  void WriteSplit(const std::string& split, const std::vector<Example>& examples) {
    Write(split + ".csv", CsvOf(examples));
    Write(split + ".tfrecord", RecordsOf(examples));
    std::vector<int64_t> clicks, users, items, offsets = {0};
    std::vector<uint64_t> colours;
    std::vector<float> ratings, ages;
    for (const Example& example : examples) {
      clicks.push_back(example.click);
      users.push_back(example.user);
      items.insert(items.end(), example.items.begin(), example.items.end());
      ratings.insert(ratings.end(), example.ratings.begin(), example.ratings.end());
      offsets.push_back(static_cast<int64_t>(items.size()));
      ages.push_back(example.age);
      colours.push_back(HashText(example.colour));
    }
    const auto write = [&](const char* name, const std::string& bytes) {
      Write(absl::StrCat(name, "_", split, ".npy"), bytes);
    };
    const std::string count = absl::StrCat(examples.size(), ",");
    write("y", NpyOf("<i8", count, clicks));
    write("x", NpyOf("<f4", count + "1", ages));
    write("user", NpyOf("<i8", count, users));
    write("items", NpyOf("<i8", absl::StrCat(items.size(), ","), items));
    write("items_offsets", NpyOf("<i8", absl::StrCat(offsets.size(), ","), offsets));
    write("ratings", NpyOf("<f4", absl::StrCat(ratings.size(), ","), ratings));
    write("colour", NpyOf("<u8", count, colours));
  }

  v1::RunConfig Config(const Format& format, const std::string& extra = "") {
    const std::string data = absl::StrCat("data { format: FORMAT_", format.name, " directory: '",
                                          directory_, "' ", format.data, " } ");
    return NewRun(kRun, absl::StrCat(data, extra), files_.get());
  }

  void Train(const v1::RunConfig& run, uint32_t num_ps, uint32_t num_workers) {
    EXPECT_OK(files_->MakeDirectory(run.out()));
    EXPECT_OK(TrainInProcess(run, num_ps, num_workers, files_.get()));
  }

  std::vector<double> Losses(const v1::RunConfig& run) { return RecordedLosses(files_.get(), run); }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string directory_ =
      absl::StrCat(::testing::TempDir(), "/ids_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(IdsTrainingTest, EachFormatAndAnyNumberOfTasksGiveTheSameBytes) {
  std::vector<double> losses;
  Values values;
  for (const Format& format : kFormats) {
    for (const uint32_t tasks : {1u, 2u}) {
      const v1::RunConfig run = Config(format);
      Train(run, tasks, tasks);
      if (losses.empty()) {
        losses = Losses(run);
        values = NewestValues(files_.get(), run);
        ASSERT_THAT(losses, SizeIs(kSteps + 1));
        const double first = std::accumulate(losses.begin(), losses.begin() + 8, 0.0);
        const double last = std::accumulate(losses.end() - 9, losses.end() - 1, 0.0);
        EXPECT_LT(last, 0.7 * first);
        EXPECT_LT(losses.back(), 0.6);  // of the test split
      }
      EXPECT_EQ(Losses(run), losses) << format.name << ", " << tasks << " workers";
      EXPECT_EQ(NewestValues(files_.get(), run), values) << format.name;
    }
  }
}

TEST_F(IdsTrainingTest, SeveralClonesShareABatch) {
  for (const Format& format : kFormats) {
    v1::RunConfig run = Config(format, "batch_size: 8 deployment { num_clones: 2 }");
    Train(run, 1, 2);
    const std::vector<double> losses = Losses(run);
    ASSERT_THAT(losses, SizeIs(kSteps + 1));
    EXPECT_LT(losses[kSteps - 1], losses[0]) << format.name;
  }
}

}  // namespace
}  // namespace shoal
