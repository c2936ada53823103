// The examples that `shoal predict` is given, and what is said of them where they do not fit.
#ifndef SHOAL_WORKER_PREDICTION_PREDICT_INPUT_H_
#define SHOAL_WORKER_PREDICTION_PREDICT_INPUT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "ml/data/dataset.h"
#include "ml/tensor/tensor.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {

// The examples in the file of --input, prepared as the run's test split. Errors name --input:
// InvalidArgument (the name's ending, a table without header), NotFound, DataLoss (damaged, or of a
// kind that is not read), FailedPrecondition (examples that are not like the run's).
absl::StatusOr<std::unique_ptr<Dataset>> OpenInput(const v1::DataConfig& config,
                                                   const std::string& file);

// The test split of the run, or the training split where there is no other; `size` examples of it
// if that is not 0. Options of a table that only suit the file of --input are left out.
absl::StatusOr<std::unique_ptr<Dataset>> OpenRunExamples(v1::DataConfig config, uint64_t seed,
                                                         uint32_t size);

// DataLoss if an example of the file has a value that is not finite. Else a warning for the user:
// values of 0 to 255 for a run whose data were images of bytes, which it divided by 255; or "".
absl::StatusOr<std::string> CheckInputValues(const v1::DataConfig& config, const std::string& file,
                                             const Dataset& data);

// What is wrong when the run's model refuses `data`, read from `file`, with `status`:
// FailedPrecondition with the shape that it has and the one of the run's examples, as far as the
// run's data are still there; `status` itself if they are alike, or if there is no file.
absl::Status ExplainMisfit(const v1::DataConfig& config, const std::string& file,
                           const Dataset& data, const absl::Status& status);

// The first field of examples [first, first + count): [count, ...].
absl::StatusOr<Tensor> ReadInputRows(const Dataset& data, int64_t first, int64_t count);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_PREDICT_INPUT_H_
