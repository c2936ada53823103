// Works out what the flags of one command line mean together: which of them contradict each other,
// and which other fields of the run file they change. A part of flags.cc.
#ifndef SHOAL_RUNTIME_CONFIG_GIVEN_FLAGS_H_
#define SHOAL_RUNTIME_CONFIG_GIVEN_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/config/flags.h"

namespace shoal {

// A flag as the user gave it, with its value already separated.
struct GivenFlag {
  const FlagSpec* spec;
  std::string value;

  std::string label() const { return absl::StrCat("--", spec->name); }
};

// Refuses flags that are given twice, and flags of two different optimizers. `flags` are in the
// order of the command line.
absl::Status CheckContradictions(const std::vector<GivenFlag>& flags);

// Changes the fields of `run` that given flags affect without naming them: --batch_size, for
// example, replaces the run file's replica_batch_size. `run` is the run file with the flags already
// applied, `file` the run file without them. Refuses flags that do not fit the run file.
absl::Status ApplyConsequences(const std::vector<GivenFlag>& flags, const v1::RunConfig& file,
                               v1::RunConfig* run);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_GIVEN_FLAGS_H_
