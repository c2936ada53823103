#include "chief/run_history.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/types/span.h"

#include "base/file_system.h"

namespace shoal {
namespace {

// A text of a task may be long; the log has all of it.
constexpr size_t kMostTextBytes = 1000;
// A metrics.jsonl of up to kMostBlocks blocks is read whole, about 50000 lines.
constexpr uint64_t kBlockBytes = 64 << 10;
constexpr uint64_t kMostBlocks = 128;

// A run has at most kMostMetrics; lines of earlier starts may have others.
constexpr size_t kMostNamed = 32;

std::string Shortened(const std::string& text) {
  return text.size() <= kMostTextBytes ? text : text.substr(0, kMostTextBytes) + " …";
}

}  // namespace

void RunHistory::AddLinesFrom(FileSystem* file_system, const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ReadableFile>> file = file_system->OpenForRead(path);
  if (!file.ok()) return;  // There was no start before.
  const uint64_t size = (*file)->Size().value_or(0);
  const uint64_t num_blocks = (size + kBlockBytes - 1) / kBlockBytes;
  const uint64_t num_read = std::min(num_blocks, kMostBlocks);
  std::string rest;  // The begin of a line whose end is in the next block.
  std::string block(kBlockBytes, '\0');
  MutexLock lock(&mutex_);
  for (uint64_t i = 0; i < num_read; ++i) {
    const uint64_t at = num_blocks * i / num_read;
    const absl::StatusOr<size_t> count = (*file)->Read(at * kBlockBytes, absl::MakeSpan(block));
    if (!count.ok()) return;
    rest.append(block, 0, *count);
    // Parts of lines at the ends of blocks are left out.
    std::vector<std::string> lines = absl::StrSplit(rest, '\n');
    rest = num_read == num_blocks ? std::move(lines.back()) : std::string();
    lines.pop_back();
    for (const std::string& line : lines) {
      const absl::StatusOr<StepMetrics> metrics = ParseMetricsLine(line);
      if (metrics.ok() && metrics->step > last_.step) AddLine(*metrics);
    }
  }
}

void RunHistory::SetPlan(const ProgressPlan& plan) {
  MutexLock lock(&mutex_);
  plan_ = plan;
  first_step_ = last_.step;
  training_since_ = clock_.Now();
}

void RunHistory::Add(const StepMetrics& line) {
  MutexLock lock(&mutex_);
  AddLine(line);
}

void RunHistory::AddLine(const StepMetrics& line) {
  last_ = line;
  loss_.Add(line.step, line.loss);
  if (line.accuracy.has_value()) accuracy_.Add(line.step, *line.accuracy);
  if (line.examples_per_second > 0) speed_.Add(line.step, line.examples_per_second);
  if (line.eval_loss.has_value()) {
    test_loss_ = line.eval_loss;
    test_loss_curve_.Add(line.step, *line.eval_loss);
  }
  if (line.eval_accuracy.has_value()) {
    test_accuracy_ = line.eval_accuracy;
    test_accuracy_curve_.Add(line.step, *line.eval_accuracy);
  }
  for (const auto& [name, value] : line.named) {
    if (named_.size() >= kMostNamed && named_.count(name) == 0) continue;
    Named& metric = named_[name];
    if (value.has_value()) metric.train.Add(line.step, *value);
  }
  for (const auto& [name, value] : line.eval_named) {
    const auto metric = named_.find(name);
    if (metric == named_.end() || !value.has_value()) continue;
    metric->second.newest_test = value;
    metric->second.test.Add(line.step, *value);
  }
}

void RunHistory::AddEvent(const std::string& text, bool is_trouble, const std::string& subject) {
  MutexLock lock(&mutex_);
  if (!subject.empty() && subject == subject_) {
    for (RunPage::Event& event : events_) {
      if (event.number == event_of_subject_) event.text = Shortened(text);
    }
    return;
  }
  if (!subject.empty()) {
    subject_ = subject;
    event_of_subject_ = num_events_ + 1;
  }
  events_.push_front({clock_.Now(), ++num_events_, last_.step, is_trouble, Shortened(text)});
  if (events_.size() > kMostEvents) events_.pop_back();
}

void RunHistory::GoBackTo(uint64_t step) {
  MutexLock lock(&mutex_);
  last_.step = std::min(last_.step, step);
  first_step_ = std::min(first_step_, step);
  for (Curve* curve : {&loss_, &accuracy_, &test_loss_curve_, &test_accuracy_curve_, &speed_}) {
    curve->GoBackTo(step);
  }
  const auto newest = [](const Curve& curve) -> std::optional<double> {
    const std::vector<CurvePoint> points = curve.Points();
    if (points.empty()) return std::nullopt;
    return points.back().value;
  };
  test_loss_ = newest(test_loss_curve_);
  test_accuracy_ = newest(test_accuracy_curve_);
  for (auto& [name, metric] : named_) {
    metric.train.GoBackTo(step);
    metric.test.GoBackTo(step);
    metric.newest_test = newest(metric.test);
  }
}

void RunHistory::Add(RunPage::Checkpoint checkpoint) {
  checkpoint.time = clock_.Now();
  checkpoint.text = Shortened(checkpoint.text);
  checkpoints_.push_front(std::move(checkpoint));
  if (checkpoints_.size() > kMostCheckpoints) checkpoints_.pop_back();
}

void RunHistory::OnCheckpoint(const std::string& directory, uint64_t step) {
  MutexLock lock(&mutex_);
  RunPage::Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.text = directory;
  Add(std::move(checkpoint));
}

void RunHistory::OnExported(const std::string& directory) {
  MutexLock lock(&mutex_);
  for (RunPage::Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.text == directory) checkpoint.is_exported = true;
  }
}

void RunHistory::OnCheckpointFailed(const std::string& why) {
  MutexLock lock(&mutex_);
  RunPage::Checkpoint checkpoint;
  checkpoint.step = last_.step;
  checkpoint.state = RunPage::Checkpoint::State::kFailed;
  checkpoint.text = why;
  Add(std::move(checkpoint));
}

void RunHistory::DiscardAbove(uint64_t step) {
  MutexLock lock(&mutex_);
  for (RunPage::Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.step > step && checkpoint.state == RunPage::Checkpoint::State::kDurable) {
      checkpoint.state = RunPage::Checkpoint::State::kVoid;
    }
  }
}

void RunHistory::Describe(RunPage* page) const {
  MutexLock lock(&mutex_);
  page->last_step = plan_.total_steps;
  page->num_epochs = plan_.num_epochs;
  if (const double seconds = absl::ToDoubleSeconds(clock_.Now() - training_since_); seconds > 1) {
    page->mean_steps_per_second = static_cast<double>(last_.step - first_step_) / seconds;
  }
  if (last_.examples > 0) {
    page->epoch = last_.epoch;
    page->loss = last_.loss;
    page->accuracy = last_.accuracy;
  }
  page->test_loss = test_loss_;
  page->test_accuracy = test_accuracy_;
  page->curves = {loss_.Points(), accuracy_.Points(), test_loss_curve_.Points(),
                  test_accuracy_curve_.Points(), speed_.Points()};
  for (const auto& [name, metric] : named_) {
    const auto value = last_.named.find(name);
    page->named.push_back({name, value != last_.named.end() ? value->second : std::nullopt,
                           metric.newest_test, metric.train.Points(), metric.test.Points()});
  }
  page->events.assign(events_.begin(), events_.end());
  page->num_events = num_events_;
  page->checkpoints.assign(checkpoints_.begin(), checkpoints_.end());
}

}  // namespace shoal
