#include "runtime/config/flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "runtime/config/field_path.h"
#include "runtime/config/foreign_flags.h"
#include "runtime/config/given_flags.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/path_check.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

const FlagSpec* FindFlag(FlagScope scope, absl::string_view name) {
  for (const FlagSpec& spec : FlagTable()) {
    if ((spec.scopes & scope) != 0 && name == spec.name) return &spec;
  }
  return nullptr;
}

// Returns the end of the error for a flag that only the commands of `scopes` have.
absl::string_view WhoTakesIt(FlagScope scope, uint32_t scopes) {
  if ((scope & kScopeTrain) == 0) return "; see --help";
  if (scopes == kScopeHosts) return "; `shoal launch`, which uses other machines, takes it";
  if (scopes != kScopeTask) return "; see --help";
  return (scope & kScopeHosts) != 0
             ? ", which starts all tasks; `shoal task`, `shoal ps` and so on take it"
             : ", which starts all tasks on this machine; `shoal task`, `shoal ps` and so on take "
               "it, and `shoal launch --hosts=FILE` uses other machines";
}

// Returns the end of the error for an unknown flag that may be an argument of the program.
std::string MayBeThePrograms(absl::Span<const std::string> args, absl::string_view text) {
  for (const std::string& arg : args) {
    if (arg == "--") break;
    if (arg != "--program" && !absl::StartsWith(arg, "--program=")) continue;
    return absl::StrCat(" An argument of the program goes behind `--`: -- ", text);
  }
  return "";
}

// Returns the error for a flag that the command does not have; `written` is it with its dashes.
absl::Status UnknownFlag(FlagScope scope, absl::string_view written, absl::string_view name) {
  std::vector<std::string> names;
  uint32_t scopes = 0;  // Those of the commands that have it.
  for (const FlagSpec& spec : FlagTable()) {
    if ((spec.scopes & scope) != 0 && !spec.hidden) names.push_back(spec.name);
    if (name == spec.name) scopes |= spec.scopes;
  }
  if (scopes != 0) {
    return InvalidField(written,
                        absl::StrCat("has no meaning for this command", WhoTakesIt(scope, scopes)));
  }
  if (const ForeignFlag* foreign = FindForeignFlag(scope, name)) {
    const bool has_none = absl::StartsWith(foreign->ours, "none, ");
    return absl::InvalidArgumentError(absl::StrCat(written, " is ", foreign->system, "'s flag; ",
                                                   has_none ? "Shoal has " : "Shoal's is ",
                                                   foreign->ours));
  }
  const std::string hint = DidYouMean(name, names, "--");
  return InvalidField(written, absl::StrCat("is not a flag", hint.empty() ? "; see --help" : hint));
}

// Separates one argument (and the next, where the value stands there) into flag and value.
// `position` is moved past what was used.
absl::StatusOr<GivenFlag> TakeFlag(FlagScope scope, absl::Span<const std::string> args,
                                   size_t* position) {
  const std::string& whole = args[*position];
  absl::string_view text = whole;
  ++*position;
  text.remove_prefix(absl::StartsWith(text, "--") ? 2 : 1);
  const size_t equals = text.find('=');
  const absl::string_view name = text.substr(0, equals);
  const bool has_value = equals != absl::string_view::npos;
  const absl::string_view value = has_value ? text.substr(equals + 1) : "";
  if (const FlagSpec* spec = FindFlag(scope, name)) {
    if (has_value) return GivenFlag{spec, std::string(value)};
    if (spec->kind == FlagKind::kBool) return GivenFlag{spec, "true"};
    if (*position < args.size()) return GivenFlag{spec, args[(*position)++]};
    return InvalidField(absl::StrCat("--", name),
                        absl::StrCat("needs a value: --", name, "=", spec->value));
  }
  if (absl::StartsWith(name, "no") && !has_value) {
    const FlagSpec* spec = FindFlag(scope, name.substr(2));
    if (spec != nullptr && spec->kind == FlagKind::kBool) return GivenFlag{spec, "false"};
  }
  const absl::string_view written = absl::string_view(whole).substr(0, whole.find('='));
  const std::string error(UnknownFlag(scope, written, name).message());
  const std::string hint = MayBeThePrograms(args, whole);
  const bool is_sentence = hint.empty() || absl::EndsWith(error, "?");
  return absl::InvalidArgumentError(absl::StrCat(error, is_sentence ? "" : ".", hint));
}

template <typename T>
absl::Status ParseWhole(const GivenFlag& flag, T* out) {
  if (absl::SimpleAtoi(flag.value, out)) return absl::OkStatus();
  return InvalidField(flag.label(),
                      absl::StrCat("a whole number >= 0 is wanted, not \"", flag.value, "\""));
}

absl::Status ParsePort(const GivenFlag& flag, uint32_t* out) {
  if (absl::SimpleAtoi(flag.value, out) && *out > 0 && *out < 65536) return absl::OkStatus();
  return InvalidField(flag.label(),
                      absl::StrCat("a port from 1 to 65535 is wanted, not \"", flag.value, "\""));
}

absl::Status ApplySet(FlagScope scope, const GivenFlag& flag, v1::RunConfig* run) {
  const size_t equals = flag.value.find('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidField("--set", absl::StrCat("\"", flag.value, "\" is not PATH=VALUE"));
  }
  const absl::string_view path = absl::string_view(flag.value).substr(0, equals);
  const absl::string_view value = absl::string_view(flag.value).substr(equals + 1);
  const FlagSpec* same_name = FindFlag(scope, path);
  const bool is_field = v1::RunConfig::descriptor()->FindFieldByName(std::string(path)) != nullptr;
  if (same_name == nullptr || same_name->hidden || is_field) {
    return SetField("--set", path, value, run);
  }
  const absl::string_view field = same_name->field;
  return InvalidField(
      absl::StrCat("--set ", path),
      absl::StrCat("is a flag, no field of the run file; did you mean --", flag.value,
                   field.empty() ? "" : absl::StrCat(", which is --set ", field, "=", value), "?"));
}

// Flags that are not fields of the run.
absl::Status ApplyTaskFlag(FlagScope scope, const GivenFlag& flag, CommandLine* line) {
  const absl::string_view name = flag.spec->name;
  TaskFlags* task = &line->task;
  const std::pair<absl::string_view, std::string*> texts[] = {
      {"run", &task->run_file},
      {"cluster", &task->cluster_file},
      {"ps_hosts", &task->ps_hosts},
      {"worker_hosts", &task->worker_hosts},
      {"chief_host", &task->chief_host},
      {"job_name", &task->job_name},
      {"cluster_from", &task->cluster_from},
      {"advertise", &task->advertise},
      {"log_file", &task->log_file},
      {"metrics_address", &task->metrics_address},
      {"listen_address", &task->listen_address},
      {"hosts", &task->hosts_file},
      {"ssh_config", &task->ssh_config},
      {"tls_cert", &task->tls_cert},
      {"tls_key", &task->tls_key},
      {"tls_ca", &task->tls_ca},
      {"answer", &task->answer_file},
      {"service", &task->service},
      {"input", &task->input_file},
      {"predictions", &task->predictions_file},
      {"model_file", &task->model_file},
      {"tables", &task->tables_directory},
      {"since", &task->since},
      {"table", &task->table}};
  for (const auto& [known, target] : texts) {
    if (name != known) continue;
    *target = flag.value;
    return absl::OkStatus();
  }
  if (name == "set") return ApplySet(scope, flag, &line->run);
  if (name == "optimizer") return SelectOptimizer(flag.value, line->run.mutable_optimizer());
  if (name == "task_index") return ParseWhole(flag, &task->task_index.emplace());
  if (name == "local_worker") return ParseWhole(flag, &task->local_worker.emplace());
  if (name == "step") return ParseWhole(flag, &task->checkpoint_step.emplace());
  if (name == "timeout") return ParseWhole(flag, &task->timeout_seconds.emplace());
  if (name == "chief_port") return ParsePort(flag, &task->chief_port);
  if (name == "report_fd") return ParseWhole(flag, &task->report_fd);
  const std::pair<absl::string_view, bool*> switches[] = {{"insecure", &task->insecure},
                                                          {"probabilities", &task->probabilities},
                                                          {"use_averages", &task->use_averages},
                                                          {"words", &task->words},
                                                          {"json", &task->json}};
  for (const auto& [known, target] : switches) {
    if (name != known) continue;
    if (absl::SimpleAtob(flag.value, target)) return absl::OkStatus();
    return InvalidField(flag.label(),
                        absl::StrCat("true or false is wanted, not \"", flag.value, "\""));
  }
  if (name == "parent_pid") return ParseWhole(flag, &task->parent_pid);
  return absl::InternalError(absl::StrCat("flag --", name, " is in the table but not applied"));
}

absl::Status ApplyFlag(FlagScope scope, const GivenFlag& flag, CommandLine* line) {
  if (flag.value.empty())
    return InvalidField(flag.label(), "is empty; give a value or drop the flag");
  if (flag.spec->field[0] == '\0') return ApplyTaskFlag(scope, flag, line);
  // A relaxed error: "--batch_size: a whole number ...", without the path.
  const absl::Status status = SetField(flag.label(), flag.spec->field, flag.value, &line->run);
  if (status.ok()) return status;
  const std::string with_path = absl::StrCat(flag.label(), " ", flag.spec->field, ": ");
  std::string message(status.message());
  if (absl::StartsWith(message, with_path)) {
    message = absl::StrCat(flag.label(), ": ", message.substr(with_path.size()));
  }
  return absl::InvalidArgumentError(message);
}

absl::Status CheckPaths(const CommandLine& line) {
  const TaskFlags& task = line.task;
  const std::pair<const char*, absl::string_view> paths[] = {
      {"out", line.run.out()},
      {"init_from", line.run.init_from()},
      {"data.directory", line.run.data().directory()},
      {"worker_binary", line.run.deployment().worker_binary()},
      {"program", line.run.program().file()},
      {"--cluster", task.cluster_file},
      {"--hosts", task.hosts_file},
      {"--input", task.input_file},
      {"--log_file", task.log_file},
      {"--predictions", task.predictions_file},
      {"--model_file", task.model_file},
      {"--tables", task.tables_directory},
      {"--since", task.since}};
  for (const auto& [name, path] : paths) RETURN_IF_ERROR(CheckIsPath(name, path));
  for (const std::string& argument : line.arguments) {
    if (!task.words) RETURN_IF_ERROR(CheckIsPath("argument", argument));
  }
  return absl::OkStatus();
}

// Takes the first argument as the run's directory, and refuses the others.
absl::Status TakeRunDirectory(CommandLine* line) {
  std::vector<std::string>& arguments = line->arguments;
  if (!arguments.empty() && line->run.out().empty()) {
    line->run.set_out(arguments[0]);
    arguments.erase(arguments.begin());
  }
  if (arguments.empty()) return absl::OkStatus();
  return InvalidField(arguments[0], absl::StrCat("is not a flag; the run's directory is ",
                                                 line->run.out(), " already, see --help"));
}

// A negative number is an argument, since no flag begins with a digit.
bool IsFlag(absl::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  return text.find_first_not_of("0123456789", 1) != absl::string_view::npos;
}

// Loads the run file. A launcher has read it before it started this task, so if it is missing, its
// file system is away.
absl::StatusOr<v1::RunConfig> LoadRunOfTask(const std::string& path,
                                            const std::vector<GivenFlag>& flags) {
  absl::StatusOr<v1::RunConfig> run = LoadRunConfig(path);
  const bool has_launcher = std::any_of(flags.begin(), flags.end(), [](const GivenFlag& flag) {
    return absl::string_view(flag.spec->name) == "parent_pid";
  });
  if (!absl::IsNotFound(run.status()) || !has_launcher) return run;
  return absl::UnavailableError(absl::StrCat("--run: ", path,
                                             " was there for the launcher and is missing now; make "
                                             "sure that this host sees its file system"));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(FlagScope scope, absl::Span<const std::string> args) {
  CommandLine line;
  std::vector<GivenFlag> flags;
  absl::Span<const std::string> behind_dashes;
  for (size_t i = 0; i < args.size();) {
    if (args[i] == "--") {
      behind_dashes = args.subspan(i + 1);
      break;
    }
    if (args[i] == "--help" || args[i] == "-h" || args[i] == "-help") {
      CommandLine help;
      help.help = true;
      return help;
    }
    if (!IsFlag(args[i])) {
      line.arguments.push_back(args[i++]);
      continue;
    }
    ASSIGN_OR_RETURN(GivenFlag flag, TakeFlag(scope, args, &i));
    flags.push_back(std::move(flag));
  }
  RETURN_IF_ERROR(CheckContradictions(flags));
  for (const GivenFlag& flag : flags) {
    if (absl::string_view(flag.spec->name) != "run") continue;
    RETURN_IF_ERROR(CheckIsPath("--run", flag.value));
    RETURN_IF_ERROR(ApplyFlag(scope, flag, &line));
    ASSIGN_OR_RETURN(line.run, LoadRunOfTask(flag.value, flags));
    if (line.run.ByteSizeLong() == 0) {
      return InvalidField("--run", absl::StrCat(flag.value,
                                                " sets no field of a run; name a run file, "
                                                "such as deploy/runs/fashion_cnn.textproto"));
    }
    ASSIGN_OR_RETURN(const std::string directory, FindRunDirectory(flag.value));
    if (!directory.empty()) line.run.set_out(directory);
  }
  const v1::RunConfig file = line.run;
  for (const GivenFlag& flag : flags) {
    if (absl::string_view(flag.spec->name) == "run") continue;
    RETURN_IF_ERROR(ApplyFlag(scope, flag, &line));
  }
  RETURN_IF_ERROR(ApplyConsequences(flags, file, &line.run));
  if (line.run.program().file().empty()) {
    line.arguments.insert(line.arguments.end(), behind_dashes.begin(), behind_dashes.end());
  } else if (!behind_dashes.empty()) {
    line.run.mutable_program()->clear_args();
    for (const std::string& arg : behind_dashes) line.run.mutable_program()->add_args(arg);
  }
  RETURN_IF_ERROR(CheckPaths(line));
  constexpr uint32_t kOfRunFiles = kScopeUse | kScopePredict | kScopeExport;
  if ((scope & kOfRunFiles) != 0) RETURN_IF_ERROR(TakeRunDirectory(&line));
  return line;
}

absl::Status CheckRunGiven(const CommandLine& line) {
  const v1::RunConfig& run = line.run;
  if (!line.task.run_file.empty() || run.has_model() || !run.program().file().empty() ||
      run.num_epochs() > 0 || run.max_steps() > 0) {
    return absl::OkStatus();
  }
  return InvalidField("--run",
                      run.out().empty()
                          ? "is missing; name a run file, such as "
                            "deploy/runs/fashion_cnn.textproto, or a program of yours with "
                            "--program=FILE"
                          : absl::StrCat("is missing; name a run file, or that of a run which "
                                         "has begun: --run=",
                                         run.out(), "/run.textproto"));
}

}  // namespace shoal
