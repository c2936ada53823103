// Reads the examples for `shoal predict`, and explains why they do not fit the run.
#ifndef SHOAL_WORKER_PREDICTION_PREDICT_INPUT_H_
#define SHOAL_WORKER_PREDICTION_PREDICT_INPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "ml/data/data_rules.h"
#include "ml/data/dataset.h"
#include "ml/tensor/tensor.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {

// Opens the examples in the file or folder of --input, prepared as the run's test split. `rules`
// are those of the run's model. Errors name --input: InvalidArgument (the name's ending, a table
// without header), NotFound, DataLoss (damaged, or of an unknown kind), FailedPrecondition
// (examples that differ in kind from the run's).
absl::StatusOr<std::unique_ptr<Dataset>> OpenInput(const v1::DataConfig& config,
                                                   const std::string& file, const DataRules& rules);

// Opens the run's test split, or the training split if there is no other, or only `size` examples
// of it if `size` is not 0. Table options that only concern the file of --input are ignored.
absl::StatusOr<std::unique_ptr<Dataset>> OpenRunExamples(v1::DataConfig config, uint64_t seed,
                                                         uint32_t size);

// Returns DataLoss if an example of the file has a value that is not finite. Otherwise returns a
// warning for the user if the values range from 0 to 255 although the run trained on images of
// bytes divided by 255, or "".
absl::StatusOr<std::string> CheckInputValues(const v1::DataConfig& config, const std::string& file,
                                             const Dataset& data);

// Explains why the run's model refuses `data`, read from `file`, with `status`: returns
// FailedPrecondition with the shape of the data and, if the run's data still exist, that of the
// run's examples. Returns `status` itself if the shapes are equal or there is no file.
absl::Status ExplainMisfit(const v1::DataConfig& config, const std::string& file,
                           const Dataset& data, const absl::Status& status);

// Returns the fields with their shapes, as a part of a message: "input [n,1,28,28], c1 (lists of
// keys)".
std::string NamesWithShapes(const std::vector<FieldSpec>& fields);

// Explains why a program's model, whose data set gives the inputs `wanted`, refuses the inputs
// `has` of `file`: returns FailedPrecondition with the inputs that are missing.
absl::Status ExplainMisfitOfProgram(const std::string& file, const std::vector<FieldSpec>& has,
                                    const std::vector<FieldSpec>& wanted);

// Returns the input fields of examples [first, first + count), with shape [count, ...].
// InvalidArgument: a field is ragged.
absl::StatusOr<std::vector<Tensor>> ReadInputRows(const Dataset& data, int64_t first,
                                                  int64_t count);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_PREDICT_INPUT_H_
