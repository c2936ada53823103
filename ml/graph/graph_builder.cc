#include "ml/graph/graph_builder.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "ml/graph/op_definition.h"

namespace shoal {

void GraphBuilder::SetError(absl::Status error) {
  if (status_.ok()) status_ = std::move(error);
}

// Follows TensorFlow: a name that is used already, ignoring case, gets the first free suffix "_N".
std::string GraphBuilder::UniqueName(absl::string_view name) {
  const std::string full = absl::StrCat(name_scope_, name);
  int& next = names_used_[absl::AsciiStrToLower(full)];
  if (next++ == 0) return full;
  for (int number = next - 1;; ++number) {
    std::string candidate = absl::StrCat(full, "_", number);
    int& uses = names_used_[absl::AsciiStrToLower(candidate)];
    if (uses > 0) continue;
    uses = 1;
    names_used_[absl::AsciiStrToLower(full)] = number + 1;
    return candidate;
  }
}

GraphBuilder::Scope GraphBuilder::WithNameScope(absl::string_view name) {
  std::string previous = name_scope_;
  if (name.empty()) {
    name_scope_.clear();
  } else if (absl::EndsWith(name, "/")) {
    name_scope_ = std::string(name);
  } else {
    name_scope_ = UniqueName(name) + "/";
  }
  return Scope([this, previous] { name_scope_ = previous; }, name_scope_);
}

GraphBuilder::Scope GraphBuilder::PushDevice(std::vector<DeviceEntry>* stack, DeviceEntry entry) {
  stack->push_back(std::move(entry));
  return Scope([stack] { stack->pop_back(); }, name_scope_);
}

GraphBuilder::Scope GraphBuilder::WithDevice(absl::string_view device) {
  absl::StatusOr<DeviceSpec> spec = DeviceSpec::Parse(device);
  if (!spec.ok()) SetError(spec.status());
  return PushDevice(&devices_, {spec.ok() ? *spec : DeviceSpec(), nullptr});
}

GraphBuilder::Scope GraphBuilder::WithDevice(DeviceFunction function) {
  return PushDevice(&devices_, {DeviceSpec(), std::move(function)});
}

GraphBuilder::Scope GraphBuilder::WithVariableDevice(DeviceFunction function) {
  return PushDevice(&variable_devices_, {DeviceSpec(), std::move(function)});
}

GraphBuilder::Scope GraphBuilder::WithClone(int clone_index, int num_clones) {
  const int previous = clone_index_, previous_number = num_clones_;
  clone_index_ = clone_index;
  num_clones_ = num_clones;
  return Scope(
      [this, previous, previous_number] {
        clone_index_ = previous;
        num_clones_ = previous_number;
      },
      name_scope_);
}

Output GraphBuilder::SumOverClones(Output value, absl::string_view key) {
  if (!status_.ok() || !value.valid()) return {};
  const std::string place = absl::StrCat(variable_scope_, key);
  const int call = clone_sum_calls_[absl::StrCat(clone_index_, " ", place)]++;
  CloneSum& sum = clone_sums_[absl::StrCat(place, " ", call)];
  if (sum.node == nullptr) {
    const auto no_clone = WithClone(-1);
    sum.node = AddNode("AddN", {value}, {}, "sum_over_clones");
    sum.place = place;
  } else {
    graph_->AddTerm(sum.node, value);
  }
  sum.clones.push_back(clone_index_);
  sum.num_clones = std::max(sum.num_clones, num_clones_);
  return {sum.node, 0};
}

void GraphBuilder::FinishClones() {
  if (!status_.ok() || !has_clone_sums()) return;
  for (const auto& [key, sum] : clone_sums_) {
    for (int clone = 0; clone < sum.num_clones; ++clone) {
      if (std::count(sum.clones.begin(), sum.clones.end(), clone) == 1) continue;
      return SetError(absl::InvalidArgumentError(absl::StrCat(
          "clone ", clone, " gives nothing for ", sum.place, ", which clone ", sum.clones[0],
          " sums over the clones; build all of them by the same "
          "calls, in variable scopes of the same names")));
    }
  }
  if (graph_->OrderByDependence()) return;
  SetError(absl::InvalidArgumentError(
      "the clones exchange values in different orders; build all of them by the same calls"));
}

GraphBuilder::Scope GraphBuilder::WithGradientOf(const Node* node) {
  const Node* previous = gradient_of_;
  gradient_of_ = node;
  return Scope([this, previous] { gradient_of_ = previous; }, name_scope_);
}

GraphBuilder::Scope GraphBuilder::EnterVariableScope(std::string name, std::string node_scope,
                                                     Reuse reuse) {
  std::swap(variable_scope_, name);
  std::swap(name_scope_, node_scope);
  const Reuse previous = reuse_;
  // Once variables are reused, they are reused in all scopes inside.
  if (reuse != Reuse::kInherit && reuse_ != Reuse::kReuse) reuse_ = reuse;
  return Scope(
      [this, name = std::move(name), node_scope = std::move(node_scope), previous] {
        variable_scope_ = name;
        name_scope_ = node_scope;
        reuse_ = previous;
      },
      name_scope_);
}

GraphBuilder::Scope GraphBuilder::WithVariableScope(absl::string_view name, Reuse reuse) {
  std::string node_scope = UniqueName(name) + "/";
  return EnterVariableScope(absl::StrCat(variable_scope_, name, "/"), std::move(node_scope), reuse);
}

GraphBuilder::Scope GraphBuilder::WithDefaultVariableScope(absl::string_view default_name) {
  const int uses = default_scopes_used_[absl::StrCat(variable_scope_, default_name)]++;
  return WithVariableScope(uses == 0 ? std::string(default_name)
                                     : absl::StrCat(default_name, "_", uses));
}

GraphBuilder::Scope GraphBuilder::ReenterVariableScope(Reuse reuse) {
  for (auto it = default_scopes_used_.begin(); it != default_scopes_used_.end();) {
    it = absl::StartsWith(it->first, variable_scope_) ? default_scopes_used_.erase(it)
                                                      : std::next(it);
  }
  return EnterVariableScope(variable_scope_, name_scope_, reuse);
}

void GraphBuilder::ApplyDevice(const DeviceEntry& entry, absl::string_view op, DeviceSpec* device) {
  if (!entry.function) {
    *device = entry.spec.MergedWith(*device);
    return;
  }
  absl::StatusOr<DeviceSpec> chosen = DeviceSpec::Parse(entry.function(op, device->ToString()));
  if (!chosen.ok()) return SetError(chosen.status());
  *device = *chosen;
}

DeviceSpec GraphBuilder::DeviceFor(absl::string_view op) {
  DeviceSpec device;
  if (absl::StartsWith(op, "Variable") && !variable_devices_.empty()) {
    ApplyDevice(variable_devices_.back(), op, &device);
  }
  for (auto entry = devices_.rbegin(); entry != devices_.rend(); ++entry) {
    ApplyDevice(*entry, op, &device);
  }
  return device;
}

const Node* GraphBuilder::AddNode(absl::string_view op, std::vector<Output> inputs,
                                  Attributes attributes, absl::string_view name) {
  if (!status_.ok()) return nullptr;
  auto node = std::make_unique<Node>();
  node->name = UniqueName(name.empty() ? op : name);
  node->op = std::string(op);
  const OpDefinition* definition = FindOp(op);
  const auto fail = [&](absl::string_view message) -> const Node* {
    SetError(absl::InvalidArgumentError(absl::StrCat(node->name, " (", op, "): ", message)));
    return nullptr;
  };
  if (definition == nullptr) return fail("there is no such op");
  const int num_inputs = static_cast<int>(inputs.size());
  if (num_inputs < definition->min_inputs || num_inputs > definition->max_inputs) {
    return fail(absl::StrCat("needs ", definition->min_inputs, " inputs, has ", num_inputs));
  }
  std::vector<TensorSpec> specs;
  for (const Output& input : inputs) {
    if (!input.valid()) return fail("an input is missing");
    specs.push_back(input.spec());
  }
  const absl::Status shape = definition->shape({attributes, specs}, &node->outputs);
  if (!shape.ok()) return fail(shape.message());
  node->inputs = std::move(inputs);
  node->attributes = std::move(attributes);
  node->device = DeviceFor(op);
  node->clone_index = clone_index_;
  node->gradient_of = gradient_of_;
  return status_.ok() ? graph_->Append(std::move(node)) : nullptr;
}

Output GraphBuilder::TableRows(const std::string& table, int64_t dim) {
  std::vector<TableInput>& tables = graph_->mutable_table_inputs();
  for (const TableInput& known : tables) {
    if (known.table != table) continue;
    if (known.dim == dim) return known.rows;
    SetError(absl::InvalidArgumentError(absl::StrCat("table ", table, " has rows of ", known.dim,
                                                     " and of ", dim,
                                                     " numbers; use one dim for each table")));
    return {};
  }
  if (dim <= 0) {
    SetError(absl::InvalidArgumentError(
        absl::StrCat("table ", table, ": dim must be at least 1, is ", dim)));
    return {};
  }
  const auto top = WithNameScope("");
  const auto no_clone = WithClone(-1, num_clones_);
  TableInput input;
  input.table = table;
  input.dim = dim;
  input.rows =
      Placeholder(absl::StrCat("tables/", table), DataType::kFloat32, Shape({kUnknownDim, dim}));
  if (input.rows.valid()) tables.push_back(input);
  return input.rows;
}

Output GraphBuilder::TableIndices(const std::string& table, const std::string& column) {
  for (TableInput& known : graph_->mutable_table_inputs()) {
    if (known.table != table) continue;
    for (const TableInput::Lookup& lookup : known.lookups) {
      if (lookup.column == column && lookup.clone_index == clone_index_) return lookup.indices;
    }
    TableInput::Lookup lookup;
    lookup.column = column;
    lookup.clone_index = clone_index_;
    lookup.indices = Placeholder(absl::StrCat("tables/", table, "/", column), DataType::kInt32,
                                 Shape({kUnknownDim}));
    if (lookup.indices.valid()) known.lookups.push_back(lookup);
    return lookup.indices;
  }
  SetError(absl::InvalidArgumentError(
      absl::StrCat("table ", table, ": call TableRows before TableIndices")));
  return {};
}

Output GraphBuilder::Placeholder(absl::string_view name, DataType dtype, const Shape& shape) {
  Attributes attributes{{"dtype", static_cast<int64_t>(dtype)},
                        {"shape", std::vector<int64_t>(shape.dims().begin(), shape.dims().end())}};
  return Op("Placeholder", {}, std::move(attributes), name);
}

Output GraphBuilder::GetVariable(VariableSpec spec, double l2_regularizer) {
  if (!status_.ok()) return {};
  spec.name = absl::StrCat(variable_scope_, spec.name);
  const Variable* existing = graph_->FindVariable(spec.name);
  if (existing == nullptr && reuse_ == Reuse::kReuse) {
    SetError(absl::InvalidArgumentError(
        absl::StrCat("Variable ", spec.name,
                     " does not exist, or was not created with get_variable(). Did you mean to "
                     "set reuse=None in VarScope?")));
    return {};
  }
  if (existing == nullptr) return MakeVariable(std::move(spec), l2_regularizer);
  if (reuse_ == Reuse::kCreate) {
    SetError(absl::InvalidArgumentError(
        absl::StrCat("Variable ", spec.name,
                     " already exists, disallowed. Did you mean to set reuse=True in VarScope?")));
    return {};
  }
  if (existing->spec.shape != spec.shape || existing->spec.dtype != spec.dtype) {
    SetError(absl::InvalidArgumentError(absl::StrCat(
        "Trying to share variable ", spec.name, ", but specified shape ", spec.shape.ToString(),
        " and found shape ", existing->spec.shape.ToString(), ".")));
    return {};
  }
  return Output{existing->node, 0};
}

Output GraphBuilder::GetOrCreateGlobalStep() {
  const Scope top = WithNameScope("");
  const Node* existing = graph_->FindNode("global_step");
  if (existing != nullptr) return Output{existing, 0};
  const Attributes int64_scalar{{"dtype", static_cast<int64_t>(DataType::kInt64)}};
  return Op("VariableStep", {}, int64_scalar, "global_step");
}

Output GraphBuilder::MakeVariable(VariableSpec spec, double l2_regularizer) {
  if (graph_->FindNode(spec.name) != nullptr) {
    SetError(absl::InvalidArgumentError(
        absl::StrCat("Variable ", spec.name, " has the name of another node; rename one of them")));
    return {};
  }
  auto node = std::make_unique<Node>();
  node->name = spec.name;
  ++names_used_[absl::AsciiStrToLower(spec.name)];
  node->op = "Variable";
  node->outputs = {{spec.dtype, spec.shape}};
  node->device = DeviceFor("Variable");
  if (!status_.ok()) return {};
  const bool is_frozen = spec.trainable && is_trained_ && !is_trained_(spec.name);
  if (is_frozen) spec.update = UpdateKind::kNone;
  const bool trainable = spec.trainable && !is_frozen;
  const Output variable{graph_->AppendVariable(std::move(node), std::move(spec)), 0};
  if (trainable) graph_->AddToCollection(kTrainableVariables, variable);
  if (l2_regularizer > 0 && !is_frozen) AddRegularizer(variable, l2_regularizer);
  return variable;
}

void GraphBuilder::AddRegularizer(Output variable, double l2_regularizer) {
  const Scope top = WithNameScope("");
  const Scope scope = WithNameScope(absl::StrCat(variable.name(), "/Regularizer"));
  const Output norm = Op("L2Loss", {variable});
  AddToCollection(kRegularizationLosses,
                  Op("Scale", {norm}, {{"factor", l2_regularizer}}, "l2_regularizer"));
}

Output GraphBuilder::AddUpdateOp(Output variable, Output value) {
  if (!status_.ok() || !variable.valid()) return {};
  if (variable.node->variable_index < 0 || variable.shape() != value.shape()) {
    SetError(absl::InvalidArgumentError(absl::StrCat(
        "the update of ", variable.name(), " needs a variable and a value of its shape")));
    return {};
  }
  const Output update =
      Op("Statistic", {value}, {{"variable", variable.name()}}, "AssignMovingAvg");
  AddToCollection(kUpdateOps, update);
  return update;
}

void GraphBuilder::AddToCollection(absl::string_view collection, Output output) {
  if (status_.ok() && output.valid()) graph_->AddToCollection(collection, output);
}

}  // namespace shoal
