#include "runtime/config/defaults.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "base/log.h"
#include "ml/data/data_defaults.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/field_path.h"

namespace shoal {
namespace {

struct FieldDefault {
  const char* path;
  std::string value;
  // The default depends on the rest of the run, so SetFieldDefaults does not write it.
  bool depends = false;
};

const std::vector<FieldDefault>& Table() {
  static const auto& table = *new std::vector<FieldDefault>{
      {"batch_size", "64"},
      {"seed", "1"},
      {"compute_dtype", "float32"},
      {"optimizer.learning_rate", absl::StrCat(kDefaultLearningRate), true},
      {"data.directory", kDefaultDataDirectory, true},
      {"data.evaluation_block", "500"},
      {"deployment.num_ps_tasks", absl::StrCat(kTrainTaskCounts.num_ps_tasks), true},
      {"deployment.num_replicas", absl::StrCat(kTrainTaskCounts.num_replicas), true},
      {"deployment.num_clones", "1", true},
      {"deployment.worker_job_name", "worker"},
      {"deployment.ps_job_name", "ps"},
      {"deployment.threads", "1"},
      {"deployment.allow_soft_placement", "true"},
      {"deployment.variables", "cpu"},
      {"program.python", "python3", true},
      {"sync.sync_replicas", "true"},
      {"sync.max_staleness", "-1", true},
      {"sync.clock_bound", "-1", true},
      {"checkpoint.keep", "3"},
      {"checkpoint.export_every", "1"},
      {"checkpoint.resume", "auto"},
      {"checkpoint.save_seconds", "300"},
      {"cluster.slice_bytes", absl::StrCat(kDefaultSliceBytes), true},
      {"cluster.lease_seconds", "10"},
      {"cluster.wait_seconds", "300"},
      {"cluster.stall_seconds", "120"},
      {"cluster.grace_seconds", "10"},
      {"cluster.ps_return_seconds", "30"},
      {"cluster.max_worker_restarts", "3"},
      {"summary.scalars_every", "10"},
  };
  return table;
}

// Returns whether the field has a value; a field of a message that is absent has none.
bool IsSet(const google::protobuf::Message& root, absl::string_view path) {
  const google::protobuf::Message* message = &root;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const google::protobuf::FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(names[i]);
    CHECK(field != nullptr) << path;
    if (!message->GetReflection()->HasField(*message, field)) return false;
    if (i + 1 < names.size()) message = &message->GetReflection()->GetMessage(*message, field);
  }
  return true;
}

}  // namespace

std::string DefaultText(absl::string_view path) {
  const std::vector<FieldDefault>& table = Table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [path](const FieldDefault& f) { return path == f.path; });
  CHECK(found != table.end()) << path << " has no default";
  return found->value;
}

void SetFieldDefault(absl::string_view path, v1::RunConfig* run) {
  if (IsSet(*run, path)) return;
  const absl::Status set = SetField("default", path, DefaultText(path), run);
  CHECK(set.ok()) << set;
}

void SetFieldDefaults(v1::RunConfig* run) {
  for (const FieldDefault& field : Table()) {
    if (!field.depends) SetFieldDefault(field.path, run);
  }
}

}  // namespace shoal
