// Shows progress to the user: one live bar on a terminal, a line every few seconds on a pipe.
//
//   epoch 1/3:  42%|████▏     | 394/938 [00:12<00:17, 31.1 steps/s, 3981 examples/s, loss=0.412,
//   acc=0.861]
#ifndef SHOAL_RUNTIME_OBSERVABILITY_PROGRESS_H_
#define SHOAL_RUNTIME_OBSERVABILITY_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"

namespace shoal {

// Returns "0.4120", or "5.401e+09" for a loss that is that large.
std::string LossText(double loss);

// Options for drawing.
struct ProgressOptions {
  bool is_terminal = false;  // True: redraws one line; false: writes whole lines.
  bool use_color = false;
  bool use_unicode = true;             // Draws the bar with block characters; else with '#'.
  int width = 100;                     // Columns of the terminal.
  std::function<int()> current_width;  // Called before a redraw; may be null.
  absl::Duration redraw_period = absl::Milliseconds(100);  // Terminal: at most this often.
  absl::Duration line_period = absl::Seconds(5);           // Pipe: at most this often.
  uint64_t log_every = 0;  // Pipe: a line every log_every steps instead, if above 0.
  std::function<void(absl::string_view)> write;  // Standard output or error.
};

// The length of a run, as far as it is known; 0 is unknown.
struct ProgressPlan {
  uint64_t first_step = 0;   // Steps done before this start (resumed).
  uint64_t total_steps = 0;  // The steps of the whole run.
  uint64_t steps_per_epoch = 0;
  uint32_t num_epochs = 0;
};

// An applied step.
struct ProgressStep {
  uint64_t step = 0;   // Counted from 1.
  uint32_t epoch = 0;  // Counted from 0.
  double loss = 0;
  std::optional<double> accuracy;
  uint64_t examples = 0;  // The examples of this step.
  // Other metrics by name, those without a value included.
  std::map<std::string, std::optional<double>> named = {};
};

// Thread-safe. Calls are short and wait for the terminal only inside write(2).
class ProgressReporter {
 public:
  // `clock` is borrowed.
  ProgressReporter(ProgressOptions options, const Clock* clock);

  void SetPlan(const ProgressPlan& plan) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(const ProgressStep& step) ABSL_LOCKS_EXCLUDED(mutex_);
  // Shows that the run has reached `step`. Loss and accuracy are not shown until the next Add. The
  // rates are shown as they are given.
  void Reach(uint64_t step, double steps_per_second, double examples_per_second)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets what the run waits for. It is shown instead of the bar's numbers until the next step; a
  // pipe gets a line when it changes.
  void SetActivity(absl::string_view activity) ABSL_LOCKS_EXCLUDED(mutex_);
  // Prints a line above the bar.
  void Print(absl::string_view line) ABSL_LOCKS_EXCLUDED(mutex_);
  // After a rollback: moves the bar back and restarts the rates. Loss and accuracy are not shown
  // until the next Add.
  void GoBackTo(uint64_t step) ABSL_LOCKS_EXCLUDED(mutex_);
  // Draws if it is due, so that the times advance while nothing happens.
  void Tick() ABSL_LOCKS_EXCLUDED(mutex_);
  // Leaves the last state on the screen and ends the line.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the rate over the last seconds.
  double examples_per_second() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the last step that was shown; 0 if none was.
  uint64_t step() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Means over about the last 50 steps, so that the numbers can be read.
  struct Smoothed {
    double sum = 0;
    double weight = 0;
    void Add(double value);
    double mean() const { return sum / weight; }
  };

  // Moves the bar without a step, and forgets the means of the steps before.
  void MoveTo(uint64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartMeans() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartRates() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UpdateRates(const ProgressStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DrawIfDue(bool force) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Numbers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Bar(int width) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Line() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ProgressOptions options_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  ProgressPlan plan_ ABSL_GUARDED_BY(mutex_);
  ProgressStep last_ ABSL_GUARDED_BY(mutex_);
  std::string activity_ ABSL_GUARDED_BY(mutex_);
  Smoothed loss_ ABSL_GUARDED_BY(mutex_);
  Smoothed accuracy_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Smoothed> named_ ABSL_GUARDED_BY(mutex_);
  const absl::Time start_;
  absl::Time first_step_time_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time window_start_ ABSL_GUARDED_BY(mutex_);
  uint64_t window_examples_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t window_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  double examples_per_second_ ABSL_GUARDED_BY(mutex_) = 0;
  double steps_per_second_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_draw_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t last_drawn_step_ ABSL_GUARDED_BY(mutex_) = 0;
  bool line_is_open_ ABSL_GUARDED_BY(mutex_) = false;  // The terminal shows a bar.
};

// Returns the options for a file descriptor, depending on whether it is a terminal, and its width.
// `no_color` is true if the environment has NO_COLOR.
ProgressOptions ProgressOptionsFor(int fd, bool no_color);

// "01:05", "1:02:03".
std::string FormatClockTime(absl::Duration duration);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_PROGRESS_H_
