#include "worker/prediction/predict_command.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/dataset_factory.h"
#include "ml/data/records/npy_file.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/model_builder.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/process/exit_code.h"
#include "worker/prediction/class_names.h"
#include "worker/prediction/field_predictions.h"
#include "worker/prediction/predict_input.h"
#include "worker/prediction/prediction_labels.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/device_selection.h"
#include "worker/replica/parallel_model.h"
#include "worker/replica/replica_inputs.h"
#include "worker/replica/trained_variables.h"

namespace shoal {
namespace {

// Returns the number of classes of the run file or, if it sets none, the number of columns of the
// last parameter, which is that of the outputs of a model of the zoo. A model of layers does not
// use the number.
int64_t CountClasses(const v1::RunConfig& run, const v1::Manifest& manifest) {
  if (run.data().classes() > 0) return run.data().classes();
  for (int v = manifest.variables_size() - 1; v >= 0; --v) {
    const v1::VariableSpec& variable = manifest.variables(v);
    if (!variable.trainable()) continue;
    return variable.shape_size() == 0 ? 1 : variable.shape(variable.shape_size() - 1);
  }
  return 1;
}

ParallelModelSpec::Model WithProbabilities(PredictionFunction predictions, std::string loss) {
  return [predictions = std::move(predictions), loss = std::move(loss)](
             GraphBuilder& builder, absl::Span<const Output> inputs, bool is_training) {
    const Output outputs = predictions(builder, inputs, is_training);
    if (loss.empty()) return std::vector<Output>{outputs};
    const bool is_sigmoid = loss == "sigmoid_cross_entropy";
    return std::vector<Output>{builder.Op(is_sigmoid ? "Sigmoid" : "Softmax", {outputs})};
  };
}

// The outputs of a program's own model, which is built on whole batches. Only the predictions are
// computed, so nothing is fed to the targets.
PredictionFunction MakePredictionFunction(ModelFunction model, std::vector<FieldSpec> fields) {
  return [model = std::move(model), fields = std::move(fields)](
             GraphBuilder& builder, absl::Span<const Output> inputs, bool is_training) -> Output {
    std::vector<Output> batch;
    size_t next_input = 0;
    for (const BatchInput& part : BatchInputs(fields)) {
      const FieldSpec& field = fields[part.field];
      if (!IsTarget(field)) {
        batch.push_back(inputs[next_input++]);
        continue;
      }
      Shape shape({kUnknownDim});
      for (int64_t dim : field.example.shape.dims()) shape.AddDim(dim);
      batch.push_back(builder.Placeholder(field.name, field.example.dtype, shape));
    }
    const Output predictions = model(builder, batch, is_training).predictions;
    if (!predictions.valid()) {
      builder.SetError(absl::InvalidArgumentError(
          "model: it gives no predictions; set ModelOutputs::predictions"));
    }
    return predictions;
  };
}

// Returns FailedPrecondition with both lists of fields if a model of examples with the fields
// `wanted` cannot use examples with the fields `has`.
absl::Status CheckInputs(const std::vector<FieldSpec>& has, const std::vector<FieldSpec>& wanted) {
  bool fits = has.size() == wanted.size();
  for (size_t f = 0; fits && f < has.size(); ++f) {
    fits = has[f].example == wanted[f].example && has[f].kind == wanted[f].kind;
  }
  if (fits) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the model needs examples of ", NamesWithShapes(wanted),
                   "; these examples have ", NamesWithShapes(has)));
}

// `data` are the examples to predict, the run's own unless they are of a file.
absl::StatusOr<PredictionFunction> OwnPredictions(const PredictOptions& options,
                                                  const Dataset& data) {
  std::unique_ptr<Dataset> of_run;
  const bool has_own_data = options.own_model->dataset() != nullptr;
  if (!options.input_file.empty() && has_own_data) {
    ASSIGN_OR_RETURN(of_run, OpenRunData(options.run, DataSplit::kTrain, *options.own_model));
  } else if (!options.input_file.empty()) {
    ASSIGN_OR_RETURN(of_run, OpenRunExamples(options.run.data(), options.run.seed(), /*size=*/0));
  }
  const Dataset& examples = of_run == nullptr ? data : *of_run;
  const std::vector<FieldSpec> fields = examples.fields();
  const absl::Status fits = CheckInputs(InputFields(data.fields()), InputFields(fields));
  if (!fits.ok() && !options.input_file.empty() && has_own_data) {
    return ExplainMisfitOfProgram(options.input_file, InputFields(data.fields()),
                                  InputFields(fields));
  }
  if (!fits.ok()) return ExplainMisfit(options.run.data(), options.input_file, data, fits);
  ASSIGN_OR_RETURN(
      ModelFunction model,
      (*options.own_model)(options.run, fields, NumClasses(options.run.data(), examples)));
  return MakePredictionFunction(std::move(model), fields);
}

absl::StatusOr<PredictionFunction> PredictionsFor(const PredictOptions& options,
                                                  const Dataset& data,
                                                  const v1::Manifest& manifest) {
  if (options.own_model != nullptr) return OwnPredictions(options, data);
  absl::StatusOr<PredictionFunction> predictions =
      MakePredictions(options.run.model(), InputFields(data.fields()),
                      CountClasses(options.run, manifest), &options.run.table());
  if (predictions.ok()) return predictions;
  return ExplainMisfit(options.run.data(), options.input_file, data, predictions.status());
}

// A model and the devices that compute its predictions.
struct Computation {
  ParallelModelSpec spec;
  ParallelModelOptions parallel;
};

absl::StatusOr<Computation> MakeComputation(const PredictOptions& options, const Dataset& data,
                                            const v1::Manifest& manifest) {
  const v1::RunConfig& run = options.run;
  ASSIGN_OR_RETURN(PredictionFunction predictions, PredictionsFor(options, data, manifest));
  Computation computation;
  computation.spec.inputs = InputFields(data.fields());
  computation.spec.model = WithProbabilities(
      std::move(predictions), options.probabilities ? run.model().loss() : std::string());
  ParallelModelOptions& parallel = computation.parallel;
  parallel.backend = CpuKernelBackend();
  parallel.accelerators = AcceleratorsFor(run.deployment());
  parallel.devices = DevicesOfPredictions(run.deployment(), parallel.accelerators);
  parallel.threads_per_device = static_cast<int>(run.deployment().threads());
  parallel.allow_soft_placement = run.deployment().allow_soft_placement();
  if (ComputesInBfloat16(run)) parallel.compute_dtype = DataType::kBfloat16;
  return computation;
}

absl::Status LoadValues(Checkpoint* checkpoint, VariableValues which, ParallelModel* model) {
  std::vector<v1::VariableSpec> specs;
  for (size_t v = 0; v < model->variables().size(); ++v) {
    specs.push_back(model->variables().spec(v));
  }
  RETURN_IF_ERROR(CheckSameVariables(specs, checkpoint->manifest()));
  ASSIGN_OR_RETURN(const std::vector<std::vector<float>> values, ReadVariables(checkpoint, which));
  for (size_t v = 0; v < values.size(); ++v) model->variables().SetValue(v, values[v]);
  return absl::OkStatus();
}

// The output file, which is checked before anything is computed.
absl::StatusOr<std::string> PredictionsPath(const TaskFlags& task, const std::string& out) {
  const bool is_default = task.predictions_file.empty();
  const std::string path = is_default ? out + "/predictions.npy" : task.predictions_file;
  if (!absl::EndsWith(path, ".npy") && !absl::EndsWith(path, ".csv")) {
    return InvalidField("--predictions", "must end in .npy or .csv");
  }
  std::error_code error;
  if (!task.input_file.empty() && std::filesystem::equivalent(path, task.input_file, error)) {
    return InvalidField(
        "--predictions",
        absl::StrCat(path, " is the file of --input and would be lost; name another"));
  }
  if (!is_default) {
    RETURN_IF_ERROR(CheckDirectoryOf(*NewPosixFileSystem(), "--predictions", path));
  }
  return path;
}

absl::Status WritePredictions(FileSystem* file_system, const std::string& path,
                              const Tensor& predictions, const PredictionLabels& labels) {
  std::string bytes;
  if (absl::EndsWith(path, ".csv")) {
    bytes = PredictionsCsv(predictions, labels);
  } else {
    const absl::Span<const int64_t> dims = predictions.shape().dims();
    bytes = NpyHeader({dims.begin(), dims.end()});
    bytes.append(static_cast<const char*>(predictions.data()), predictions.bytes());
  }
  const absl::Status written = WriteAtomically(*file_system, path, bytes);
  if (written.ok()) return written;
  return absl::Status(written.code(),
                      absl::StrCat("--predictions: ", written.message(), "; name another file"));
}

// The examples of --input, or of the run's test split.
absl::StatusOr<std::unique_ptr<Dataset>> OpenExamples(const PredictOptions& options) {
  const v1::RunConfig& run = options.run;
  const ModelFactory model = options.own_model == nullptr ? ModelFromRunFile() : *options.own_model;
  if (options.input_file.empty()) return OpenRunData(run, DataSplit::kTest, model);
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                   OpenInput(run.data(), options.input_file, model.RulesFor(run)));
  ASSIGN_OR_RETURN(const std::string warning,
                   CheckInputValues(run.data(), options.input_file, *data));
  // The warning is about the data of the run file, which a program's data set replaces.
  const bool has_own_data = options.own_model != nullptr && options.own_model->dataset() != nullptr;
  if (!warning.empty() && !has_own_data) std::fprintf(stderr, "%s\n", warning.c_str());
  return data;
}

absl::StatusOr<PredictOptions> ReadOptions(const CommandLine& line, const ModelFactory* own_model) {
  PredictOptions options;
  ASSIGN_OR_RETURN(options.run, FindFinishedRun(line));
  RETURN_IF_ERROR(CheckNotInComputeProgram(options.run));
  options.own_model = own_model;
  options.probabilities = line.task.probabilities;
  options.use_averages = line.task.use_averages;
  options.input_file = line.task.input_file;
  if (options.probabilities && own_model != nullptr) {
    return InvalidField(
        "--probabilities",
        "the loss is the program's own, so what makes its outputs probabilities is not "
        "known; leave the flag out, or have the model predict probabilities");
  }
  return options;
}

absl::StatusOr<std::string> Predict(absl::Span<const std::string> args,
                                    const ModelFactory* own_model) {
  ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(kScopePredict, args));
  ASSIGN_OR_RETURN(const PredictOptions options, ReadOptions(line, own_model));
  ASSIGN_OR_RETURN(const std::string path, PredictionsPath(line.task, options.run.out()));
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   OpenCheckpoint(file_system.get(), options.run.out(), line.task.checkpoint_step));
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, OpenExamples(options));
  ASSIGN_OR_RETURN(const Predictions predictions, PredictDataset(options, *data, checkpoint.get()));
  std::fprintf(stderr, "%s\n", DescribeGpusFor(options.run.deployment()).c_str());
  for (const std::string& device : predictions.missing_devices) {
    std::fprintf(stderr, "devices: there is no %s; a CPU is used instead\n", device.c_str());
  }
  for (const std::string& device : predictions.unused_devices) {
    std::fprintf(stderr, "devices: %s is not used: one device predicts from columns of ids\n",
                 device.c_str());
  }
  const std::vector<std::string> names = ReadClassNames(file_system.get(), options.run.out());
  if (const std::string notice = NoticeOfUnusedNames(predictions.rows, names); !notice.empty()) {
    std::fprintf(stderr, "%s\n", notice.c_str());
  }
  PredictionLabels labels = LabelsFor(predictions.rows, *data, names);
  labels.are_classes = own_model == nullptr && Classifies(options.run.model());
  RETURN_IF_ERROR(WritePredictions(file_system.get(), path, predictions.rows, labels));
  return absl::StrCat(PredictedClasses(predictions.rows, labels, options.probabilities),
                      data->size(), data->size() == 1 ? " example" : " examples", ", step ",
                      checkpoint->manifest().step(), ": ", path, " ",
                      predictions.rows.shape().ToString());
}

// Examples with columns of ids are not divided: their model has one clone.
absl::StatusOr<Predictions> PredictOnFirstDevice(const PredictOptions& options,
                                                 Computation computation, const Dataset& data,
                                                 Checkpoint* checkpoint, VariableValues which) {
  Predictions predictions;
  std::vector<std::string>& devices = computation.parallel.devices;
  predictions.unused_devices.assign(devices.begin() + 1, devices.end());
  devices.resize(1);
  predictions.missing_devices = MissingDevices(devices, computation.parallel.accelerators);
  FieldPredictionOptions fields;
  fields.run = options.run;
  fields.model = std::move(computation.spec.model);
  fields.parallel = std::move(computation.parallel);
  absl::StatusOr<Tensor> rows = PredictFields(fields, data, checkpoint, which);
  if (!rows.ok()) {
    return ExplainMisfit(options.run.data(), options.input_file, data, rows.status());
  }
  predictions.rows = *std::move(rows);
  return predictions;
}

}  // namespace

absl::StatusOr<Predictions> PredictDataset(const PredictOptions& options, const Dataset& data,
                                           Checkpoint* checkpoint) {
  ASSIGN_OR_RETURN(Computation computation, MakeComputation(options, data, checkpoint->manifest()));
  ASSIGN_OR_RETURN(const VariableValues which, ValuesToUse(options.use_averages, *checkpoint));
  if (NeedsFieldPredictions(data, *checkpoint)) {
    return PredictOnFirstDevice(options, std::move(computation), data, checkpoint, which);
  }
  const int64_t batch = static_cast<int64_t>(options.run.batch_size()) *
                        static_cast<int64_t>(computation.parallel.devices.size());
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ParallelModel> model,
      ParallelModel::Create(std::move(computation.spec), std::move(computation.parallel)));
  const absl::Status loaded = LoadValues(checkpoint, which, model.get());
  if (!loaded.ok()) return ExplainMisfit(options.run.data(), options.input_file, data, loaded);
  Predictions predictions;
  predictions.missing_devices = model->missing_devices();
  for (int64_t first = 0; first < data.size(); first += batch) {
    const int64_t count = std::min(batch, data.size() - first);
    ASSIGN_OR_RETURN(const std::vector<Tensor> rows, ReadInputRows(data, first, count));
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model->Predict(rows));
    const Tensor& part = outputs[0];
    if (first == 0) {
      Shape shape = part.shape();
      shape.set_dim(0, data.size());
      predictions.rows = Tensor(DataType::kFloat32, shape);
    }
    std::copy(part.span<float>().begin(), part.span<float>().end(),
              predictions.rows.mutable_span<float>().begin() +
                  first * (part.shape().num_elements() / count));
  }
  return predictions;
}

int PredictMain(absl::Span<const std::string> args, const ModelFactory* own_model) {
  for (const std::string& arg : args) {
    if (arg != "--help" && arg != "-h") continue;
    std::printf(
        "usage: shoal predict DIR [--input=FILE|FOLDER] [--predictions=FILE] "
        "[--devices=LIST]\n\n"
        "Computes the newest checkpoint's model on examples and writes a row of its outputs for\n"
        "each, in order, to the file --predictions. The examples of a batch are split over the\n"
        "devices, which may have any indices. Images are prepared as the run's were. An array of\n"
        "--input is divided by 255 if it is a .npy of uint8; floats and CSV files are taken as\n"
        "they are. A run on clicks takes a .tsv without the column of the label. The rows of\n"
        "embedding tables are read from the checkpoint.\n"
        "\n  shoal predict --out=runs/NAME-TIME-PROCESS --input=photo.jpg --probabilities\n"
        "  shoal predict --out=runs/NAME-TIME-PROCESS --input=images.npy "
        "--predictions=scores.csv\n"
        "  shoal predict --out=runs/NAME-TIME-PROCESS --devices=/cpu:0,/cpu:2 "
        "--probabilities\n\n%s",
        FlagHelp(kScopePredict).c_str());
    return kExitDone;
  }
  const absl::StatusOr<std::string> done = Predict(args, own_model);
  if (!done.ok()) {
    std::fprintf(stderr, "shoal predict: %s\n", std::string(done.status().message()).c_str());
    return ToExitCode(done.status());
  }
  std::printf("%s\n", done->c_str());
  return kExitDone;
}

}  // namespace shoal
