#include "runtime/observability/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal {
namespace {

constexpr char kClearLine[] = "\r\x1b[K";
constexpr char kGreen[] = "\x1b[32m";
constexpr char kPlain[] = "\x1b[0m";
constexpr absl::Duration kRateWindow = absl::Seconds(1);
constexpr absl::Duration kFirstRateWindow = absl::Milliseconds(300);
constexpr double kKeepPerStep = 0.98;

// `cells` columns, of which `fraction` is full. Eighths of a block as tqdm draws them.
std::string DrawBar(double fraction, int cells, bool unicode) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * cells * 8);
  std::string bar;
  for (int i = 0; i < cells; ++i) {
    const int filled = eighths - 8 * i;
    if (filled >= 8) {
      bar += unicode ? "█" : "#";
    } else if (filled > 0 && unicode) {
      bar += kEighths[filled];
    } else {
      bar += ' ';
    }
  }
  return bar;
}

void WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count <= 0) return;  // Nobody looks any more.
    text.remove_prefix(static_cast<size_t>(count));
  }
}

int TerminalWidth(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

}  // namespace

std::string LossText(double loss) {
  return std::abs(loss) < 1e6 ? absl::StrFormat("%.4f", loss) : absl::StrFormat("%.4g", loss);
}

void ProgressReporter::Smoothed::Add(double value) {
  if (!std::isfinite(value)) return;
  sum = sum * kKeepPerStep + value;
  weight = weight * kKeepPerStep + 1;
}

ProgressReporter::ProgressReporter(ProgressOptions options, const Clock* clock)
    : options_(std::move(options)), clock_(clock), start_(clock->Now()), window_start_(start_) {}

void ProgressReporter::SetPlan(const ProgressPlan& plan) {
  MutexLock lock(&mutex_);
  plan_ = plan;
  if (last_.step < plan.first_step) last_.step = plan.first_step;
}

void ProgressReporter::Add(const ProgressStep& step) {
  MutexLock lock(&mutex_);
  activity_.clear();
  if (step.epoch != last_.epoch) StartMeans();
  loss_.Add(step.loss);
  if (step.accuracy.has_value()) accuracy_.Add(*step.accuracy);
  for (const auto& [name, value] : step.named) {
    if (value.has_value()) named_[name].Add(*value);
  }
  UpdateRates(step);
  last_ = step;
  DrawIfDue(false);
}

void ProgressReporter::Reach(uint64_t step, double steps_per_second, double examples_per_second) {
  MutexLock lock(&mutex_);
  activity_.clear();
  steps_per_second_ = steps_per_second;
  examples_per_second_ = examples_per_second;
  MoveTo(step);
  DrawIfDue(false);
}

void ProgressReporter::MoveTo(uint64_t step) {
  StartMeans();
  StartRates();
  last_.step = step;
  last_drawn_step_ = std::min(last_drawn_step_, step);
  if (plan_.steps_per_epoch > 0) {
    last_.epoch = static_cast<uint32_t>((std::max<uint64_t>(step, 1) - 1) / plan_.steps_per_epoch);
  }
}

void ProgressReporter::SetActivity(absl::string_view activity) {
  MutexLock lock(&mutex_);
  if (activity_ == activity) return;
  activity_ = std::string(activity);
  DrawIfDue(!activity_.empty());
}

void ProgressReporter::Print(absl::string_view line) {
  MutexLock lock(&mutex_);
  Clear();
  options_.write(absl::StrCat(line, "\n"));
  if (options_.is_terminal && last_.step > 0) DrawIfDue(true);
}

void ProgressReporter::GoBackTo(uint64_t step) {
  MutexLock lock(&mutex_);
  MoveTo(step);
}

void ProgressReporter::Tick() {
  MutexLock lock(&mutex_);
  if (options_.is_terminal) DrawIfDue(false);
}

void ProgressReporter::Finish() {
  MutexLock lock(&mutex_);
  if (last_.step > last_drawn_step_) activity_.clear();
  if (last_.step > last_drawn_step_ || line_is_open_) DrawIfDue(true);
  if (line_is_open_) options_.write("\n");
  line_is_open_ = false;
}

double ProgressReporter::examples_per_second() const {
  MutexLock lock(&mutex_);
  return examples_per_second_;
}

uint64_t ProgressReporter::step() const {
  MutexLock lock(&mutex_);
  return last_.step;
}

void ProgressReporter::StartMeans() {
  loss_ = Smoothed();
  accuracy_ = Smoothed();
  named_.clear();
}

void ProgressReporter::StartRates() {
  window_start_ = clock_->Now();
  window_examples_ = 0;
  window_steps_ = 0;
}

void ProgressReporter::UpdateRates(const ProgressStep& step) {
  const absl::Time now = clock_->Now();
  if (first_step_time_ == absl::InfiniteFuture()) {
    // The first step's own time is that of starting up.
    first_step_time_ = now;
    StartRates();
    return;
  }
  window_examples_ += step.examples;
  ++window_steps_;
  const absl::Duration passed = now - window_start_;
  if (passed < (examples_per_second_ > 0 ? kRateWindow : kFirstRateWindow)) return;
  const double seconds = absl::ToDoubleSeconds(passed);
  const double keep = passed < kRateWindow ? 0 : 0.5;
  const auto mix = [keep](double old, double now_rate) {
    return old > 0 ? keep * old + (1 - keep) * now_rate : now_rate;
  };
  examples_per_second_ = mix(examples_per_second_, window_examples_ / seconds);
  steps_per_second_ = mix(steps_per_second_, window_steps_ / seconds);
  if (passed >= kRateWindow) StartRates();
}

void ProgressReporter::DrawIfDue(bool force) {
  const absl::Time now = clock_->Now();
  if (!options_.is_terminal) {
    const bool by_steps = options_.log_every > 0;
    const bool due = by_steps ? last_.step >= last_drawn_step_ + options_.log_every
                              : now - last_draw_ >= options_.line_period;
    if (!force && !due) return;
    last_draw_ = now;
    if (activity_.empty()) last_drawn_step_ = last_.step;
    options_.write(absl::StrCat(Line(), "\n"));
    return;
  }
  if (!force && now - last_draw_ < options_.redraw_period) return;
  last_draw_ = now;
  if (activity_.empty()) last_drawn_step_ = last_.step;
  const int width = options_.current_width ? options_.current_width() : options_.width;
  options_.write(absl::StrCat(kClearLine, Bar(width)));
  line_is_open_ = true;
}

void ProgressReporter::Clear() {
  if (line_is_open_) options_.write(kClearLine);
  line_is_open_ = false;
}

// "31.1 steps/s, 3981 examples/s, loss=0.4120, acc=0.8610"
std::string ProgressReporter::Numbers() const {
  std::string text;
  if (steps_per_second_ > 0) {
    absl::StrAppendFormat(&text, "%.1f steps/s, %.0f examples/s", steps_per_second_,
                          examples_per_second_);
  }
  if (loss_.weight > 0) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "loss=", LossText(loss_.mean()));
  }
  if (accuracy_.weight > 0) absl::StrAppendFormat(&text, ", acc=%.4f", accuracy_.mean());
  for (const auto& [name, value] : named_) {
    if (value.weight > 0) absl::StrAppend(&text, ", ", name, "=", LossText(value.mean()));
  }
  return text;
}

std::string ProgressReporter::Bar(int width) const {
  const bool in_epochs = plan_.steps_per_epoch > 0;
  const uint64_t total = in_epochs ? plan_.steps_per_epoch : plan_.total_steps;
  if (total == 0 && !activity_.empty()) {
    return absl::StrCat("[", FormatClockTime(clock_->Now() - start_), "] ", activity_)
        .substr(0, static_cast<size_t>(std::max(width - 1, 0)));
  }
  const uint64_t epoch_start = in_epochs ? last_.epoch * plan_.steps_per_epoch : 0;
  const uint64_t done = last_.step > epoch_start ? last_.step - epoch_start : 0;
  const double fraction = total > 0 ? static_cast<double>(done) / total : 0;
  std::string head = in_epochs && plan_.num_epochs > 0
                         ? absl::StrCat("epoch ", last_.epoch + 1, "/", plan_.num_epochs)
                         : std::string("train");
  absl::StrAppendFormat(&head, ": %3.0f%%|", std::floor(std::min(fraction, 1.0) * 100));
  const absl::Time since = std::min(first_step_time_, clock_->Now());
  const absl::Duration passed = clock_->Now() - (activity_.empty() ? since : start_);
  std::string tail = absl::StrCat("| ", done, "/", total, " [", FormatClockTime(passed));
  if (plan_.total_steps > last_.step && steps_per_second_ > 0) {
    absl::StrAppend(
        &tail, "<",
        FormatClockTime(absl::Seconds((plan_.total_steps - last_.step) / steps_per_second_)));
  }
  const std::string numbers = activity_.empty() ? Numbers() : activity_;
  absl::StrAppend(&tail, numbers.empty() ? "" : ", ", numbers, "]");
  const int free = width - 1 - static_cast<int>(head.size());
  if (free < 4) return head.substr(0, static_cast<size_t>(std::max(width - 1, 0)));
  const int cells = std::clamp(free - static_cast<int>(tail.size()), 4, 30);
  if (static_cast<int>(tail.size()) > free - cells) tail.resize(static_cast<size_t>(free - cells));
  const std::string bar = DrawBar(fraction, cells, options_.use_unicode);
  return options_.use_color ? absl::StrCat(head, kGreen, bar, kPlain, tail)
                            : absl::StrCat(head, bar, tail);
}

// For pipes: "epoch 1/3, step 394/2814 (0:17 left): 31.1 steps/s, ..."
std::string ProgressReporter::Line() const {
  if (!activity_.empty()) return activity_;
  std::string text;
  if (plan_.num_epochs > 0) {
    absl::StrAppend(&text, "epoch ", last_.epoch + 1, "/", plan_.num_epochs, ", ");
  }
  absl::StrAppend(&text, "step ", last_.step);
  if (plan_.total_steps > 0) absl::StrAppend(&text, "/", plan_.total_steps);
  if (plan_.total_steps > last_.step && steps_per_second_ > 0) {
    absl::StrAppend(
        &text, " (",
        FormatClockTime(absl::Seconds((plan_.total_steps - last_.step) / steps_per_second_)),
        " left)");
  }
  const std::string numbers = Numbers();
  return absl::StrCat(text, numbers.empty() ? "" : ": ", numbers);
}

ProgressOptions ProgressOptionsFor(int fd, bool no_color) {
  ProgressOptions options;
  options.is_terminal = isatty(fd) == 1;
  options.use_color = options.is_terminal && !no_color;
  options.current_width = [fd] { return TerminalWidth(fd); };
  options.write = [fd](absl::string_view text) { WriteAll(fd, text); };
  return options;
}

std::string FormatClockTime(absl::Duration duration) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration));
  if (seconds < 3600) return absl::StrFormat("%02d:%02d", seconds / 60, seconds % 60);
  return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

}  // namespace shoal
