#include "runtime/transport/bulk.h"

namespace shoal {

void ServedCall::DropReply() {
  for (const PayloadRef& payload : reply_payloads) {
    if (payload.release != nullptr) payload.release(payload.owner);
  }
  reply_payloads.clear();
  reply_header.clear();
}

}  // namespace shoal
