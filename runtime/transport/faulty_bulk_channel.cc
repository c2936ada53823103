#include "runtime/transport/faulty_bulk_channel.h"

#include <vector>

namespace shoal {
namespace {

bool Take(std::atomic<int>* count) {
  int left = count->load();
  while (left > 0 && !count->compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

// A call with its own copy of the bytes, perhaps damaged. Deletes itself with its end.
class FaultyCall : public BulkCall {
 public:
  FaultyCall(BulkChannel* channel, BulkCall* original, BulkFaults* faults)
      : channel_(channel), original_(original), faults_(faults) {
    header = original->header;
    timeout = original->timeout;
    for (const PayloadRef& payload : original->payloads) {
      bytes_.append(static_cast<const char*>(payload.data), payload.bytes);
    }
    if (!bytes_.empty() && Take(&faults->corrupt_payloads)) bytes_[0] ^= 1;
    if (!bytes_.empty() && Take(&faults->truncate_payloads)) bytes_.pop_back();
    payloads = {{bytes_.data(), bytes_.size(), nullptr, nullptr}};
    faults->sent_bytes += bytes_.size();
    repeat_ = Take(&faults->repeat_requests);
  }

  void OnReply(const absl::Status& status, absl::string_view reply_header,
               PayloadReader* payload) override {
    if (repeat_) {
      repeat_ = false;
      channel_->Start(this);
      return;
    }
    PayloadReader none;
    original_->is_answered = is_answered;
    if (status.ok() && Take(&faults_->drop_replies)) {
      original_->is_answered = false;
      original_->OnReply(absl::UnavailableError("the reply is lost"), {}, &none);
    } else if (payload->remaining() > 0 && Take(&faults_->corrupt_replies)) {
      std::string damaged(payload->remaining(), '\0');
      payload->Copy(damaged.data(), damaged.size(), nullptr);
      damaged[damaged.size() / 2] ^= 4;
      PayloadReader reader;
      reader.Append(damaged.data(), damaged.size());
      original_->OnReply(status, reply_header, &reader);
    } else {
      original_->OnReply(status, reply_header, payload);
    }
    delete this;
  }

 private:
  BulkChannel* const channel_;
  BulkCall* const original_;
  BulkFaults* const faults_;
  std::string bytes_;
  bool repeat_ = false;
};

class FaultyBulkChannel : public BulkChannel {
 public:
  FaultyBulkChannel(std::unique_ptr<BulkChannel> channel, BulkFaults* faults)
      : channel_(std::move(channel)), faults_(faults) {}

  void Start(BulkCall* call) override {
    auto* faulty = new FaultyCall(channel_.get(), call, faults_);
    channel_->Start(faulty);
  }
  // Calls end by their deadlines.
  void Cancel(BulkCall* /*call*/) override {}
  bool needs_checksums() const override { return channel_->needs_checksums(); }

 private:
  const std::unique_ptr<BulkChannel> channel_;
  BulkFaults* const faults_;
};

}  // namespace

std::unique_ptr<BulkChannel> NewFaultyBulkChannel(std::unique_ptr<BulkChannel> channel,
                                                  BulkFaults* faults) {
  return std::make_unique<FaultyBulkChannel>(std::move(channel), faults);
}

}  // namespace shoal
