#include "worker/program/program_conversation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr uint32_t kMaxHelloBytes = 4 << 10;
constexpr uint32_t kMaxDeclareBytes = 16 << 20;
constexpr uint32_t kMaxDoneBytes = 1 << 20;  // DONE since version 2.
constexpr uint32_t kMaxLookUpBytes = 64 << 20;
constexpr uint32_t kMaxBytes = 128 << 10;  // All other messages.
constexpr size_t kMaxImplementationBytes = 256;
constexpr size_t kMaxErrorBytes = 4 << 10;
constexpr size_t kMaxTracebackBytes = 64 << 10;
// Classes of ERROR.
constexpr uint32_t kPermanent = 1;
constexpr uint32_t kRetryable = 2;
constexpr uint32_t kSurroundings = 3;

const char* NameOf(uint32_t type) {
  constexpr const char* kNames[] = {"HELLO", "DECLARE", "READY",      "FINAL",   "DONE",
                                    "ERROR", "LOOK_UP", "LOOK_AHEAD", "PROGRESS"};
  return type >= 1 && type <= 9 ? kNames[type - 1] : "a message of an unknown type";
}

uint32_t MostBytes(uint32_t type, uint32_t version) {
  if (type == static_cast<uint32_t>(ProgramMessage::kHello)) return kMaxHelloBytes;
  if (type == static_cast<uint32_t>(ProgramMessage::kDeclare)) return kMaxDeclareBytes;
  if (type == static_cast<uint32_t>(ProgramMessage::kDone) && version > 1) return kMaxDoneBytes;
  const bool has_keys = type == static_cast<uint32_t>(ProgramMessage::kLookUp) ||
                        type == static_cast<uint32_t>(ProgramMessage::kLookAhead);
  return has_keys ? kMaxLookUpBytes : kMaxBytes;
}

// The reader is not ok() afterwards if the histogram is cut short.
void TakeHistogram(MessageReader* reader, std::vector<ScoreCount>* histogram) {
  constexpr size_t kEntryBytes = 3 * sizeof(uint32_t);
  const uint32_t entries = reader->U32();
  histogram->reserve(std::min<size_t>(entries, reader->remaining() / kEntryBytes));
  for (uint32_t i = 0; i < entries && reader->ok(); ++i) {
    ScoreCount& count = histogram->emplace_back();
    count.bin = reader->U32();
    count.positives = reader->U32();
    count.negatives = reader->U32();
  }
}

// A metric that is not finite makes that of its step null. The run continues, since nothing that is
// trained depends on it.
void MarkNotFinite(MetricSum* metric) {
  const bool is_finite =
      std::isfinite(metric->sum) && std::isfinite(metric->weight) &&
      (metric->histogram.empty() || metric->histogram.back().bin != kScoreBinNotFinite);
  if (!is_finite) *metric = {std::numeric_limits<double>::quiet_NaN(), 1, {}};
}

void AppendExamples(absl::Span<const int64_t> examples, MessageWriter* writer) {
  writer->U64(examples.size());
  for (const int64_t example : examples) writer->U64(static_cast<uint64_t>(example));
}

}  // namespace

ProgramConversation::ProgramConversation(std::string program, ProgramWelcome welcome,
                                         bool has_started_before)
    : program_(std::move(program)),
      welcome_(std::move(welcome)),
      has_started_before_(has_started_before) {}

absl::Status ProgramConversation::Wrong(absl::string_view what) const {
  const std::string message = absl::StrCat("program: ", program_, ": ", what);
  // Before it is ready nothing depends on the batches, so another start would end the same way.
  return phase_ < Phase::kIdle ? absl::FailedPreconditionError(message)
                               : absl::InternalError(message);
}

absl::Status ProgramConversation::Receive(absl::string_view bytes,
                                          absl::FunctionRef<void(uint32_t)> on_final) {
  RETURN_IF_ERROR(error_);
  input_.append(bytes.data(), bytes.size());
  size_t begin = 0;
  while (error_.ok() && input_.size() - begin >= kMessageHeadBytes) {
    MessageReader head(absl::string_view(input_).substr(begin, kMessageHeadBytes));
    const uint32_t size = head.U32();
    const uint32_t type = head.U32();
    error_ = CheckHead(type, size);
    if (!error_.ok() || input_.size() - begin - kMessageHeadBytes < size) break;
    error_ = Handle(static_cast<ProgramMessage>(type),
                    absl::string_view(input_).substr(begin + kMessageHeadBytes, size), on_final);
    begin += kMessageHeadBytes + size;
  }
  input_.erase(0, begin);
  return error_;
}

absl::Status ProgramConversation::CheckHead(uint32_t type, uint32_t bytes) const {
  const auto is = [type](ProgramMessage wanted) { return type == static_cast<uint32_t>(wanted); };
  const bool is_working = phase_ == Phase::kWorking;
  const bool is_due = (is(ProgramMessage::kHello) && phase_ == Phase::kHello) ||
                      (is(ProgramMessage::kDeclare) && phase_ == Phase::kDeclare) ||
                      (is(ProgramMessage::kReady) && phase_ == Phase::kReady) ||
                      (is(ProgramMessage::kFinal) && is_working) ||
                      (is(ProgramMessage::kDone) && is_working) ||
                      (is(ProgramMessage::kLookUp) && is_working && version_ > 2) ||
                      (is(ProgramMessage::kLookAhead) && is_working && version_ > 3) ||
                      (is(ProgramMessage::kProgress) && is_working && version_ > 4) ||
                      (is(ProgramMessage::kError) && phase_ > Phase::kHello) ||
                      (type <= static_cast<uint32_t>(ProgramMessage::kProgress) &&
                       phase_ == Phase::kEnded);  // It was under way when FINISH was sent.
  if (!is_due || type == 0) {
    return Wrong(
        phase_ == Phase::kHello
            ? "does not begin with HELLO, so it is not a compute program (see "
              "docs/compute_program.md)"
            : absl::StrCat("sent ", NameOf(type), " (type ", type, ") where it is not allowed"));
  }
  if (bytes <= MostBytes(type, version_)) return absl::OkStatus();
  return Wrong(absl::StrCat("sent ", NameOf(type), " with ", bytes, " bytes; at most ",
                            MostBytes(type, version_), " are possible"));
}

absl::Status ProgramConversation::Handle(ProgramMessage type, absl::string_view payload,
                                         absl::FunctionRef<void(uint32_t)> on_final) {
  if (type == ProgramMessage::kError) return HandleError(payload);
  if (phase_ == Phase::kEnded) return absl::OkStatus();
  switch (type) {
    case ProgramMessage::kHello:
      return HandleHello(payload);
    case ProgramMessage::kDeclare:
      return HandleDeclare(payload);
    case ProgramMessage::kReady:
      if (!payload.empty()) return Wrong("sent READY with a payload");
      phase_ = Phase::kIdle;
      return absl::OkStatus();
    case ProgramMessage::kFinal:
      return HandleFinal(payload, on_final);
    case ProgramMessage::kLookUp:
      return HandleLookUp(payload);
    case ProgramMessage::kLookAhead:
      return HandleLookAhead(payload);
    case ProgramMessage::kProgress:
      return HandleProgress(payload);
    default:
      return HandleDone(payload);
  }
}

absl::Status ProgramConversation::HandleHello(absl::string_view payload) {
  MessageReader reader(payload);
  const uint64_t magic = reader.U64();
  const uint32_t lowest = reader.U32();
  const uint32_t highest = reader.U32();
  implementation_ = reader.Text(kMaxImplementationBytes);
  if (magic != kComputeMagic || !reader.is_at_end()) {
    return Wrong(
        "sent a HELLO that is damaged, so it is not a compute program (see "
        "docs/compute_program.md)");
  }
  version_ = std::min(highest, kComputeProtocol);
  if (lowest > version_ || version_ < kOldestComputeProtocol) {
    return Wrong(absl::StrCat("has versions ", lowest, " to ", highest,
                              " of the protocol of compute programs, and this shoal has versions ",
                              kOldestComputeProtocol, " to ", kComputeProtocol,
                              "; use releases of shoal that belong together"));
  }
  phase_ = Phase::kDeclare;
  MessageWriter(ProgramMessage::kWelcome, &output_)
      .U32(version_)
      .U32(welcome_.declares_only ? 1 : 0)
      .U32(welcome_.worker)
      .U32(welcome_.num_workers)
      .U64(welcome_.seed)
      .Text(welcome_.directory)
      .Text(welcome_.run_file);
  return absl::OkStatus();
}

absl::Status ProgramConversation::HandleDeclare(absl::string_view payload) {
  absl::StatusOr<ProgramDeclaration> declaration = DecodeDeclaration(payload, version_);
  if (!declaration.ok()) return Wrong(declaration.status().message());
  declaration_ = *std::move(declaration);
  final_in_.assign(declaration_.variables.size(), 0);
  result_.metrics.resize(declaration_.metrics.size());
  phase_ = Phase::kLayout;
  return absl::OkStatus();
}

absl::Status ProgramConversation::HandleFinal(absl::string_view payload,
                                              absl::FunctionRef<void(uint32_t)> on_final) {
  MessageReader reader(payload);
  const uint64_t work = reader.U64();
  if (!reader.ok() || work != work_ || evaluates_ || reader.remaining() == 0 ||
      reader.remaining() % sizeof(uint32_t) != 0) {
    return Wrong(absl::StrCat("sent a FINAL that is damaged or for work ", work,
                              " while it computes ", evaluates_ ? "evaluation " : "work ", work_));
  }
  while (reader.remaining() > 0) {
    const uint32_t variable = reader.U32();
    if (variable >= final_in_.size()) {
      return Wrong(absl::StrCat("declares variable ", variable, " final, but it has only ",
                                final_in_.size()));
    }
    const v1::VariableSpec& spec = declaration_.variables[variable];
    if (spec.update() == v1::UPDATE_KIND_NONE) {
      return Wrong(absl::StrCat("declares the FROZEN variable ", spec.name(), " final"));
    }
    if (std::exchange(final_in_[variable], work_) == work_) {
      return Wrong(absl::StrCat("declares variable ", spec.name(), " final twice in one batch"));
    }
    has_final_ = true;
    on_final(variable);
  }
  return absl::OkStatus();
}

absl::Status ProgramConversation::HandleLookUp(absl::string_view payload) {
  MessageReader reader(payload);
  const uint64_t work = reader.U64();
  const uint32_t count = reader.U32();
  if (!reader.ok() || work != work_ || count == 0 || count > declaration_.tables.size()) {
    return Wrong(absl::StrCat("sent a LOOK_UP of ", count, " tables for work ", work,
                              " while it computes work ", work_, " and has ",
                              declaration_.tables.size(), " tables"));
  }
  // A batch whose rows cannot be read any more must have contributed nothing.
  if (has_final_) return Wrong("sent a LOOK_UP after a FINAL; all look-ups of a batch come first");
  const absl::Status read =
      ReadProgramKeys("LOOK_UP", declaration_.tables, count, &reader, &rows_end_, &look_ups_);
  if (!read.ok()) return Wrong(read.message());
  phase_ = Phase::kAsking;
  return absl::OkStatus();
}

absl::Status ProgramConversation::HandleLookAhead(absl::string_view payload) {
  MessageReader reader(payload);
  const uint64_t work = reader.U64();
  const uint64_t epoch = reader.U64();
  LookAhead ahead;
  ahead.batch = {static_cast<uint32_t>(epoch), reader.U64()};
  const uint32_t count = reader.U32();
  if (!reader.ok() || work != work_ || evaluates_ || epoch > UINT32_MAX || count == 0 ||
      count > declaration_.tables.size()) {
    return Wrong(absl::StrCat("sent a LOOK_AHEAD of ", count, " tables for a batch of epoch ",
                              epoch, " in work ", work, " while it computes ",
                              evaluates_ ? "evaluation " : "work ", work_, " and has ",
                              declaration_.tables.size(), " tables"));
  }
  uint64_t row_bytes = 0;
  const absl::Status read =
      ReadProgramKeys("LOOK_AHEAD", declaration_.tables, count, &reader, &row_bytes, &ahead.tables);
  if (!read.ok()) return Wrong(read.message());
  look_ahead_ = std::move(ahead);
  return absl::OkStatus();
}

absl::Status ProgramConversation::HandleProgress(absl::string_view payload) {
  MessageReader reader(payload);
  const uint64_t work = reader.U64();
  if (!reader.is_at_end() || work != work_) {
    return Wrong(absl::StrCat("sent a PROGRESS that is damaged or for work ", work,
                              " while it computes work ", work_));
  }
  has_progressed_ = true;
  return absl::OkStatus();
}

absl::Status ProgramConversation::HandleDone(absl::string_view payload) {
  MessageReader reader(payload);
  const uint64_t work = reader.U64();
  result_.loss_sum = reader.F64();
  for (size_t m = 0; m < result_.metrics.size(); ++m) {
    MetricSum& metric = result_.metrics[m];
    metric = MetricSum();
    if (declaration_.metrics[m].kind() == v1::METRIC_KIND_AUC) {
      TakeHistogram(&reader, &metric.histogram);
    } else {
      metric.sum = reader.F64();
      metric.weight = reader.F64();
    }
  }
  if (!reader.is_at_end() || work != work_) {
    return Wrong(absl::StrCat("sent a DONE that is damaged or for work ", work,
                              " while it computes work ", work_));
  }
  // The batch is skipped if its loss is not finite; its metrics then mean nothing.
  if (std::isfinite(result_.loss_sum)) {
    for (MetricSum& metric : result_.metrics) MarkNotFinite(&metric);
    RETURN_IF_ERROR(CheckMetrics());
  } else {
    result_.metrics.assign(result_.metrics.size(), MetricSum());
  }
  phase_ = Phase::kIdle;
  return absl::OkStatus();
}

absl::Status ProgramConversation::CheckMetrics() const {
  size_t entries = 0;
  for (size_t m = 0; m < result_.metrics.size(); ++m) {
    const MetricSum& metric = result_.metrics[m];
    const std::string& name = declaration_.metrics[m].name();
    if (std::isnan(metric.sum)) continue;
    const bool is_good = metric.weight >= 0 && (metric.weight > 0 || metric.sum == 0) &&
                         (name != "accuracy" || (metric.sum >= 0 && metric.sum <= metric.weight));
    if (!is_good) {
      return Wrong(absl::StrCat("reports metric ", name, " with sum ", metric.sum, " and weight ",
                                metric.weight,
                                "; the weight must not be negative, a weight of 0 (nothing to "
                                "measure) needs the sum 0, and accuracy must be from 0 to 1"));
    }
    entries += metric.histogram.size();
    int64_t last = -1;
    for (const ScoreCount& count : metric.histogram) {
      if (int64_t{count.bin} <= last || count.bin >= kNumScoreBins ||
          uint64_t{count.positives} + count.negatives == 0) {
        return Wrong(absl::StrCat("reports metric ", name, " with bin ", count.bin, " after bin ",
                                  last, ", ", count.positives, " positive and ", count.negatives,
                                  " negative examples; bins must rise, be below ", kNumScoreBins,
                                  " and have examples"));
      }
      last = count.bin;
    }
  }
  if (entries <= kMostScoreCounts) return absl::OkStatus();
  return Wrong(absl::StrCat("reports histograms of ", entries, " bins in a batch; at most ",
                            kMostScoreCounts,
                            " fit into a message: make batch_size or data.evaluation_block "
                            "smaller"));
}

absl::Status ProgramConversation::HandleError(absl::string_view payload) {
  MessageReader reader(payload);
  const uint32_t kind = reader.U32();
  const std::string message = reader.Text(kMaxErrorBytes);
  traceback_ = reader.Text(kMaxTracebackBytes);
  if (!reader.is_at_end() || kind < kPermanent || kind > kSurroundings) {
    return Wrong("sent an ERROR that is damaged");
  }
  error_text_ = message;
  const std::string text = absl::StrCat("program: ", message);
  if (kind == kRetryable) return absl::InternalError(text);
  return kind == kSurroundings && has_started_before_ ? absl::UnavailableError(text)
                                                      : absl::FailedPreconditionError(text);
}

void ProgramConversation::SendLayout(const ProgramLayout& layout) {
  CHECK(phase_ == Phase::kLayout);
  phase_ = Phase::kReady;
  rows_ = layout.rows;
  MessageWriter writer(ProgramMessage::kLayout, &output_);
  writer.U64(layout.parameter_bytes)
      .U64(layout.contribution_bytes)
      .U32(static_cast<uint32_t>(layout.places.size()));
  for (const ProgramLayout::Place& place : layout.places) {
    for (const uint64_t offset : place.parameters) writer.U64(offset);
    for (const uint64_t offset : place.contributions) writer.U64(offset);
  }
}

void ProgramConversation::Start(const ProgramWork& work) {
  CHECK(phase_ == Phase::kIdle);
  phase_ = Phase::kWorking;
  ++work_;
  evaluates_ = work.evaluates;
  has_final_ = false;
  rows_end_ = 0;
  MessageWriter writer(work.evaluates ? ProgramMessage::kEvaluate : ProgramMessage::kTrain,
                       &output_);
  writer.U64(work_)
      .U64(work.step)
      .U64(work.batch.epoch)
      .U64(work.batch.index)
      .U64(work.seed)
      .U32(work.parameter_set)
      .U32(work.contribution_set);
  AppendExamples(work.examples, &writer);
}

void ProgramConversation::SendRows() {
  CHECK(phase_ == Phase::kAsking);
  phase_ = Phase::kWorking;
  MessageWriter writer(ProgramMessage::kRows, &output_);
  writer.U64(work_);
  for (const ProgramKeys& look_up : look_ups_) {
    writer.U64(rows_ + look_up.offset).U64(evaluates_ ? 0 : rows_ + look_up.offset);
  }
}

void ProgramConversation::Announce(const BatchKey& batch, absl::Span<const int64_t> examples) {
  CHECK(phase_ == Phase::kIdle || phase_ == Phase::kWorking);
  MessageWriter writer(ProgramMessage::kAnnounce, &output_);
  writer.U64(batch.epoch).U64(batch.index);
  AppendExamples(examples, &writer);
}

void ProgramConversation::Finish(FinishReason reason, absl::string_view text) {
  if (std::exchange(phase_, Phase::kEnded) == Phase::kEnded) return;
  MessageWriter(ProgramMessage::kFinish, &output_).U32(static_cast<uint32_t>(reason)).Text(text);
}

}  // namespace shoal
