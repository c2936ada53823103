// Builds a graph: names, devices, clones and variables come from the scopes that are open, as in
// TensorFlow 1.
//
//   GraphBuilder builder(&graph);
//   auto device = builder.WithDevice("/cpu:0");
//   auto scope = builder.WithVariableScope("conv1");
//   Output weights = builder.GetVariable({.name = "weights", ...});
//
// The first mistake is kept in status(); from then on nodes are not valid and nothing is added, so
// that layers need no error handling of their own. Not thread-safe. The graph must outlive it.
#ifndef SHOAL_ML_GRAPH_GRAPH_BUILDER_H_
#define SHOAL_ML_GRAPH_GRAPH_BUILDER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/graph/graph.h"

namespace shoal {

// The device of a node of type `op` that has `device` so far (canonical, may be empty).
using DeviceFunction = std::function<std::string(absl::string_view op, const std::string& device)>;

// kInherit: the mode of the scope around it (kCreate at the top). kCreate: variables must be new.
// kReuse: they must exist. kAuto: either is fine.
enum class Reuse { kInherit, kCreate, kReuse, kAuto };

class GraphBuilder {
 public:
  // Restores what was before when it goes out of scope; scopes must nest.
  class Scope {
   public:
    Scope(Scope&& other) noexcept : restore_(std::move(other.restore_)), name_(other.name_) {
      other.restore_ = nullptr;
    }
    ~Scope() {
      if (restore_) restore_();
    }
    // Returns the prefix of a name scope: "clone_0/", or "" at the top.
    const std::string& name() const { return name_; }

   private:
    friend class GraphBuilder;
    Scope(std::function<void()> restore, std::string name)
        : restore_(std::move(restore)), name_(std::move(name)) {}
    std::function<void()> restore_;
    std::string name_;
  };

  explicit GraphBuilder(Graph* graph) : graph_(graph) {}
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  Graph& graph() { return *graph_; }
  const absl::Status& status() const { return status_; }
  // Keeps the first error.
  void SetError(absl::Status error);

  // "scope" becomes "scope_1", ... if it was used before; a name that ends in "/" is entered again
  // as it is; "" leaves all scopes.
  [[nodiscard]] Scope WithNameScope(absl::string_view name);
  // Merged with the scopes around it, this one wins.
  [[nodiscard]] Scope WithDevice(absl::string_view device);
  [[nodiscard]] Scope WithDevice(DeviceFunction function);
  // The innermost device scope of every variable made inside.
  [[nodiscard]] Scope WithVariableDevice(DeviceFunction function);
  // Nodes inside belong to this clone, of so many that are built one after the other.
  [[nodiscard]] Scope WithClone(int clone_index, int num_clones = 1);
  // Nodes inside are the gradient of `node`.
  [[nodiscard]] Scope WithGradientOf(const Node* node);
  // Opens "outer/name" for variables and a name scope of that name.
  [[nodiscard]] Scope WithVariableScope(absl::string_view name, Reuse reuse = Reuse::kInherit);
  // A layer's scope: the first name, of default_name, default_name_1, ..., not used in this
  // variable scope.
  [[nodiscard]] Scope WithDefaultVariableScope(absl::string_view default_name);
  // Opens the current variable scope again, from its first default name on: how a model is built
  // a second time on the same variables.
  [[nodiscard]] Scope ReenterVariableScope(Reuse reuse);

  // Adds a node; its name is that of the op unless one is given. Null after an error.
  const Node* AddNode(absl::string_view op, std::vector<Output> inputs, Attributes attributes = {},
                      absl::string_view name = "");
  // Its first output.
  Output Op(absl::string_view op, std::vector<Output> inputs, Attributes attributes = {},
            absl::string_view name = "") {
    return Output{AddNode(op, std::move(inputs), std::move(attributes), name), 0};
  }

  // Adds an input that is fed at each run. The first dimension may be kUnknownDim.
  Output Placeholder(absl::string_view name, DataType dtype, const Shape& shape);

  // Parameters for which `is_trained` says no are frozen: they get no gradient, no update and no
  // regularizer. Call it before the first variable is made.
  void TrainOnly(std::function<bool(const std::string& name)> is_trained) {
    is_trained_ = std::move(is_trained);
  }

  // Makes the variable spec.name inside the variable scope, or finds it, as Reuse says.
  // l2_regularizer > 0 adds l2_regularizer * sum(w^2) / 2 to kRegularizationLosses when it is made.
  Output GetVariable(VariableSpec spec, double l2_regularizer = 0);

  // The node "global_step", made on the device of a variable or found: the count of applied
  // updates, which the variables' owner keeps. It stands for a place and is not computed with.
  Output GetOrCreateGlobalStep();

  // Adds `value`, which the variable's owner will fold into it, to kUpdateOps.
  Output AddUpdateOp(Output variable, Output value);

  // The sum of the values that every clone gives for `key`, in its variable scope: the n-th call of
  // one clone belongs to the n-th of the others. Belongs to no clone, so that clones without
  // examples are left out, and is on the first one's device. All clones must be built before the
  // graph is differentiated or compiled, and then FinishClones called, which refuses a sum that
  // a clone gave no value for.
  Output SumOverClones(Output value, absl::string_view key);
  void FinishClones();
  bool has_clone_sums() const { return !clone_sums_.empty(); }

  void AddToCollection(absl::string_view collection, Output output);

  // Returns the device that the open device scopes give a node of this type.
  DeviceSpec DeviceFor(absl::string_view op);
  const std::string& variable_scope() const { return variable_scope_; }
  int clone_index() const { return clone_index_; }
  int num_clones() const { return num_clones_; }

 private:
  struct DeviceEntry {
    DeviceSpec spec;
    DeviceFunction function;  // used instead of the spec where it is set
  };

  struct CloneSum {
    const Node* node = nullptr;
    std::string place;        // variable scope and key
    std::vector<int> clones;  // that gave a term
    int num_clones = 1;
  };

  std::string UniqueName(absl::string_view name);
  Scope PushDevice(std::vector<DeviceEntry>* stack, DeviceEntry entry);
  Scope EnterVariableScope(std::string name, std::string node_scope, Reuse reuse);
  void ApplyDevice(const DeviceEntry& entry, absl::string_view op, DeviceSpec* device);
  Output MakeVariable(VariableSpec spec, double l2_regularizer);
  void AddRegularizer(Output variable, double l2_regularizer);

  Graph* graph_;
  absl::Status status_;
  std::string name_scope_;      // "" or ends in "/"
  std::string variable_scope_;  // the same
  Reuse reuse_ = Reuse::kCreate;
  std::vector<DeviceEntry> devices_;           // outermost first
  std::vector<DeviceEntry> variable_devices_;  // the last one counts
  int clone_index_ = -1;
  int num_clones_ = 1;
  std::map<std::string, CloneSum> clone_sums_;  // keyed by scope, key and number of the call
  std::map<std::string, int> clone_sum_calls_;  // keyed by clone, scope and key
  const Node* gradient_of_ = nullptr;
  std::function<bool(const std::string& name)> is_trained_;  // empty: all parameters are
  std::map<std::string, int> names_used_;           // in lower case, with the next number to try
  std::map<std::string, int> default_scopes_used_;  // full variable scope of a default name
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_GRAPH_BUILDER_H_
