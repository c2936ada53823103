#include "worker/summary_writer.h"

#include <cmath>
#include <limits>

#include "base/log.h"
#include "runtime/observability/histogram.h"

namespace shoal {

SummaryWriter::SummaryWriter(const Options& options)
    : options_(options), file_(options.file_system, options.clock, options.directory) {
  thread_ = std::thread([this] { Run(); });
}

SummaryWriter::~SummaryWriter() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool SummaryWriter::IsDue(uint64_t step) {
  if (step < last_step_) goes_back_ = true;
  const bool is_first = last_step_ == 0 || step < last_step_;
  const uint64_t before = is_first ? step - 1 : last_step_;
  last_step_ = step;
  return step / options_.every > before / options_.every;
}

void SummaryWriter::Offer(uint64_t step, absl::FunctionRef<std::vector<BatchSummary>()> collect) {
  {
    MutexLock lock(&mutex_);
    if (busy_) return;
  }
  if (!IsDue(step)) return;
  step_ = step;
  kept_.clear();
  values_.clear();
  for (const BatchSummary& summary : collect()) {
    kept_.push_back(
        {summary.scalar, summary.histogram, summary.norm, values_.size(), summary.values.size()});
    values_.insert(values_.end(), summary.values.begin(), summary.values.end());
  }
  MutexLock lock(&mutex_);
  busy_ = true;
  changed_.NotifyAll();
}

void SummaryWriter::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!busy_ && !closing_) changed_.Wait(&mutex_);
      if (!busy_) break;
    }
    Write();
    MutexLock lock(&mutex_);
    busy_ = false;
  }
  Note(file_.Flush());
}

void SummaryWriter::Write() {
  if (goes_back_) file_.Restart();
  goes_back_ = false;
  std::vector<ScalarPoint> points;
  absl::Status status;
  for (const Kept& kept : kept_) {
    const absl::Span<const float> values =
        absl::MakeConstSpan(values_).subspan(kept.begin, kept.size);
    if (!kept.scalar.empty()) points.push_back({kept.scalar, values[0]});
    if (kept.histogram.empty()) continue;
    ValueHistogram histogram;
    histogram.Add(values);
    status.Update(file_.AddHistogram(step_, kept.histogram, histogram));
    if (kept.norm.empty()) continue;
    points.push_back({kept.norm, histogram.is_finite() ? std::sqrt(histogram.sum_squares())
                                                       : std::numeric_limits<double>::quiet_NaN()});
  }
  status.Update(file_.AddScalars(step_, points));
  status.Update(file_.Flush());
  Note(status);  // a flush of the whole step: records are only kept until then
}

void SummaryWriter::Note(const absl::Status& status) {
  if (!status.ok() && is_written_) {
    LOG(WARNING) << "event files: " << status << "; the model's summaries wait in memory";
  }
  is_written_ = status.ok();
}

}  // namespace shoal
