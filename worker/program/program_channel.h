#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_CHANNEL_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_CHANNEL_H_

#include <string>

#include "absl/time/time.h"

#include "runtime/process/child.h"

namespace shoal {

// The end of a compute program.
struct ProgramEnd {
  ChildExit exit;
  bool was_killed = false;  // It had not ended by the deadline of End, which killed it.
};

// The connection to a compute program, which also tells how the program ends. Not thread-safe.
class ProgramChannel {
 public:
  virtual ~ProgramChannel() = default;

  enum class Event {
    kReceived,  // Something was appended to the input.
    kTimeout,   // The deadline has passed.
    kClosed,    // The program has closed its end of the socket.
    kEnded,     // The program has ended, and everything that it sent was received.
  };
  // Sends from the front of *output, and removes it from there, while it waits for the next event.
  // Deadlines are times of the clock that the channel was made with.
  virtual Event Wait(absl::Time deadline, std::string* output, std::string* input) = 0;

  // Waits until the program has ended, at most until the deadline; returns whether it has.
  virtual bool AwaitEnd(absl::Time deadline) = 0;

  // Ends the program: waits until the deadline for it to end by itself, then kills its process
  // group.
  virtual ProgramEnd End(absl::Time deadline) = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_CHANNEL_H_
