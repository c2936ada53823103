// Reads files of every data format. A file is either refused or read completely, and then all
// values are in the ranges that the data set declares.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/file_system.h"
#include "ml/data/cifar_dataset.h"
#include "ml/data/csv_dataset.h"
#include "ml/data/dataset.h"
#include "ml/data/ids/id_column.h"
#include "ml/data/idx_dataset.h"
#include "ml/data/npy_dataset.h"
#include "ml/data/ragged_rows.h"
#include "ml/data/records/tf_record_file.h"
#include "ml/data/tf_record_dataset.h"
#include "tests/fuzz/fuzz_target.h"

namespace shoal {
namespace {

using Loaded = absl::StatusOr<std::unique_ptr<Dataset>>;

void Use(const Loaded& loaded) {
  if (!loaded.ok()) {
    CheckFuzzed(!loaded.status().message().empty());
    return;
  }
  CheckFuzzed((*loaded)->size() >= 0);
}

// Reads all examples of a data set whose first field is dense floats, if it has an input, and whose
// next one is the label, with ragged fields behind them.
void UseFields(const Loaded& loaded) {
  Use(loaded);
  if (!loaded.ok()) return;
  const Dataset& data = **loaded;
  std::vector<int64_t> all(static_cast<size_t>(data.size()));
  std::iota(all.begin(), all.end(), 0);
  const size_t num_fields = data.fields().size();
  std::vector<std::vector<char>> dense(num_fields);
  std::vector<RaggedRows> ragged;
  for (const FieldSpec& field : data.fields()) {
    ragged.emplace_back(field.kind == FieldKind::kWeightedRagged);
  }
  std::vector<void*> outputs;
  for (size_t f = 0; f < num_fields; ++f) {
    const FieldSpec& field = data.fields()[f];
    if (!field.is_ragged()) dense[f].resize(all.size() * field.example.bytes());
    outputs.push_back(field.is_ragged() ? static_cast<void*>(&ragged[f]) : dense[f].data());
  }
  if (!data.FillBatch(0, all, outputs).ok()) return;
  for (size_t f = 0; f < num_fields; ++f) {
    if (!data.fields()[f].is_ragged()) continue;
    CheckFuzzed(ragged[f].num_examples() == data.size());
    CheckFuzzed(ragged[f].offsets().back() == static_cast<int64_t>(ragged[f].keys().size()));
    CheckFuzzed(std::is_sorted(ragged[f].offsets().begin(), ragged[f].offsets().end()));
  }
}

// Divides the input into the two files of formats that have two, at the position that the first
// byte selects.
void Split(absl::string_view input, absl::string_view* first, absl::string_view* second) {
  const size_t cut =
      input.empty() ? 0 : input.size() * static_cast<unsigned char>(input.front()) / 256;
  *first = input.substr(input.empty() ? 0 : 1, cut);
  *second = input.substr(std::min(input.size(), cut + 1));
}

void TryIdx(absl::string_view input) {
  absl::string_view images, labels;
  Split(input, &images, &labels);
  IdxDatasetOptions options;
  options.images_path = WriteFuzzed("images", images);
  options.labels_path = WriteFuzzed("labels", labels);
  Use(LoadIdxDataset(options));
}

void TryNpy(absl::string_view input) {
  absl::string_view inputs, labels;
  Split(input, &inputs, &labels);
  NpyDatasetOptions options;
  options.inputs_path = WriteFuzzed("inputs.npy", inputs);
  if (!labels.empty()) options.labels_path = WriteFuzzed("labels.npy", labels);
  Use(LoadNpyDataset(options));
}

void TryCsv(absl::string_view input) {
  CsvDatasetOptions options;
  const int how = TakeChoice(&input, 8);
  options.path = WriteFuzzed("table.csv", input);
  options.has_header = (how & 1) != 0;
  options.is_regression = (how & 2) != 0;
  if ((how & 4) != 0) options.delimiter = ';';
  Use(LoadCsvDataset(options));
}

// Two arrays of ids: numbers, in rows or in lists, and their offsets or their weights.
void TryNpyIds(absl::string_view input) {
  NpyDatasetOptions options;
  const int how = TakeChoice(&input, 4);
  absl::string_view ids, other;
  Split(input, &ids, &other);
  const std::string path = WriteFuzzed("ids_train.npy", ids);
  const std::string offsets = WriteFuzzed("ids_offsets_train.npy", other);
  const std::string weights = WriteFuzzed("weights_train.npy", other);
  if ((how & 1) == 0) CheckFuzzed(std::remove(offsets.c_str()) == 0);
  options.ids.resize(1);
  options.ids[0].column = "ids";
  options.ids[0].missing = -1;
  if ((how & 2) != 0) options.ids[0].weights = "weights";
  options.ids_directory = ParentDirectory(path);
  options.split = "train";
  UseFields(LoadNpyDataset(options));
}

// A table whose column "user" has numbers and whose columns "w..." have lists of words.
void TryCsvIds(absl::string_view input) {
  CsvDatasetOptions options;
  const int how = TakeChoice(&input, 8);
  options.path = WriteFuzzed("ids.csv", input);
  options.has_header = (how & 1) != 0;
  options.has_label = (how & 2) != 0;
  if ((how & 4) != 0) options.delimiter = '\t';
  IdColumn user, words;
  user.column = options.has_header ? "user" : "0";
  user.separator = "|";
  words.column = options.has_header ? "w*" : "1";
  words.words = true;
  words.separator = "|";
  if (options.has_label) words.weights = ":";
  options.ids = {user, words};
  UseFields(LoadCsvDataset(options));
}

void TryCifar(absl::string_view input) {
  CifarDatasetOptions options;
  options.kind = TakeChoice(&input, 2) == 0 ? CifarKind::kCifar10 : CifarKind::kCifar100;
  options.paths = {WriteFuzzed("batch.bin", input)};
  Use(LoadCifarDataset(options));
}

// Records whose feature "user" has numbers with weights, and whose feature "word" has words.
void TryRecordIds(absl::string_view input) {
  TfRecordDatasetOptions options;
  const int how = TakeChoice(&input, 4);
  options.paths = {WriteFuzzed("ids.tfrecord", FrameTfRecord(input))};
  options.ids.resize(2);
  options.ids[0].column = "user";
  if ((how & 1) != 0) options.ids[0].weights = "weight";
  options.ids[1].column = "word";
  options.ids[1].words = true;
  if ((how & 2) != 0) options.numbers = {"age"};
  options.label = "label";
  UseFields(OpenTfRecordDataset(options));
}

void TryRecords(const std::string& bytes) {
  TfRecordDatasetOptions options;
  options.paths = {WriteFuzzed("examples.tfrecord", bytes)};
  Use(OpenTfRecordDataset(options));
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const auto file = TfRecordFile::Open(*files, options.paths[0]);
  if (!file.ok()) return;
  std::string buffer;
  for (int64_t i = 0; i < std::min<int64_t>((*file)->size(), 16); ++i) {
    (void)(*file)->Read(i, &buffer);
  }
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  switch (shoal::TakeChoice(&input, 9)) {
    case 0:
      shoal::TryIdx(input);
      break;
    case 1:
      shoal::TryNpy(input);
      break;
    case 2:
      shoal::TryCsv(input);
      break;
    case 3:
      shoal::TryCifar(input);
      break;
    case 4:
      shoal::TryRecords(std::string(input));
      break;
    case 6:
      shoal::TryCsvIds(input);
      break;
    case 7:
      shoal::TryNpyIds(input);
      break;
    case 8:
      shoal::TryRecordIds(input);
      break;
    // A record of any bytes with right checksums, so that the code behind their check is reached.
    default:
      shoal::TryRecords(shoal::FrameTfRecord(input));
  }
  return 0;
}
