// Connects to the shared memory server like a stranger: with any greeting, any attached file, any
// notifications and lengths. The server drops the connection or answers, and continues to serve
// others.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/unique_fd.h"
#include "runtime/transport/bulk_test_service.h"
#include "runtime/transport/local_socket.h"
#include "runtime/transport/shared_memory_bulk_server.h"
#include "runtime/transport/shared_memory_segment.h"
#include "tests/fuzz/fuzz_target.h"

namespace shoal {
namespace {

struct Server {
  Server() : address(absl::StrCat("127.0.0.1:", getpid() % 60000 + 1)) {
    auto started = SharedMemoryBulkServer::Start(address, &service);
    CheckFuzzed(started.ok());
    server = *std::move(started);
  }

  const std::string address;
  BulkTestService service;
  std::unique_ptr<SharedMemoryBulkServer> server;
};

Server& TheServer() {
  static Server* const server = new Server;
  return *server;
}

template <typename T>
T Take(absl::string_view* input) {
  T value{};
  const size_t bytes = std::min(sizeof(T), input->size());
  std::memcpy(&value, input->data(), bytes);
  input->remove_prefix(bytes);
  return value;
}

// Rings a slot with these lengths, and waits a moment for the answer.
bool Ring(int socket, SharedMemorySegment* segment, absl::string_view* input) {
  const uint32_t slot = Take<uint8_t>(input) % (segment->shape().num_slots + 1);
  if (slot < segment->shape().num_slots) {
    auto* const message = segment->message(slot, SharedMemorySegment::Half::kRequest);
    message->header_bytes = Take<uint32_t>(input);
    message->payload_bytes = Take<uint64_t>(input);
    const size_t header = std::min<size_t>(input->size(), 16);
    std::memcpy(segment->header(slot, SharedMemorySegment::Half::kRequest), input->data(), header);
  }
  uint32_t answered = 0;
  return SendMessageNow(socket, &slot, sizeof(slot)).ok() &&
         WaitReadable(socket, absl::Milliseconds(200)) &&
         ReceiveMessage(socket, &answered, sizeof(answered), nullptr).ok();
}

// Makes a valid segment, through which invalid data are sent.
void TryRings(absl::string_view input) {
  SegmentShape shape;
  shape.num_slots = 2;
  shape.max_payload_bytes = 4096;
  UniqueFd file;
  auto segment = SharedMemorySegment::Create(shape, &file);
  auto socket = ConnectLocal(SharedMemorySocketName(TheServer().address));
  CheckFuzzed(segment.ok() && socket.ok());
  uint32_t welcome = 0;
  CheckFuzzed(SendMessage(socket->get(), &shape, sizeof(shape), file).ok() &&
              ReceiveMessage(socket->get(), &welcome, sizeof(welcome), nullptr).ok());
  while (!input.empty() && Ring(socket->get(), segment->get(), &input)) {
  }
  TheServer().service.AnswerParked();
}

void TryGreeting(absl::string_view input) {
  const int how = TakeChoice(&input, 4);
  UniqueFd file;
  if (how != 0) {
    file = UniqueFd(memfd_create("fuzzed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const uint64_t size = Take<uint32_t>(&input);
    CheckFuzzed(ftruncate(file.get(), static_cast<off_t>(size)) == 0);
    if (how > 1) fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | (how == 3 ? F_SEAL_SEAL : 0));
  }
  auto socket = ConnectLocal(SharedMemorySocketName(TheServer().address));
  CheckFuzzed(socket.ok());
  const std::string greeting(input.substr(0, 4096));
  if (!SendMessage(socket->get(), greeting.data(), greeting.size(), file).ok()) return;
  uint32_t answer = 0;
  if (WaitReadable(socket->get(), absl::Milliseconds(200))) {
    (void)ReceiveMessage(socket->get(), &answer, sizeof(answer), nullptr);
  }
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  shoal::TakeChoice(&input, 2) == 0 ? shoal::TryGreeting(input) : shoal::TryRings(input);
  return 0;
}
