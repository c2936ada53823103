#include "deploy/launch/output_tail.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "runtime/observability/progress.h"

namespace shoal {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(100);
constexpr uint64_t kMostBytes = 16 << 10;  // The most bytes that one call reads.

// Returns what a terminal shows of the line in the end: bars of progress begin it again and again.
std::string AsShown(absl::string_view line) {
  line = absl::StripSuffix(line, "\r");
  return std::string(line.substr(line.rfind('\r') + 1));
}

}  // namespace

OutputTail::OutputTail(FileSystem* file_system, std::string path)
    : file_system_(file_system), path_(std::move(path)) {
  const absl::StatusOr<FileInfo> info = file_system_->GetInfo(path_);
  if (info.ok()) offset_ = info->size;
}

std::vector<std::string> OutputTail::Read(bool is_over) {
  std::vector<std::string> lines;
  const absl::StatusOr<FileInfo> info = file_system_->GetInfo(path_);
  if (!info.ok() || info->size <= offset_) return lines;
  const absl::StatusOr<std::unique_ptr<ReadableFile>> file = file_system_->OpenForRead(path_);
  if (!file.ok()) return lines;
  if (info->size - offset_ > kMostBytes) {
    const uint64_t left_out = info->size - offset_ - kMostBytes;
    lines.push_back(absl::StrCat("... ", left_out, " bytes more in ", path_));
    offset_ += left_out;
  }
  std::string text(info->size - offset_, '\0');
  const absl::StatusOr<size_t> count = (*file)->Read(offset_, absl::MakeSpan(text));
  if (!count.ok()) return lines;
  text.resize(*count);
  const size_t end = text.rfind('\n');
  if (!is_over) text.resize(end == std::string::npos ? 0 : end + 1);
  offset_ += text.size();
  if (text.empty()) return lines;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    lines.push_back(AsShown(line));
  }
  return lines;
}

OutputPrinter::OutputPrinter(FileSystem* file_system, const std::string& path,
                             ProgressReporter* progress)
    : tail_(file_system, path), progress_(progress), thread_([this] { Loop(); }) {}

OutputPrinter::~OutputPrinter() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  PrintNew(/*is_over=*/true);
}

void OutputPrinter::Loop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!closing_) changed_.WaitFor(&mutex_, kPeriod);
      if (closing_) return;
    }
    PrintNew(/*is_over=*/false);
  }
}

void OutputPrinter::PrintNew(bool is_over) {
  for (const std::string& line : tail_.Read(is_over)) progress_->Print(line);
}

}  // namespace shoal
