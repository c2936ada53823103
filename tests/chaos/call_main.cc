// Sends one call to a task, like a sender who should not: a request from a text proto on standard
// input, to any method of the chief or a ps. Prints the code and the message of the answer.
//
//   call ADDRESS /shoal.v1.ChiefService/Heartbeat [CERT KEY CA] < request.textproto
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"

#include "base/crc32c.h"
#include "proto/v1/bulk.pb.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/tls/certificate_role.h"
#include "runtime/tls/credentials.h"

namespace shoal {
namespace {

// Null: plaintext.
std::unique_ptr<Credentials> CredentialsOf(int argc, char** argv) {
  if (argc < 6) return nullptr;
  absl::StatusOr<std::unique_ptr<Credentials>> credentials =
      Credentials::Create({argv[3], argv[4], argv[5]}, absl::Now());
  if (credentials.ok()) return *std::move(credentials);
  std::fprintf(stderr, "call: %s\n", std::string(credentials.status().message()).c_str());
  std::exit(64);
}

std::string LittleEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

// Returns the serialized request. If the method or the text is not known, prints that and returns
// "".
std::string RequestOf(const std::string& method, const std::string& text) {
  const bool is_bulk = method == "/shoal.v1.BulkService/Exchange";
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  std::string full = method.substr(1);
  full[full.rfind('/')] = '.';
  const auto* const described = is_bulk ? nullptr : pool->FindMethodByName(full);
  const google::protobuf::Descriptor* const type = is_bulk ? v1::ExchangeRequest::descriptor()
                                                   : described != nullptr ? described->input_type()
                                                                          : nullptr;
  if (type == nullptr) {
    std::fprintf(stderr, "call: there is no method %s\n", method.c_str());
    return "";
  }
  const std::unique_ptr<google::protobuf::Message> request(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  if (!google::protobuf::TextFormat::ParseFromString(text, request.get())) return "";
  const std::string bytes = request->SerializeAsString();
  if (!is_bulk) return bytes;
  const std::string length = LittleEndian(static_cast<uint32_t>(bytes.size()));
  return length + LittleEndian(Crc32c(length + bytes)) + bytes;
}

int Call(int argc, char** argv) {
  // Descriptors of the services are linked with their messages only.
  v1::HeartbeatRequest::descriptor();
  v1::LoadSlicesRequest::descriptor();
  const std::string method = argv[2];
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  const std::string request = RequestOf(method, text);
  if (request.empty()) return 64;
  const std::unique_ptr<Credentials> credentials = CredentialsOf(argc, argv);
  grpc::GenericStub stub(
      grpc::CreateChannel(argv[1], ChannelCredentialsFor(credentials.get(), kAnyRole)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::printf("%d %s\n", static_cast<int>(status.error_code()), status.error_message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  if (argc != 3 && argc != 6) {
    std::fprintf(stderr, "usage: call ADDRESS METHOD [CERT KEY CA] < request.textproto\n");
    return 64;
  }
  return shoal::Call(argc, argv);
}
