#include "tests/chaos/proxy_link.h"

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "proto/v1/parameter_service.pb.h"

namespace shoal {
namespace {

grpc::ChannelArguments ArgumentsOfProxy() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return arguments;
}

// At most `limit` bytes from the front.
std::string Front(const grpc::ByteBuffer& buffer, size_t limit) {
  std::vector<grpc::Slice> slices;
  std::string front;
  if (!buffer.Dump(&slices).ok()) return front;
  for (const grpc::Slice& slice : slices) {
    front.append(reinterpret_cast<const char*>(slice.begin()),
                 std::min(slice.size(), limit - front.size()));
    if (front.size() >= limit) break;
  }
  return front;
}

// Returns the sender, such as "worker/1", from the call's identity. This is field 1 of every
// request, and of the header of a bulk request, which follows the header's length and checksum.
std::string SenderOf(const std::string& method, const grpc::ByteBuffer& request) {
  std::string bytes = Front(request, size_t{128} << 10);
  if (absl::EndsWith(method, "/Exchange")) {
    if (bytes.size() < 8) return "";
    uint32_t length = 0;
    for (int i = 3; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
    bytes = bytes.substr(8, length);
  }
  v1::GetAppliedRequest any;  // Has the identity where all have it.
  if (!any.ParseFromString(bytes)) return "";
  const v1::Member& member = any.identity().member();
  const char* const job = member.job() == v1::JOB_PS       ? "ps"
                          : member.job() == v1::JOB_WORKER ? "worker"
                          : member.job() == v1::JOB_CHIEF  ? "chief"
                                                           : "";
  return absl::StrCat(job, "/", member.index());
}

bool IsOfTransport(absl::string_view key) {
  return absl::StartsWith(key, ":") || absl::StartsWith(key, "grpc-") || key == "user-agent" ||
         key == "content-type" || key == "te";
}

}  // namespace

// Deletes itself when gRPC is done with it and no operation that it started is under way.
class ProxiedCall : public grpc::ServerGenericBidiReactor {
 public:
  ProxiedCall(ProxyLink* link, grpc::GenericCallbackServerContext* context)
      : link_(link), context_(context) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      FinishOnce(grpc::Status(grpc::StatusCode::CANCELLED, "no request came"));
      return;
    }
    TakeMetadata();
    rule_ = link_->rules()->Decide(link_->name(), method_, SenderOf(method_, request_),
                                   request_.Length());
    decided_.store(true);
    switch (rule_.kind) {
      case FaultKind::kError:
        FinishOnce(Disturbed());
        return;
      case FaultKind::kDrop:
        return;
      case FaultKind::kDelay:
        ForwardLater();
        return;
      case FaultKind::kHold:
        HoldOrForward();
        return;
      default:
        Forward();
    }
  }

  void OnCancel() override {
    if (decided_.load() && rule_.kind == FaultKind::kHold &&
        link_->rules()->StopHolding(rule_.name, this)) {
      Ended();
    }
    client_context_.TryCancel();
    FinishOnce(grpc::Status::CANCELLED);
  }

  void OnDone() override { Ended(); }

  // Called by the rules: the call was held until now.
  void Release() {
    Forward();
    Ended();
  }

 private:
  grpc::Status Disturbed() const {
    return grpc::Status(static_cast<grpc::StatusCode>(rule_.code),
                        absl::StrCat("the proxy answers for rule ", rule_.name));
  }

  // One more thing is under way, which ends with Ended().
  void Begun() {
    MutexLock lock(&mutex_);
    ++under_way_;
  }

  void Ended() {
    bool last;
    {
      MutexLock lock(&mutex_);
      last = --under_way_ == 0;
    }
    if (last) delete this;
  }

  void FinishOnce(const grpc::Status& status) {
    if (MayFinish()) Finish(status);
  }

  bool MayFinish() {
    MutexLock lock(&mutex_);
    return !std::exchange(finished_, true);
  }

  void HoldOrForward() {
    Begun();
    if (!link_->rules()->Hold(rule_.name, this)) Release();
  }

  void ForwardLater() {
    Begun();
    alarm_.Set(std::chrono::system_clock::now() + std::chrono::milliseconds(rule_.milliseconds),
               [this](bool elapsed) {
                 if (elapsed) Forward();
                 Ended();
               });
  }

  // The context of a call that has ended is gone: what is forwarded later must not need it.
  void TakeMetadata() {
    method_ = context_->method();
    client_context_.set_deadline(context_->deadline());
    for (const auto& [key, value] : context_->client_metadata()) {
      const absl::string_view name(key.data(), key.size());
      if (IsOfTransport(name)) continue;
      client_context_.AddMetadata(std::string(name), std::string(value.data(), value.size()));
    }
  }

  void Forward() {
    Begun();
    link_->stub()->UnaryCall(&client_context_, method_, grpc::StubOptions(), &request_, &reply_,
                             [this](const grpc::Status& status) { Answer(status); });
  }

  void Answer(const grpc::Status& status) {
    // A lost call or answer stays lost until the caller gives up.
    if (rule_.kind != FaultKind::kLose && MayFinish()) {
      if (rule_.kind == FaultKind::kReplace) {
        Finish(Disturbed());
      } else {
        CopyMetadata();
        if (status.ok()) {
          StartWriteAndFinish(&reply_, grpc::WriteOptions(), status);
        } else {
          Finish(status);
        }
      }
    }
    Ended();
  }

  void CopyMetadata() {
    for (const auto& [key, value] : client_context_.GetServerInitialMetadata()) {
      const absl::string_view name(key.data(), key.size());
      if (IsOfTransport(name)) continue;
      context_->AddInitialMetadata(std::string(name), std::string(value.data(), value.size()));
    }
    for (const auto& [key, value] : client_context_.GetServerTrailingMetadata()) {
      const absl::string_view name(key.data(), key.size());
      if (IsOfTransport(name)) continue;
      context_->AddTrailingMetadata(std::string(name), std::string(value.data(), value.size()));
    }
  }

  ProxyLink* const link_;
  grpc::GenericCallbackServerContext* const context_;  // Not after Finish.
  std::string method_;
  grpc::ClientContext client_context_;
  grpc::Alarm alarm_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  FaultRule rule_;
  std::atomic<bool> decided_{false};  // `rule_` may be read.

  Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 1;  // The call itself is one.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

namespace {

class LinkService : public grpc::CallbackGenericService {
 public:
  explicit LinkService(ProxyLink* link) : link_(link) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new ProxiedCall(link_, context);
  }

 private:
  ProxyLink* const link_;
};

}  // namespace

absl::Status SharedRules::Add(const FaultRule& rule) {
  MutexLock lock(&mutex_);
  return rules_.Add(rule);
}

absl::Status SharedRules::Remove(const std::string& name) {
  std::vector<ProxiedCall*> released;
  {
    MutexLock lock(&mutex_);
    const absl::Status removed = rules_.Remove(name);
    if (!removed.ok()) return removed;
    released.swap(held_[name]);
    held_.erase(name);
  }
  for (ProxiedCall* const call : released) call->Release();
  return absl::OkStatus();
}

void SharedRules::Clear() {
  std::map<std::string, std::vector<ProxiedCall*>> released;
  {
    MutexLock lock(&mutex_);
    rules_.Clear();
    released.swap(held_);
  }
  for (const auto& [rule, calls] : released) {
    for (ProxiedCall* const call : calls) call->Release();
  }
}

std::string SharedRules::Counts() const {
  MutexLock lock(&mutex_);
  return rules_.Counts();
}

FaultRule SharedRules::Decide(absl::string_view link, absl::string_view method,
                              absl::string_view from, uint64_t bytes) {
  MutexLock lock(&mutex_);
  return rules_.Decide(link, method, from, bytes);
}

bool SharedRules::Hold(const std::string& rule, ProxiedCall* call) {
  MutexLock lock(&mutex_);
  if (!rules_.Has(rule)) return false;
  held_[rule].push_back(call);
  return true;
}

bool SharedRules::StopHolding(const std::string& rule, ProxiedCall* call) {
  MutexLock lock(&mutex_);
  std::vector<ProxiedCall*>& calls = held_[rule];
  const auto found = std::find(calls.begin(), calls.end(), call);
  if (found == calls.end()) return false;
  calls.erase(found);
  return true;
}

ProxyLink::ProxyLink(std::string name, std::string listen, const std::string& target,
                     SharedRules* rules)
    : name_(std::move(name)),
      listen_(std::move(listen)),
      rules_(rules),
      stub_(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                      ArgumentsOfProxy())) {}

absl::Status ProxyLink::Up() {
  if (server_ != nullptr) return absl::OkStatus();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen_, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  // Tasks keep their connections alive with pings; the proxy never minds how many.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  service_ = std::make_unique<LinkService>(this);
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("the proxy cannot listen at ", listen_));
  }
  return absl::OkStatus();
}

void ProxyLink::Down() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
  service_.reset();
}

}  // namespace shoal
