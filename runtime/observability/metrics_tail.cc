#include "runtime/observability/metrics_tail.h"

#include <algorithm>

#include "absl/types/span.h"

#include "base/file_system.h"

namespace shoal {

MetricsTail::MetricsTail(FileSystem* file_system, std::string path)
    : file_system_(file_system), path_(std::move(path)) {
  Read();
}

MetricsTail::~MetricsTail() = default;

MetricsTail::News MetricsTail::Read() {
  News news;
  if (file_ == nullptr) {
    absl::StatusOr<std::unique_ptr<ReadableFile>> file = file_system_->OpenForRead(path_);
    if (!file.ok()) return news;
    file_ = *std::move(file);
  }
  const uint64_t before = last_step_;
  news.lines = ReadOn();
  if (news.lines.empty() && WasReplaced()) {
    // A cut puts another file in the place of this one.
    file_.reset();
    absl::StatusOr<std::unique_ptr<ReadableFile>> file = file_system_->OpenForRead(path_);
    if (!file.ok()) return news;
    file_ = *std::move(file);
    offset_ = 0;
    last_step_ = 0;
    ReadOn();
    news.cut_back = last_step_ < before;
  }
  news.last_step = last_step_;
  return news;
}

std::vector<StepMetrics> MetricsTail::ReadOn() {
  std::vector<StepMetrics> lines;
  const absl::StatusOr<uint64_t> size = file_->Size();
  if (!size.ok() || *size <= offset_) return lines;
  std::string text(*size - offset_, '\0');
  const absl::StatusOr<size_t> count = file_->Read(offset_, absl::MakeSpan(text));
  if (!count.ok()) return lines;
  text.resize(*count);
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    absl::StatusOr<StepMetrics> line =
        ParseMetricsLine(absl::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (!line.ok()) continue;
    last_step_ = line->step;
    lines.push_back(*std::move(line));
  }
  offset_ += begin;
  return lines;
}

bool MetricsTail::WasReplaced() const {
  const absl::StatusOr<FileInfo> info = file_system_->GetInfo(path_);
  const absl::StatusOr<uint64_t> own = file_->Size();
  return info.ok() && own.ok() && info->size != *own;
}

}  // namespace shoal
