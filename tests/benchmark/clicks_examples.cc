// Writes the examples of a run of synthetic clicks to a file, so that other programs can train on
// the same examples: those of the training split in the order of the first epoch, or those of the
// test split. An example is 160 bytes, little-endian: 13 float32 numbers, 26 int32 ids, and an
// int32 that is 1 for a click. Prints what the data set says of its best results.
//
// usage: clicks_examples RUN_FILE train|test FILE [EXAMPLES]
// EXAMPLES takes the place of data.train_examples or data.test_examples.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "ml/data/dataset_factory.h"
#include "ml/data/ragged_rows.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

constexpr size_t kNumbers = 13;
constexpr size_t kColumns = 26;
constexpr size_t kWords = kNumbers + kColumns + 1;  // of an example
constexpr int64_t kBatch = 8192;

// Appends the examples with these indices to the file.
absl::Status WriteBatch(const Dataset& dataset, absl::Span<const int64_t> indices,
                        WritableFile* file) {
  std::vector<float> numbers(kNumbers * indices.size());
  std::vector<RaggedRows> columns(kColumns);
  std::vector<int32_t> labels(indices.size());
  std::vector<void*> outputs = {numbers.data()};
  for (RaggedRows& column : columns) outputs.push_back(&column);
  outputs.push_back(labels.data());
  RETURN_IF_ERROR(dataset.FillBatch(0, indices, outputs));
  std::vector<int32_t> words(kWords * indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    int32_t* const example = words.data() + kWords * i;
    std::memcpy(example, numbers.data() + kNumbers * i, kNumbers * sizeof(float));
    for (size_t c = 0; c < kColumns; ++c) {
      const absl::Span<const int64_t> keys = columns[c].keys_of(static_cast<int64_t>(i));
      if (keys.size() != 1 || keys[0] > std::numeric_limits<int32_t>::max()) {
        return absl::InvalidArgumentError(
            "data.clicks: each column must have one id below 2^31; unset multi_hot, or set a "
            "smaller scale");
      }
      example[kNumbers + c] = static_cast<int32_t>(keys[0]);
    }
    example[kNumbers + kColumns] = labels[i];
  }
  return file->Append({reinterpret_cast<const char*>(words.data()), words.size() * 4});
}

absl::Status Write(const std::string& run_file, const std::string& split, const std::string& path,
                   uint64_t examples) {
  ASSIGN_OR_RETURN(v1::RunConfig run, LoadRunConfig(run_file));
  ResolveDefaults({}, &run);
  if (run.data().format() != v1::DataConfig::FORMAT_CLICKS_SYNTHETIC) {
    return absl::InvalidArgumentError("data.format: must be clicks_synthetic");
  }
  if (split != "train" && split != "test") {
    return absl::InvalidArgumentError(absl::StrCat(split, ": must be train or test"));
  }
  const bool is_train = split == "train";
  if (examples > 0 && is_train) run.mutable_data()->set_train_examples(examples);
  if (examples > 0 && !is_train) run.mutable_data()->set_test_examples(examples);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Dataset> dataset,
      MakeDataset(run.data(), is_train ? DataSplit::kTrain : DataSplit::kTest, run.seed()));
  BatchPlanOptions options;
  options.num_examples = dataset->size();
  options.batch_size = kBatch;
  options.seed = run.seed();
  options.shuffle = is_train;
  ASSIGN_OR_RETURN(const BatchPlan plan, BatchPlan::Create(options));
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files->Create(path));
  std::vector<int64_t> indices;
  for (int64_t batch = 0; batch < plan.batches_per_epoch(); ++batch) {
    indices.resize(static_cast<size_t>(plan.num_examples(batch)));
    plan.FillIndices(0, batch, absl::MakeSpan(indices));
    RETURN_IF_ERROR(WriteBatch(*dataset, indices, file.get()));
  }
  RETURN_IF_ERROR(file->Close());
  if (!is_train) std::printf("%s\n", dataset->notice().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  uint64_t examples = 0;
  if (argc < 4 || argc > 5 || (argc == 5 && !absl::SimpleAtoi(argv[4], &examples))) {
    std::fprintf(stderr, "usage: clicks_examples RUN_FILE train|test FILE [EXAMPLES]\n");
    return 2;
  }
  const absl::Status status = shoal::Write(argv[1], argv[2], argv[3], examples);
  if (status.ok()) return 0;
  std::fprintf(stderr, "clicks_examples: %s\n", std::string(status.message()).c_str());
  return 78;
}
