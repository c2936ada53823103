// The messages between a worker and its compute program, as docs/compute_program.md defines them.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_MESSAGES_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

// The versions of the protocol that this worker speaks. Version 2 gives metrics a kind, version 3
// has tables, version 4 LOOK_AHEAD, version 5 PROGRESS.
inline constexpr uint32_t kOldestComputeProtocol = 1;
inline constexpr uint32_t kComputeProtocol = 5;
inline constexpr uint64_t kComputeMagic = 0x314d4752504c4853;  // "SHLPRGM1"

// A message begins with the size of its payload and its type.
inline constexpr size_t kMessageHeadBytes = 8;

enum class ProgramMessage : uint32_t {
  // Sent by the program.
  kHello = 1,
  kDeclare = 2,
  kReady = 3,
  kFinal = 4,
  kDone = 5,
  kError = 6,
  kLookUp = 7,
  kLookAhead = 8,
  kProgress = 9,
  // Sent by the worker.
  kWelcome = 17,
  kLayout = 18,
  kTrain = 19,
  kEvaluate = 20,
  kAnnounce = 21,
  kFinish = 22,
  kRows = 23,
};

// The reasons in FINISH.
enum class FinishReason : uint32_t {
  kOver = 0,
  kStopped = 1,
  kFailed = 2,
  kDeclared = 3,
  kRefused = 4
};

// Appends a message to a buffer: the head when it is constructed, the size when it is destroyed.
class MessageWriter {
 public:
  MessageWriter(ProgramMessage type, std::string* out);
  ~MessageWriter();
  MessageWriter(const MessageWriter&) = delete;
  MessageWriter& operator=(const MessageWriter&) = delete;

  MessageWriter& U32(uint32_t value);
  MessageWriter& U64(uint64_t value);
  MessageWriter& F64(double value);
  MessageWriter& Text(absl::string_view text);

 private:
  std::string* const out_;
  const size_t begin_;
};

// Reads the fields of a payload in order. Once a field is missing or too long, ok() is false and
// all fields are 0 or empty. The payload must outlive the reader.
class MessageReader {
 public:
  explicit MessageReader(absl::string_view payload) : rest_(payload) {}

  uint32_t U32();
  uint64_t U64();
  double F64();
  std::string Text(size_t most_bytes);

  bool ok() const { return ok_; }
  bool is_at_end() const { return ok_ && rest_.empty(); }
  size_t remaining() const { return rest_.size(); }

 private:
  template <typename Unsigned>
  Unsigned Take();

  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_MESSAGES_H_
