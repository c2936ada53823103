// A replica whose batches are computed by another process, the compute program
// (docs/compute_program.md).
#ifndef SHOAL_WORKER_PROGRAM_EXTERNAL_PROGRAM_H_
#define SHOAL_WORKER_PROGRAM_EXTERNAL_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "base/clock.h"
#include "ml/data/batch_plan.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/batch_key.h"
#include "worker/program/program_channel.h"
#include "worker/program/program_conversation.h"
#include "worker/program/program_memory.h"
#include "worker/replica/replica_program.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
class RunConfig;
}  // namespace v1

// A ReplicaProgram that passes every call on to the compute program. Not thread-safe.
class ExternalProgram : public ReplicaProgram {
 public:
  struct Options {
    std::string name;      // The program in messages, such as train.py.
    std::string log_file;  // Receives the program's output; errors refer to it. May be empty.
    ProgramWelcome welcome;
    absl::Duration patience;  // The longest time until the program is ready.
    absl::Duration grace;     // The longest time for the program to end after FINISH.
    // The same after the FINISH of a run that is over. It ends `grace` after is_asked_to_end() has
    // become true, if that is sooner.
    absl::Duration after_run;
    // Returns whether this worker was asked to end; may be null.
    std::function<bool()> is_asked_to_end;
    // The program of this run has started before, so a fault of its surroundings that keeps it from
    // starting now is temporary.
    bool has_started_before = false;
    const Clock* clock = nullptr;  // Borrowed; that of the channel.
  };
  // Waits until the program has declared its variables. The channel's program was started with the
  // files of `memory`. FailedPrecondition: another start would not help.
  static absl::StatusOr<std::unique_ptr<ExternalProgram>> Create(
      Options options, std::unique_ptr<ProgramMemory> memory,
      std::unique_ptr<ProgramChannel> channel);
  // Ends the program, as after Finish(kFailed).
  ~ExternalProgram() override;

  const ProgramDeclaration& declaration() const { return conversation_.declaration(); }

  // Marks the variables of the optimizer's frozen groups as variables without contributions. The
  // program does not notice. Call it before MakeReady.
  absl::Status Freeze(const v1::OptimizerConfig& optimizer);

  // Declares the program's tables as variables behind the others. Settings that the run file's
  // entries for them have come first; `run` is resolved. Call it once, before MakeReady.
  // InvalidArgument names the entry that does not fit.
  absl::Status DeclareTables(const v1::RunConfig& run);

  // Gives the program its memory and waits until it is ready to compute. The plans say which
  // examples a batch has; test_plan is absent if there are no test examples.
  absl::Status MakeReady(const BatchPlan& train_plan, std::optional<BatchPlan> test_plan);

  // Returns the initial values that the program gave, indexed by variable. They are valid until the
  // first batch. FailedPrecondition: a value is not finite.
  absl::StatusOr<std::vector<absl::Span<const float>>> InitialValues() const;

  // Notifies the program that no more work comes, and ends it. Only the first call has an effect.
  void Finish(FinishReason reason, const std::string& text);

  // Notifies the program that the run refuses its declaration, and ends it. If the program answers
  // (shoal.Worker names the line of the program that declared), returns its answer with the code of
  // `why`, otherwise `why`.
  absl::Status Refuse(const absl::Status& why);

  const std::vector<v1::VariableSpec>& variables() const override { return variables_; }
  bool contributes(uint32_t variable) const override {
    return variable < num_arrays() && variables()[variable].update() != v1::UPDATE_KIND_NONE;
  }
  const std::vector<TableLookups>& lookups() const override { return lookups_; }
  bool asks_for_rows() const override { return !lookups_.empty(); }
  void UseAskedRows(AskedRows* asked) override { asked_ = asked; }
  const float* RowGradients(size_t lookup) const override;
  std::vector<v1::MetricSpec> metrics() const override { return declaration().metrics; }

  float* ParameterMemory(uint32_t set, uint32_t variable) override {
    return memory_->parameters(set, variable);
  }
  float* ContributionMemory(uint32_t set, uint32_t variable) override {
    return memory_->contributions(set, variable);
  }
  uint32_t announced_ahead() const override { return declaration().announced_ahead; }
  void Expect(uint64_t step, absl::Span<const BatchKey> next) override;

  void ReportProgressTo(std::function<void()> on_progress) override {
    on_progress_ = std::move(on_progress);
  }

  absl::Status Prepare(int64_t /*num_examples*/) override { return absl::OkStatus(); }
  absl::Status Train(const TrainArguments& arguments, BatchResult* result, OnFinal on_final,
                     absl::FunctionRef<void()> on_result) override;
  absl::Status Evaluate(const LoadedBatch& batch, absl::Span<const float* const> parameters,
                        absl::Span<const uint64_t> versions, BatchResult* result) override;
  bool may_end() const override { return true; }
  bool HasEnded() override { return channel_->AwaitEnd(absl::InfinitePast()); }
  // Also returns the error that the program has reported. Waits for at most 5 s, for a program that
  // has closed its socket and still runs.
  absl::Status CheckIdle() override;
  std::string compute_fingerprint() const override;

 private:
  ExternalProgram(Options options, std::unique_ptr<ProgramMemory> memory,
                  std::unique_ptr<ProgramChannel> channel);

  // The number of variables that are not tables. They come first.
  size_t num_arrays() const { return declaration().variables.size(); }
  // Returns the set that these are; 0 if there are none.
  uint32_t ParameterSetOf(absl::Span<const float* const> parameters) const {
    return num_arrays() > 0 && parameters[0] == memory_->parameters(1, 0) ? 1 : 0;
  }
  // Exchanges messages with the program until it has computed its work.
  absl::Status TalkUntilDone(absl::FunctionRef<void(uint32_t)> on_final);
  // Gives the program the rows that it asks for.
  absl::Status AnswerLookUps();
  // Passes on that the program has made progress, and remembers the keys that it has named for a
  // later batch, if it has done so.
  void PassOnNews();
  // Exchanges messages with the program until the conversation leaves the phase.
  absl::Status TalkWhileIn(ProgramConversation::Phase phase, absl::Time deadline,
                           absl::FunctionRef<void(uint32_t)> on_final);
  absl::Status Ended();
  void AnnounceExpected();
  void SetResult(const ProgramWork& work, BatchResult* result);
  void WarnOfMetrics(const ProgramWork& work);

  const Options options_;
  const std::string see_log_;  // "; see LOG"; "" without a log.
  const std::unique_ptr<ProgramMemory> memory_;
  const std::unique_ptr<ProgramChannel> channel_;
  ProgramConversation conversation_;
  std::vector<v1::VariableSpec> variables_;  // The declared ones; Freeze changes them.
  std::vector<TableLookups> lookups_;        // Indexed by table.
  AskedRows* asked_ = nullptr;
  std::function<void()> on_progress_;  // May be null.
  bool is_evaluating_ = false;
  absl::Time ready_deadline_;
  std::optional<BatchPlan> train_plan_;
  std::optional<BatchPlan> test_plan_;
  std::vector<bool> warned_;  // Indexed by metric: a value that is not finite was logged.
  std::string input_;
  std::vector<int64_t> examples_;
  uint64_t step_ = 0;
  std::vector<BatchKey> expected_;
  std::vector<BatchKey> announced_;  // The newest at the end.
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_EXTERNAL_PROGRAM_H_
