// `shoal eval`, and `PROGRAM eval` of a program with its own model: computes the loss and accuracy
// of a checkpoint on the test split, in this process.
#ifndef SHOAL_WORKER_EVAL_COMMAND_H_
#define SHOAL_WORKER_EVAL_COMMAND_H_

#include <string>

#include "absl/types/span.h"

#include "worker/replica/model_factory.h"

namespace shoal {

// Prints one line of JSON to standard output; returns the exit code.
int EvalMain(absl::Span<const std::string> args, const ModelFactory& model);

}  // namespace shoal

#endif  // SHOAL_WORKER_EVAL_COMMAND_H_
