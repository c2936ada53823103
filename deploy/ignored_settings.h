// Compares what a compute program declares with the own run file of the run that resumes.
#ifndef SHOAL_DEPLOY_IGNORED_SETTINGS_H_
#define SHOAL_DEPLOY_IGNORED_SETTINGS_H_

#include <string>

#include "absl/status/status.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;

// Writes the settings that the run's compute program declares into the run's directory. A start
// that follows the program calls it; FindIgnoredSettings then knows what is edited later.
absl::Status KeepDeclaredSettings(FileSystem* file_system, const v1::RunConfig& run,
                                  const v1::RunConfig& declared);

// Returns whether `run_file` is the one in the run's own directory.
bool IsOwnRunFile(const std::string& run_file, const v1::RunConfig& run);

// A command that starts a run if a program and a directory follow it.
struct StartCommand {
  std::string text;
  bool on_hosts = false;  // The file of the hosts has the numbers of tasks.
};

// Returns a line for the user if the run's own run file gives settings that the compute program now
// declares otherwise; else "". It leaves out settings that flags give, and those that the program
// declares as it did when the run last followed it: others chose those values. `run` is resolved.
std::string FindIgnoredSettings(FileSystem* file_system, const v1::RunConfig& run,
                                const v1::RunConfig& declared, const StartCommand& start);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_IGNORED_SETTINGS_H_
