#include "runtime/observability/event_file.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/find_file.h"
#include "base/host_name.h"
#include "base/status_macros.h"
#include "ml/data/records/tf_record_file.h"
#include "runtime/observability/event.pb.h"
#include "runtime/observability/histogram.h"

namespace shoal {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";
constexpr size_t kMaxUnwrittenBytes = size_t{16} << 20;

// events.out.tfevents.SECONDS.HOST.PID.NUMBER: later files have later names.
std::string FileName(absl::Time now, int number) {
  return absl::StrFormat("events.out.tfevents.%010d.%s.%d.%d", absl::ToUnixSeconds(now), HostName(),
                         getpid(), number);
}

}  // namespace

EventFile::EventFile(FileSystem* file_system, const Clock* clock, std::string directory)
    : file_system_(file_system),
      clock_(clock),
      directory_(std::move(directory)),
      file_(file_system) {}

EventFile::~EventFile() = default;

absl::Status EventFile::AddScalars(uint64_t step, absl::Span<const ScalarPoint> points) {
  if (points.empty()) return absl::OkStatus();
  tensorboard::Event event;
  event.set_step(static_cast<int64_t>(step));
  for (const ScalarPoint& point : points) {
    tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
    value->set_tag(std::string(point.tag));
    value->set_simple_value(static_cast<float>(point.value));
  }
  return Add(&event);
}

absl::Status EventFile::AddHistogram(uint64_t step, absl::string_view tag,
                                     const ValueHistogram& histogram) {
  tensorboard::Event event;
  event.set_step(static_cast<int64_t>(step));
  tensorboard::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(std::string(tag));
  tensorboard::Histogram* histo = value->mutable_histo();
  histo->set_min(histogram.min());
  histo->set_max(histogram.max());
  histo->set_num(static_cast<double>(histogram.num()));
  histo->set_sum(histogram.sum());
  histo->set_sum_squares(histogram.sum_squares());
  for (const ValueHistogram::Bucket& bucket : histogram.buckets()) {
    histo->add_bucket_limit(bucket.limit);
    histo->add_bucket(bucket.count);
  }
  return Add(&event);
}

absl::Status EventFile::Add(tensorboard::Event* event) {
  if (file_.waiting().size() > kMaxUnwrittenBytes) {
    RETURN_IF_ERROR(Flush());
  }
  const absl::Time now = clock_->Now();
  if (restarts_) {
    tensorboard::Event start;
    start.set_wall_time(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
    start.set_step(event->step());
    start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
    Frame(start);
    restarts_ = false;
  }
  event->set_wall_time(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  Frame(*event);
  return absl::OkStatus();
}

void EventFile::Frame(const tensorboard::Event& event) {
  file_.Add(FrameTfRecord(event.SerializeAsString()));
}

absl::Status EventFile::Open() {
  RETURN_IF_ERROR(file_system_->MakeDirectory(directory_));
  const absl::Time now = clock_->Now();
  int number = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<FileInfo> found,
                     FindFile(*file_system_, JoinPath(directory_, FileName(now, number))));
    if (!found.has_value()) break;
    ++number;
  }
  RETURN_IF_ERROR(file_.Open(JoinPath(directory_, FileName(now, number)), 0));
  tensorboard::Event version;
  version.set_wall_time(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  version.set_file_version(kFileVersion);
  file_.SetWaiting(FrameTfRecord(version.SerializeAsString()) + file_.waiting());
  return absl::OkStatus();
}

absl::Status EventFile::Flush() {
  if (file_.waiting().empty()) return absl::OkStatus();
  if (!file_.is_open()) RETURN_IF_ERROR(Open());
  return file_.Flush();
}

}  // namespace shoal
