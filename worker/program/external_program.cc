#include "worker/program/external_program.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "ml/nn/feature_names.h"
#include "ml/optim/all_finite.h"
#include "ml/optim/table_config.h"
#include "runtime/config/optimizer_groups.h"
#include "runtime/process/child.h"
#include "runtime/process/program_words.h"
#include "worker/program/program_log.h"
#include "worker/replica/asked_rows.h"
#include "worker/replica/batch_crash.h"
#include "worker/replica/table_variable.h"

namespace shoal {
namespace {

using Phase = ProgramConversation::Phase;

constexpr char kNoHello[] =
    "; a compute program makes shoal.Worker() and loops over it, or follows "
    "docs/compute_program.md in another language";

// The remedy if the program has no log. The console then has its own error.
constexpr char kSeeAbove[] =
    "; its own error is above. For a module that is missing, name an interpreter that has it with "
    "--python=PROGRAM; the module shoal is in the wheel and in the folder python of a clone "
    "(PYTHONPATH)";

constexpr char kReadOnly[] =
    "; a write to parameters ends a program like this, since they are for reading only, and so "
    "does a write past the memory of gradients";

// The longest time for a program to end after the FINISH of a worker that failed.
constexpr absl::Duration kFailedGrace = absl::Seconds(1);
// A program that has closed its socket ends soon; an interpreter may take some seconds.
constexpr absl::Duration kCloseGrace = absl::Seconds(5);
// A program that has not ended so long after its run may run for long; the launcher then says so.
constexpr absl::Duration kUsualEnd = absl::Seconds(3);
// The time between two looks whether the worker was asked to end.
constexpr absl::Duration kLookPeriod = absl::Milliseconds(100);

// The exit codes of shoal mean nothing for a program.
std::string DescribeEnd(const ChildExit& exit) {
  return exit.has_code() ? absl::StrCat("exit code ", exit.number) : exit.Describe();
}

// Returns a hint for a program that has ended by itself.
absl::string_view RemedyFor(const ChildExit& exit, Phase phase, bool has_log) {
  if (exit.ok() && phase == Phase::kHello) return kNoHello;
  if (!exit.by_signal && phase == Phase::kHello && !has_log) return kSeeAbove;
  return exit.by_signal && exit.number == SIGSEGV && phase == Phase::kWorking ? kReadOnly : "";
}

// Returns what a program that is not ready yet has not done.
absl::string_view MissingFrom(Phase phase) {
  switch (phase) {
    case Phase::kHello:
      return "did not connect to its worker (HELLO)";
    case Phase::kDeclare:
      return "did not declare its variables (DECLARE)";
    default:
      return "did not write its initial values (READY)";
  }
}

// Logs the traceback that came with an error, and returns the error with the place of the log.
absl::Status Logged(const absl::Status& status, const std::string& traceback,
                    const std::string& see_log) {
  // If there is no log file, the program has printed its traceback where this process prints.
  if (!traceback.empty() && !see_log.empty()) LOG(ERROR) << status.message() << "\n" << traceback;
  return absl::Status(status.code(), absl::StrCat(status.message(), see_log));
}

// Ends the program after its FINISH, and kills it if it has not ended in time.
void EndProgram(const ExternalProgram::Options& options, ProgramChannel* channel,
                FinishReason reason) {
  const absl::Time began = options.clock->Now();
  const bool is_over = reason == FinishReason::kOver;
  absl::Time deadline = began + (reason == FinishReason::kFailed ? kFailedGrace
                                 : is_over                       ? options.after_run
                                                                 : options.grace);
  bool is_announced = !is_over, was_asked = !is_over || options.is_asked_to_end == nullptr;
  // After a run that is over the program may do what it likes with the result.
  while (is_over) {
    const absl::Time now = options.clock->Now();
    if (!was_asked && options.is_asked_to_end()) {
      was_asked = true;
      deadline = std::min(deadline, now + options.grace);
    }
    if (channel->AwaitEnd(std::min(deadline, now + kLookPeriod))) break;
    if (now >= deadline) break;
    if (is_announced || now < began + kUsualEnd) continue;
    is_announced = true;
    LOG(INFO) << "program: " << options.name << kRunsAfterRun << "; this worker waits for it, "
              << "for at most " << options.after_run << ", and ends it at SIGTERM";
  }
  const ProgramEnd end = channel->End(is_over ? options.clock->Now() : deadline);
  // A program without a log was only asked what it declares, on the user's terminal.
  if (options.log_file.empty()) return;
  if (end.was_killed && reason != FinishReason::kFailed) {
    LOG(WARNING) << "program: " << options.name << kKilledAfterRun << " after "
                 << absl::FormatDuration(
                        absl::Trunc(options.clock->Now() - began, absl::Seconds(1)))
                 << (is_over ? ", because it had not ended after the run"
                             : ", because it had not ended by itself");
  } else if (!end.exit.ok() && reason != FinishReason::kFailed) {
    LOG(INFO) << "program: " << options.name << " ended: " << DescribeEnd(end.exit);
  }
}

uint64_t SeedOfBatch(uint64_t seed, uint64_t epoch, uint64_t index) {
  return DeriveKey(DeriveKey(seed, epoch), index);
}

}  // namespace

ExternalProgram::ExternalProgram(Options options, std::unique_ptr<ProgramMemory> memory,
                                 std::unique_ptr<ProgramChannel> channel)
    : options_(std::move(options)),
      see_log_(options_.log_file.empty() ? "" : absl::StrCat("; see ", options_.log_file)),
      memory_(std::move(memory)),
      channel_(std::move(channel)),
      conversation_(options_.name, options_.welcome, options_.has_started_before),
      ready_deadline_(options_.clock->Now() + options_.patience) {}

ExternalProgram::~ExternalProgram() { Finish(FinishReason::kFailed, ""); }

absl::StatusOr<std::unique_ptr<ExternalProgram>> ExternalProgram::Create(
    Options options, std::unique_ptr<ProgramMemory> memory,
    std::unique_ptr<ProgramChannel> channel) {
  auto program = absl::WrapUnique(
      new ExternalProgram(std::move(options), std::move(memory), std::move(channel)));
  const auto none = [](uint32_t) {};
  for (const Phase phase : {Phase::kHello, Phase::kDeclare}) {
    RETURN_IF_ERROR(program->TalkWhileIn(phase, program->ready_deadline_, none));
  }
  program->variables_ = program->declaration().variables;
  program->warned_.assign(program->declaration().metrics.size(), false);
  return program;
}

absl::Status ExternalProgram::Freeze(const v1::OptimizerConfig& optimizer) {
  ASSIGN_OR_RETURN(const OptimizerGroups groups, OptimizerGroups::Create(optimizer));
  for (v1::VariableSpec& variable : variables_) groups.Freeze(&variable);
  return absl::OkStatus();
}

absl::Status ExternalProgram::DeclareTables(const v1::RunConfig& run) {
  const std::vector<v1::TableConfig>& tables = declaration().tables;
  for (const v1::TableConfig& entry : run.table()) {
    const bool is_used = std::any_of(
        tables.begin(), tables.end(),
        [&](const v1::TableConfig& table) { return StandsFor(entry.name(), table.name()); });
    if (is_used) continue;
    return absl::InvalidArgumentError(absl::StrCat("table: the run file has settings of \"",
                                                   entry.name(), "\", but ", options_.name,
                                                   " declares no such table; drop the entry"));
  }
  for (const v1::TableConfig& declared : tables) {
    const v1::TableConfig* const entry = FindTable(run.table(), declared.name());
    const v1::TableConfig table = entry == nullptr ? declared : MergedTable(declared, *entry);
    if (table.dim() != declared.dim()) {
      return absl::InvalidArgumentError(
          absl::StrCat("table: ", declared.name(), " has rows of ", declared.dim(), " numbers in ",
                       options_.name, ", but `table` in the run file says dim: ", table.dim(),
                       "; make them equal"));
    }
    lookups_.emplace_back().table = static_cast<uint32_t>(variables_.size());
    ASSIGN_OR_RETURN(variables_.emplace_back(),
                     TableVariable(table, run.optimizer(), tables.size()));
  }
  return absl::OkStatus();
}

const float* ExternalProgram::RowGradients(size_t lookup) const {
  return asked_->gradients(lookup);
}

absl::Status ExternalProgram::MakeReady(const BatchPlan& train_plan,
                                        std::optional<BatchPlan> test_plan) {
  train_plan_ = train_plan;
  test_plan_ = std::move(test_plan);
  const ProgramLayout layout = LayOut(declaration().variables, !declaration().tables.empty());
  RETURN_IF_ERROR(memory_->Allocate(layout));
  conversation_.SendLayout(layout);
  return TalkWhileIn(Phase::kReady, ready_deadline_, [](uint32_t) {});
}

absl::StatusOr<std::vector<absl::Span<const float>>> ExternalProgram::InitialValues() const {
  std::vector<absl::Span<const float>> values;
  for (uint32_t v = 0; v < num_arrays(); ++v) {
    values.emplace_back(memory_->contributions(/*set=*/0, v), NumElements(variables()[v]));
    if (AllFinite(values.back().data(), values.back().size())) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("program: ", options_.name, ": the initial value of variable ",
                     variables()[v].name(), " is not finite; initialize it"));
  }
  return values;
}

void ExternalProgram::Finish(FinishReason reason, const std::string& text) {
  if (conversation_.phase() == Phase::kEnded) return;
  conversation_.Finish(reason, text);
  const absl::Time deadline = options_.clock->Now() + kFailedGrace;
  std::string ignored;
  while (!conversation_.output()->empty() &&
         channel_->Wait(deadline, conversation_.output(), &ignored) ==
             ProgramChannel::Event::kReceived) {
    ignored.clear();
  }
  EndProgram(options_, channel_.get(), reason);
}

absl::Status ExternalProgram::Refuse(const absl::Status& why) {
  if (conversation_.phase() == Phase::kEnded) return why;
  conversation_.Finish(FinishReason::kRefused, why.message());
  const absl::Time deadline = options_.clock->Now() + kCloseGrace;
  absl::Status answer;
  while (answer.ok() && options_.clock->Now() < deadline) {
    input_.clear();
    if (channel_->Wait(deadline, conversation_.output(), &input_) !=
        ProgramChannel::Event::kReceived) {
      break;
    }
    answer = conversation_.Receive(input_, [](uint32_t) {});
  }
  channel_->End(deadline);
  if (conversation_.error_text().empty()) return why;
  return absl::Status(why.code(), absl::StrCat("program: ", conversation_.error_text(), see_log_));
}

absl::Status ExternalProgram::TalkWhileIn(Phase phase, absl::Time deadline,
                                          absl::FunctionRef<void(uint32_t)> on_final) {
  while (conversation_.phase() == phase) {
    input_.clear();
    const ProgramChannel::Event event = channel_->Wait(deadline, conversation_.output(), &input_);
    switch (event) {
      case ProgramChannel::Event::kReceived: {
        const absl::Status received = conversation_.Receive(input_, on_final);
        if (!received.ok()) return Logged(received, conversation_.traceback(), see_log_);
        PassOnNews();
        break;
      }
      case ProgramChannel::Event::kTimeout:
        return absl::DeadlineExceededError(absl::StrCat(
            "program: ", options_.name, " ", MissingFrom(conversation_.phase()), " within ",
            absl::FormatDuration(options_.patience),
            " of its start; if it needs longer, raise cluster.wait_seconds", see_log_));
      case ProgramChannel::Event::kClosed:
      case ProgramChannel::Event::kEnded:
        return Ended();
    }
  }
  return absl::OkStatus();
}

absl::Status ExternalProgram::CheckIdle() {
  input_.clear();
  switch (channel_->Wait(absl::InfinitePast(), conversation_.output(), &input_)) {
    case ProgramChannel::Event::kTimeout:
      return absl::OkStatus();
    case ProgramChannel::Event::kReceived: {
      const absl::Status received = conversation_.Receive(input_, [](uint32_t) {});
      return received.ok() ? received : Logged(received, conversation_.traceback(), see_log_);
    }
    default:
      return Ended();
  }
}

absl::Status ExternalProgram::Ended() {
  const Phase phase = conversation_.phase();
  const ProgramEnd end = channel_->End(options_.clock->Now() + kCloseGrace);
  conversation_.Finish(FinishReason::kFailed, "");
  const std::string last = EndOfLog(options_.log_file);
  const auto because = [&](absl::string_view what, absl::string_view how,
                           absl::string_view remedy = "") {
    return absl::StrCat("program: ", options_.name, " ", what, " (", how, ")", remedy,
                        last.empty() ? "" : absl::StrCat(": ", last, RemedyForModule(last)),
                        see_log_);
  };
  if (end.was_killed) {
    return absl::InternalError(because(
        "closed its connection to the worker",
        absl::StrCat("it still ran ", absl::FormatDuration(kCloseGrace), " later and was killed")));
  }
  const ChildExit& exit = end.exit;
  const std::string text =
      because(exit.ok() && phase < Phase::kIdle ? "ended without asking for work"
              : phase < Phase::kIdle            ? "ended before it was ready"
                                                : "ended before the run was over",
              DescribeEnd(exit), RemedyFor(exit, phase, !options_.log_file.empty()));
  if (exit.crashed()) {
    return phase == Phase::kWorking ? BatchCrash(text) : absl::InternalError(text);
  }
  if (exit.by_signal) return absl::UnavailableError(text);
  if (exit.ok() && phase < Phase::kIdle) return absl::FailedPreconditionError(text);
  if (phase > Phase::kHello) return absl::InternalError(text);
  // An interpreter, a library or a file is not there.
  return options_.has_started_before ? absl::UnavailableError(text)
                                     : absl::FailedPreconditionError(text);
}

absl::Status ExternalProgram::TalkUntilDone(absl::FunctionRef<void(uint32_t)> on_final) {
  while (true) {
    RETURN_IF_ERROR(TalkWhileIn(Phase::kWorking, absl::InfiniteFuture(), on_final));
    if (conversation_.phase() != Phase::kAsking) return absl::OkStatus();
    RETURN_IF_ERROR(AnswerLookUps());
  }
}

absl::Status ExternalProgram::AnswerLookUps() {
  if (asked_ == nullptr) {
    return absl::InternalError(
        absl::StrCat("program: ", options_.name, " asks for rows, but nobody gives it any"));
  }
  std::vector<AskedRows::Request> requests;
  for (const ProgramKeys& look_up : conversation_.look_ups()) {
    requests.push_back({look_up.table, look_up.keys, memory_->rows(look_up.offset),
                        is_evaluating_ ? nullptr : memory_->row_gradients(look_up.offset)});
  }
  asked_->Get(requests);
  conversation_.SendRows();
  return absl::OkStatus();
}

void ExternalProgram::PassOnNews() {
  if (conversation_.TakeProgress() && on_progress_ != nullptr) on_progress_();
  const std::optional<ProgramConversation::LookAhead> ahead = conversation_.TakeLookAhead();
  if (!ahead.has_value() || asked_ == nullptr) return;
  std::vector<absl::Span<const uint64_t>> keys(lookups_.size());
  for (const ProgramKeys& table : ahead->tables) keys[table.table] = table.keys;
  asked_->NameAhead(ahead->batch, keys);
}

void ExternalProgram::Expect(uint64_t step, absl::Span<const BatchKey> next) {
  step_ = step;
  expected_.assign(next.begin(), next.end());
}

// The batch that is trained comes first in the socket, and announcements while it is computed.
void ExternalProgram::AnnounceExpected() {
  for (const BatchKey& batch : expected_) {
    if (std::find(announced_.begin(), announced_.end(), batch) != announced_.end()) continue;
    const int64_t rows = train_plan_->num_examples(static_cast<int64_t>(batch.index));
    if (rows == 0) continue;
    examples_.resize(static_cast<size_t>(rows));
    train_plan_->FillIndices(batch.epoch, static_cast<int64_t>(batch.index),
                             absl::MakeSpan(examples_));
    conversation_.Announce(batch, examples_);
    announced_.push_back(batch);
  }
  // Those before the newest ones are void, which the program knows.
  const size_t most = announced_ahead();
  if (announced_.size() > most) announced_.erase(announced_.begin(), announced_.end() - most);
}

void ExternalProgram::SetResult(const ProgramWork& work, BatchResult* result) {
  *result = BatchResult();
  result->loss_sum = conversation_.result().loss_sum;
  result->examples = work.examples.size();
  result->metrics = conversation_.result().metrics;
  WarnOfMetrics(work);
}

void ExternalProgram::WarnOfMetrics(const ProgramWork& work) {
  const MetricSums& metrics = conversation_.result().metrics;
  for (size_t m = 0; m < metrics.size(); ++m) {
    if (!std::isnan(metrics[m].sum) || warned_[m]) continue;
    warned_[m] = true;
    const std::string where =
        work.evaluates ? absl::StrCat("block ", work.batch.index, " of the test data")
                       : absl::StrCat("step ", work.step + 1, ", ", ToString(work.batch));
    LOG(WARNING) << "program: " << options_.name << ": metric " << declaration().metrics[m].name()
                 << " is not finite in " << where << " of worker/" << options_.welcome.worker
                 << "; it is recorded as null there (logged once per metric)";
  }
}

absl::Status ExternalProgram::Train(const TrainArguments& arguments, BatchResult* result,
                                    OnFinal on_final, absl::FunctionRef<void()> on_result) {
  const LoadedBatch& batch = *arguments.batch;
  examples_.resize(static_cast<size_t>(batch.num_examples));
  train_plan_->FillIndices(batch.epoch, batch.index, absl::MakeSpan(examples_));
  ProgramWork work;
  work.step = step_;
  work.batch = {batch.epoch, static_cast<uint64_t>(batch.index)};
  work.seed = SeedOfBatch(options_.welcome.seed, work.batch.epoch, work.batch.index);
  work.parameter_set = ParameterSetOf(arguments.parameters);
  for (uint32_t v = 0; v < num_arrays(); ++v) {
    if (arguments.contributions[v] == memory_->contributions(1, v)) work.contribution_set = 1;
  }
  work.examples = examples_;
  is_evaluating_ = false;
  RETURN_IF_ERROR(CheckIdle());
  conversation_.Start(work);
  announced_.erase(std::remove(announced_.begin(), announced_.end(), work.batch), announced_.end());
  AnnounceExpected();
  // The program also computes the gradients of variables that the run has frozen.
  const auto settle = [&](uint32_t v) {
    if (contributes(v)) on_final(v, static_cast<int64_t>(NumElements(variables()[v])));
  };
  RETURN_IF_ERROR(TalkUntilDone(settle));
  SetResult(work, result);
  on_result();
  for (uint32_t v = 0; v < num_arrays(); ++v) {
    if (contributes(v) && !conversation_.is_final(v)) settle(v);
  }
  return absl::OkStatus();
}

absl::Status ExternalProgram::Evaluate(const LoadedBatch& batch,
                                       absl::Span<const float* const> parameters,
                                       absl::Span<const uint64_t> /*versions*/,
                                       BatchResult* result) {
  examples_.resize(static_cast<size_t>(batch.num_examples));
  test_plan_->FillIndices(batch.epoch, batch.index, absl::MakeSpan(examples_));
  ProgramWork work;
  work.evaluates = true;
  work.batch = {0, static_cast<uint64_t>(batch.index)};
  work.seed = SeedOfBatch(options_.welcome.seed, UINT64_MAX, work.batch.index);
  work.parameter_set = ParameterSetOf(parameters);
  work.examples = examples_;
  is_evaluating_ = true;
  RETURN_IF_ERROR(CheckIdle());
  conversation_.Start(work);
  RETURN_IF_ERROR(TalkUntilDone([](uint32_t) {}));
  SetResult(work, result);
  return absl::OkStatus();
}

std::string ExternalProgram::compute_fingerprint() const {
  return absl::StrCat("program ", declaration().compute_fingerprint);
}

}  // namespace shoal
