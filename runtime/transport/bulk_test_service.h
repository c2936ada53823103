// (testonly) A bulk service whose answers a test selects.
#ifndef SHOAL_RUNTIME_TRANSPORT_BULK_TEST_SERVICE_H_
#define SHOAL_RUNTIME_TRANSPORT_BULK_TEST_SERVICE_H_

#include <atomic>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/notification.h"
#include "runtime/transport/bulk.h"

namespace shoal {

// The request's header selects the answer: "echo" returns the payload, "fail" returns NOT_FOUND,
// "park" waits until AnswerParked. The reply's header is that of the request.
class BulkTestService : public BulkService {
 public:
  ~BulkTestService() override { AnswerParked(); }

  void Exchange(ServedCall* call) override {
    calls_.fetch_add(1);
    const std::string header(call->header());
    if (header == "park") {
      MutexLock lock(&mutex_);
      parked_.push_back(call);
      changed_.NotifyAll();
      return;
    }
    if (header == "fail") {
      call->Reply(absl::NotFoundError("no such slice"));
      return;
    }
    call->reply_header = header;
    Echo(call);
    call->Reply(absl::OkStatus());
  }

  void WaitForParked(size_t count) {
    MutexLock lock(&mutex_);
    while (parked_.size() < count) changed_.Wait(&mutex_);
  }

  void AnswerParked() {
    std::vector<ServedCall*> parked;
    {
      MutexLock lock(&mutex_);
      parked.swap(parked_);
    }
    for (ServedCall* call : parked) {
      call->reply_header = "parked";
      call->Reply(absl::OkStatus());
    }
  }

  int calls() const { return calls_.load(); }
  // Payload buffers that the transport has not released yet.
  int buffers() const { return buffers_.load(); }

 private:
  struct Buffer {
    BulkTestService* service;
    std::string bytes;
  };

  static void Release(void* owner) {
    auto* buffer = static_cast<Buffer*>(owner);
    buffer->service->buffers_.fetch_sub(1);
    delete buffer;
  }

  // Returns the payload in two pieces.
  void Echo(ServedCall* call) {
    const size_t bytes = call->payload()->remaining();
    for (const size_t part : {bytes / 2, bytes - bytes / 2}) {
      auto* buffer = new Buffer{this, std::string(part, '\0')};
      call->payload()->Copy(buffer->bytes.data(), part, nullptr);
      buffers_.fetch_add(1);
      call->reply_payloads.push_back({buffer->bytes.data(), part, &Release, buffer});
    }
  }

  std::atomic<int> calls_{0};
  std::atomic<int> buffers_{0};
  Mutex mutex_;
  CondVar changed_;
  std::vector<ServedCall*> parked_ ABSL_GUARDED_BY(mutex_);
};

// A call that a test can wait for.
class BulkTestCall : public BulkCall {
 public:
  void OnReply(const absl::Status& reply_status, absl::string_view reply_header,
               PayloadReader* payload) override {
    status = reply_status;
    received_header = std::string(reply_header);
    received.resize(payload->remaining());
    payload->Copy(received.data(), received.size(), nullptr);
    MutexLock lock(&mutex_);
    ++replies_;
    changed_.NotifyAll();
  }

  void Wait(int replies = 1) {
    MutexLock lock(&mutex_);
    while (replies_ < replies) changed_.Wait(&mutex_);
  }

  absl::Status status;
  std::string received_header;
  std::string received;

 private:
  Mutex mutex_;
  CondVar changed_;
  int replies_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_BULK_TEST_SERVICE_H_
