// One side of the conversation between a worker and its compute program, without the socket.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_CONVERSATION_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "runtime/plan/batch_key.h"
#include "runtime/variables/metric_sums.h"
#include "worker/program/program_declaration.h"
#include "worker/program/program_keys.h"
#include "worker/program/program_layout.h"
#include "worker/program/program_messages.h"

namespace shoal {

// The program receives these facts about its run.
struct ProgramWelcome {
  bool declares_only = false;
  uint32_t worker = 0;
  uint32_t num_workers = 1;
  uint64_t seed = 0;
  std::string directory;  // The run's.
  std::string run_file;   // The run file's text.
};

// A batch of training data or a block of test data.
struct ProgramWork {
  bool evaluates = false;
  uint64_t step = 0;
  BatchKey batch;
  uint64_t seed = 0;
  uint32_t parameter_set = 0;
  uint32_t contribution_set = 0;
  absl::Span<const int64_t> examples;
};

// The worker's side. It receives what the program sent, checks it, and appends what the worker
// sends to output(). Not thread-safe; it holds no thread, socket, memory or clock.
class ProgramConversation {
 public:
  enum class Phase {
    kHello,    // Waits for HELLO.
    kDeclare,  // Waits for DECLARE.
    kLayout,   // The declaration is there; the worker calls SendLayout or Finish.
    kReady,    // Waits for READY.
    kIdle,     // The program waits for work.
    kWorking,  // The program computes.
    kAsking,   // The program waits for rows; the worker calls SendRows.
    kEnded,    // FINISH is sent.
  };

  // `program` names the program in errors. If it has started before in this run, faults of its
  // surroundings are temporary.
  ProgramConversation(std::string program, ProgramWelcome welcome, bool has_started_before);

  Phase phase() const { return phase_; }

  // Takes bytes that the program sent, in pieces of any size. Calls on_final for each variable that
  // the program declares final. Errors end the conversation:
  //   FailedPrecondition: a restart does not mend it. The program sent a permanent ERROR, a wrong
  //       message before it was ready, or an ERROR about its surroundings in its first start.
  //   Internal: a restart may mend it. The program sent a retryable ERROR, or a wrong message when
  //       it was ready.
  //   Unavailable: the program has started before in this run, and sent an ERROR about its
  //       surroundings.
  absl::Status Receive(absl::string_view bytes, absl::FunctionRef<void(uint32_t)> on_final);

  const std::string& implementation() const { return implementation_; }   // Set by HELLO.
  const ProgramDeclaration& declaration() const { return declaration_; }  // After DECLARE.
  const std::string& error_text() const { return error_text_; }           // After ERROR.
  const std::string& traceback() const { return traceback_; }             // After ERROR.

  // In kAsking: the rows that the program asks for; each table at most once.
  const std::vector<ProgramKeys>& look_ups() const { return look_ups_; }

  // The keys of rows that a later batch of training data will probably look up.
  struct LookAhead {
    BatchKey batch;
    std::vector<ProgramKeys> tables;  // Each table at most once; offsets mean nothing.
  };
  // Returns the newest LOOK_AHEAD since the last call.
  std::optional<LookAhead> TakeLookAhead() { return std::exchange(look_ahead_, std::nullopt); }
  // Returns whether the program has reported progress since the last call.
  bool TakeProgress() { return std::exchange(has_progressed_, false); }

  // Call it in kLayout.
  void SendLayout(const ProgramLayout& layout);
  // Call it in kIdle.
  void Start(const ProgramWork& work);
  // Call it in kAsking: the rows of look_ups() are in their places.
  void SendRows();
  // Call it in kIdle and kWorking.
  void Announce(const BatchKey& batch, absl::Span<const int64_t> examples);
  // May be called in any phase; only the first call has an effect.
  void Finish(FinishReason reason, absl::string_view text);

  // The result of the last work that is done.
  struct Result {
    double loss_sum = 0;
    MetricSums metrics;  // One for each declared metric; empty if the loss is not finite.
  };
  const Result& result() const { return result_; }
  // Returns whether the program declared the variable final in its last work.
  bool is_final(uint32_t variable) const { return final_in_[variable] == work_; }

  // The bytes to send; the caller removes what it has sent.
  std::string* output() { return &output_; }

 private:
  absl::Status CheckHead(uint32_t type, uint32_t bytes) const;
  absl::Status Handle(ProgramMessage type, absl::string_view payload,
                      absl::FunctionRef<void(uint32_t)> on_final);
  absl::Status HandleHello(absl::string_view payload);
  absl::Status HandleDeclare(absl::string_view payload);
  absl::Status HandleFinal(absl::string_view payload, absl::FunctionRef<void(uint32_t)> on_final);
  absl::Status HandleDone(absl::string_view payload);
  absl::Status HandleLookUp(absl::string_view payload);
  absl::Status HandleLookAhead(absl::string_view payload);
  absl::Status HandleProgress(absl::string_view payload);
  absl::Status HandleError(absl::string_view payload);
  absl::Status CheckMetrics() const;
  // An error of the program, with a code that follows from the phase.
  absl::Status Wrong(absl::string_view what) const;

  const std::string program_;
  const ProgramWelcome welcome_;
  const bool has_started_before_;
  Phase phase_ = Phase::kHello;
  absl::Status error_;
  std::string input_;  // The beginning of a message that is not complete.
  std::string output_;
  std::string implementation_;
  uint32_t version_ = 0;  // Set by HELLO.
  ProgramDeclaration declaration_;
  std::string error_text_;
  std::string traceback_;
  uint64_t work_ = 0;  // The number of the last work.
  bool evaluates_ = false;
  bool has_final_ = false;  // FINAL was sent for the last work.
  uint64_t rows_ = 0;       // The beginning of the areas of rows in the files.
  uint64_t rows_end_ = 0;   // The bytes there that the last work uses.
  std::vector<ProgramKeys> look_ups_;
  std::optional<LookAhead> look_ahead_;
  bool has_progressed_ = false;
  std::vector<uint64_t> final_in_;  // Indexed by variable: the last work in which it was final.
  Result result_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_CONVERSATION_H_
