#include "runtime/rpc/control_client.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

#include "base/log.h"

namespace shoal {

std::string GetControlPath(const google::protobuf::Descriptor* request) {
  const google::protobuf::FileDescriptor* file = request->file();
  for (int i = 0; i < file->service_count(); ++i) {
    const google::protobuf::ServiceDescriptor* service = file->service(i);
    for (int k = 0; k < service->method_count(); ++k) {
      if (service->method(k)->input_type() != request) continue;
      return absl::StrCat("/", service->full_name(), "/", service->method(k)->name());
    }
  }
  LOG(FATAL) << "no service has a call with " << request->full_name();
  return "";
}

}  // namespace shoal
