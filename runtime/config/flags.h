// The command line of `shoal`. All commands share one set of flags.
//
//   shoal train --run=FILE --set optimizer.adam.beta1=0.8 --num_replicas=3 --nosync_replicas
//
// Most flags are short names of run-file fields; `--set path=value` sets any other field. Flags
// override the run file, wherever --run is on the line, and are applied in the order given.
// `--name=value` and `--name value` are the same; booleans are also `--name` and `--noname`;
// negative numbers and arguments after `--` are not flags. One table (flag_table.cc) drives parsing
// and --help.
#ifndef SHOAL_RUNTIME_CONFIG_FLAGS_H_
#define SHOAL_RUNTIME_CONFIG_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"

namespace shoal {

// The commands that have a flag, as bits.
enum FlagScope : uint32_t {
  kScopeTrain = 1,    // shoal train
  kScopeTask = 2,     // shoal ps, worker, chief: tasks that are started one by one
  kScopeUse = 4,      // shoal eval, inspect: commands for the files of a run
  kScopePredict = 8,  // shoal predict
  kScopeAll = 15,
  kScopeExport = 256,  // shoal export
  kScopeLookup = 512,  // shoal lookup
  // Commands for a run that is under way.
  kScopeStatus = 16,   // shoal status
  kScopeSave = 64,     // shoal checkpoint, stop
  kScopeHealth = 128,  // shoal health
  kScopeControl = kScopeStatus | kScopeSave | kScopeHealth,
  kScopeHosts = 32,                          // shoal launch only
  kScopeLaunch = kScopeTrain | kScopeHosts,  // shoal launch: these and the flags of shoal train.
};

enum class FlagKind : uint8_t { kText, kBool };

struct FlagSpec {
  const char* name;
  const char* section;  // Heading in --help.
  uint32_t scopes;
  FlagKind kind;
  const char* field;  // Path in the run file; "" if the flag is not a field.
  const char* value;  // Name of the value in --help.
  const char* help;
  bool hidden = false;  // A flag that launchers give; left out of --help.
};

// Returns all flags, in the order of --help. A flag with another meaning or default in other scopes
// has an entry for each; no scope has two entries of one name.
absl::Span<const FlagSpec> FlagTable();

// Values that differ between the tasks of a run, and flags that are not fields of the run file.
struct TaskFlags {
  std::string run_file;
  std::string cluster_file;
  std::string ps_hosts;
  std::string worker_hosts;
  std::string chief_host;
  std::string job_name;
  std::string cluster_from;  // Source of job, index and addresses. Empty: auto.
  uint32_t chief_port = 0;   // Used if --chief_host or a launcher names no port; 0: the launcher's.
  std::string advertise;     // Address that others dial instead of the one this task listens at.
  std::optional<uint32_t> task_index;
  std::string listen_address;   // Address to serve at; default: its own address in the cluster.
  bool insecure = false;        // Allows serving where other machines can connect.
  std::string metrics_address;  // Address of /metrics and the other pages; empty: none.
  std::string hosts_file;       // launch
  std::string ssh_config;       // launch
  std::string tls_cert;         // PEM files; "{job}" in the paths stands for the task's job.
  std::string tls_key;
  std::string tls_ca;
  std::string log_file;     // Empty: standard error.
  std::string answer_file;  // Launcher: file into which a program writes its model.
  int report_fd = -1;       // Launcher: the task writes its bound address here.
  // Set by a launcher: the worker's number among the workers of its host, from 0.
  std::optional<uint32_t> local_worker;
  int parent_pid = 0;   // Launcher: the task dies with this process; 0: no process.
  bool json = false;    // status
  std::string service;  // health
  std::optional<uint32_t> timeout_seconds;  // checkpoint, stop, health
  std::optional<uint64_t> checkpoint_step;  // eval, predict, export, inspect, lookup
  bool use_averages = false;                // eval, predict, export, evaluator
  std::string model_file;                   // export
  std::string tables_directory;             // export
  std::string since;                        // export
  std::string table;                        // lookup
  bool words = false;                       // lookup
  std::string input_file;                   // predict
  std::string predictions_file;             // predict
  bool probabilities = false;               // predict
};

struct CommandLine {
  bool help = false;  // --help was given; nothing else is set then.
  v1::RunConfig run;  // File, then flags; not resolved yet.
  TaskFlags task;
  std::vector<std::string> arguments;  // The arguments that are not flags.
};

// Parses the arguments after the command's name. The one argument of a command for a run's files
// (eval, predict, export, inspect) is its directory, as --out=DIR; others are refused. Errors are
// InvalidArgument (NotFound for files) with one line, "--name: what is wrong; what to do", and for
// an unknown flag the nearest known one.
absl::StatusOr<CommandLine> ParseCommandLine(FlagScope scope, absl::Span<const std::string> args);

// For commands that need a run: returns an error unless the line gives a run file or something in
// its place, which is a model, a compute program or the length of the training.
absl::Status CheckRunGiven(const CommandLine& line);

// Returns the help text of a scope's flags, by section, wrapped at 100 columns.
std::string FlagHelp(FlagScope scope);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_FLAGS_H_
