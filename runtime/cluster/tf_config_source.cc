// Resolves tasks from TF_CONFIG, like TensorFlow's TFConfigClusterResolver. TFJob (in a dense and a
// sparse form), Volcano and Vertex write it.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/cluster/address.h"
#include "runtime/cluster/task_place.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

using Json = nlohmann::json;

constexpr char kName[] = "TF_CONFIG";

absl::Status Wrong(absl::string_view what) { return InvalidField(kName, what); }

// Reads an integer, or a text with an integer, which configurations written by shells contain.
bool ReadIndex(const Json& json, uint32_t* index) {
  if (json.is_number_unsigned()) {
    const uint64_t number = json.get<uint64_t>();
    *index = static_cast<uint32_t>(number);
    return number <= UINT32_MAX;
  }
  return json.is_string() && absl::SimpleAtoi(json.get_ref<const std::string&>(), index);
}

// The addresses of one job by index.
using Addresses = std::map<uint32_t, std::string>;

absl::Status AddAddress(absl::string_view job, uint32_t index, const Json& json,
                        Addresses* addresses) {
  const std::string field = absl::StrCat(kName, ": cluster.", job, "[", index, "]");
  if (!json.is_string()) return InvalidField(field, "is not text; write \"host:port\"");
  const std::string& address = json.get_ref<const std::string&>();
  RETURN_IF_ERROR(CheckAddress(field, address));
  if (!addresses->emplace(index, address).second) return InvalidField(field, "is given twice");
  return absl::OkStatus();
}

// Reads a list or, in the sparse form, an object {"1": "host:port"}. Returns nothing if the job is
// missing.
absl::StatusOr<Addresses> ReadJob(const Json& cluster, absl::string_view job) {
  Addresses addresses;
  const auto found = cluster.find(std::string(job));
  if (found == cluster.end() || found->is_null()) return addresses;
  if (found->is_array()) {
    for (uint32_t i = 0; i < found->size(); ++i) {
      RETURN_IF_ERROR(AddAddress(job, i, (*found)[i], &addresses));
    }
    return addresses;
  }
  if (!found->is_object()) {
    return Wrong(absl::StrCat("cluster.", job, " is neither a list nor an object of addresses"));
  }
  for (const auto& [key, value] : found->items()) {
    uint32_t index = 0;
    if (!absl::SimpleAtoi(key, &index)) {
      return Wrong(absl::StrCat("cluster.", job, ": \"", key, "\" is not an index"));
    }
    RETURN_IF_ERROR(AddAddress(job, index, value, &addresses));
  }
  return addresses;
}

struct TfConfig {
  TaskId task;
  std::string chief;
  Addresses ps;
  Addresses workers;
  bool sparse = false;  // Only some of the tasks are listed.
};

absl::StatusOr<TaskId> ReadTask(const Json& root) {
  const auto task = root.find("task");
  if (task == root.end() || !task->is_object()) {
    return Wrong("has no object \"task\" with \"type\" and \"index\"");
  }
  const auto type = task->find("type");
  if (type == task->end() || !type->is_string()) return Wrong("task.type is missing");
  absl::StatusOr<Job> job = ParseJob(type->get_ref<const std::string&>());
  if (!job.ok()) return Wrong(absl::StrCat("task.type: ", job.status().message()));
  TaskId id{*job, 0};
  const auto index = task->find("index");
  if (index == task->end()) {
    if (*job == Job::kChief || *job == Job::kEvaluator) return id;
    return Wrong("task.index is missing");
  }
  if (!ReadIndex(*index, &id.index)) {
    return Wrong(absl::StrCat("task.index: a whole number >= 0 is wanted, not ",
                              index->dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  if (*job == Job::kChief && id.index != 0) {
    return Wrong(absl::StrCat("task.index is ", id.index, "; the only chief is task 0"));
  }
  return id;
}

// Refuses unknown jobs, because a misspelt one would silently make the cluster smaller.
absl::Status CheckJobNames(const Json& cluster) {
  for (const auto& job : cluster.items()) {
    const absl::Status known = ParseJob(job.key()).status();
    if (!known.ok()) return Wrong(absl::StrCat("cluster: ", known.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<TfConfig> ReadTfConfig(absl::string_view text) {
  const Json root = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) return Wrong("is not a JSON object");
  TfConfig config;
  ASSIGN_OR_RETURN(config.task, ReadTask(root));
  auto cluster = root.find("cluster");
  // The name that TFJob's enableDynamicWorker uses.
  const bool called_sparse = cluster == root.end() && root.contains("sparseCluster");
  if (called_sparse) cluster = root.find("sparseCluster");
  if (cluster == root.end() || !cluster->is_object()) {
    return Wrong("has no object \"cluster\" with the tasks' addresses");
  }
  RETURN_IF_ERROR(CheckJobNames(*cluster));
  ASSIGN_OR_RETURN(Addresses chief, ReadJob(*cluster, "chief"));
  ASSIGN_OR_RETURN(const Addresses master, ReadJob(*cluster, "master"));
  if (chief.size() + master.size() > 1) {
    return Wrong(absl::StrCat("cluster.chief: ", chief.size() + master.size(),
                              " addresses; a run has one chief"));
  }
  if (!master.empty()) chief = master;
  if (!chief.empty()) config.chief = chief.begin()->second;
  ASSIGN_OR_RETURN(config.ps, ReadJob(*cluster, "ps"));
  // An evaluator calls nobody.
  if (config.ps.empty() && config.task.job != Job::kEvaluator) {
    return Wrong(
        "cluster names no ps, which hold the variables; add job ps, or train in one process with "
        "`shoal train --num_ps_tasks=0`");
  }
  ASSIGN_OR_RETURN(config.workers, ReadJob(*cluster, "worker"));
  const auto workers = cluster->find("worker");
  config.sparse = called_sparse || (workers != cluster->end() && workers->is_object());
  return config;
}

std::string Join(const Addresses& addresses) {
  std::string text;
  for (const auto& [index, address] : addresses) {
    absl::StrAppend(&text, text.empty() ? "" : ",", address);
  }
  return text;
}

absl::StatusOr<ResolvedTask> PlaceDense(const TfConfig& config) {
  // No index can be missing: they come from lists.
  absl::StatusOr<ClusterSpec> cluster =
      ClusterSpec::FromHostLists(Join(config.ps), Join(config.workers), config.chief);
  if (!cluster.ok()) return Wrong(cluster.status().message());
  if (config.task.job == Job::kChief && config.chief.empty()) {
    return Wrong(
        "this task is the chief, but cluster names none; add job chief, or leave this task out: "
        "worker/0 then hosts the chief");
  }
  const Addresses& own = config.task.job == Job::kPs ? config.ps : config.workers;
  const bool has_list = config.task.job == Job::kPs || config.task.job == Job::kWorker;
  if (has_list && own.count(config.task.index) == 0) {
    return Wrong(absl::StrCat("task ", config.task.ToString(), " is not in the cluster; job ",
                              JobName(config.task.job), " has ", own.size(), " tasks there"));
  }
  return PlaceInCluster(ClusterSource::kTfConfig, config.task, std::move(*cluster),
                        /*anywhere=*/true);
}

// A worker sees itself and all ps; a ps itself alone, whatever its index is.
absl::StatusOr<ResolvedTask> PlaceSparse(const ResolverInput& input, const TfConfig& config) {
  const TaskId task = config.task;
  std::string own;
  if (task.job == Job::kPs && config.ps.size() == 1) {
    own = config.ps.begin()->second;
  } else if (task.job == Job::kPs || task.job == Job::kWorker) {
    const Addresses& addresses = task.job == Job::kPs ? config.ps : config.workers;
    const auto found = addresses.find(task.index);
    if (found == addresses.end()) {
      return Wrong(absl::StrCat("task ", task.ToString(), " is not in the cluster"));
    }
    own = found->second;
  }
  if (task.job == Job::kEvaluator) {
    return PlaceByChief(ClusterSource::kTfConfig, task, config.chief, false);
  }
  std::string chief = config.chief;
  const bool hosts_chief = chief.empty() && task == TaskId{Job::kWorker, 0};
  if (hosts_chief) chief = own;
  if (chief.empty()) {
    ASSIGN_OR_RETURN(chief, ChiefAddress(input, "", 2222,
                                         "TF_CONFIG lists only some of the tasks; name worker 0, "
                                         "which hosts the chief"));
  }
  ResolvedTask resolved = PlaceByChief(ClusterSource::kTfConfig, task, chief, hosts_chief);
  if (task.job == Job::kPs || (task.job == Job::kWorker && !hosts_chief)) {
    resolved.own_address = own;
    resolved.listen_address = OnAllInterfaces(own);
  }
  return resolved;
}

}  // namespace

absl::StatusOr<ResolvedTask> ResolveFromTfConfig(const ResolverInput& input) {
  ASSIGN_OR_RETURN(const TfConfig config, ReadTfConfig(GetValue(input.environment, kName)));
  if (input.job.has_value() && *input.job != config.task.job) {
    return InvalidField("--job_name",
                        absl::StrCat("is ", JobName(*input.job), ", but TF_CONFIG has task.type ",
                                     JobName(config.task.job), "; use `shoal task`"));
  }
  if (input.task_index.has_value() && *input.task_index != config.task.index) {
    return InvalidField("--task_index",
                        absl::StrCat("is ", *input.task_index, ", but TF_CONFIG has task.index ",
                                     config.task.index));
  }
  return config.sparse ? PlaceSparse(input, config) : PlaceDense(config);
}

}  // namespace shoal
