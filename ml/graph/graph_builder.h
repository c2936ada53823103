// Builds a graph. As in TensorFlow 1, the open scopes determine the names, devices, clones and
// variables of new nodes.
//
//   GraphBuilder builder(&graph);
//   auto device = builder.WithDevice("/cpu:0");
//   auto scope = builder.WithVariableScope("conv1");
//   Output weights = builder.GetVariable({.name = "weights", ...});
//
// status() keeps the first error. After it the builder adds nothing and returns outputs that are
// not valid, so callers need to check status() only once, at the end. Not thread-safe. The graph
// must outlive the builder.
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

// Returns the device of a node of type `op`, for which the scopes so far give `device` (canonical,
// may be empty).
using DeviceFunction = std::function<std::string(absl::string_view op, const std::string& device)>;

// Decides what GetVariable does in a variable scope. kCreate: the variable must be new. kReuse: it
// must exist. kAuto: it is made if it does not exist. kInherit: the mode of the enclosing scope
// (kCreate at the top).
enum class Reuse { kInherit, kCreate, kReuse, kAuto };

class GraphBuilder {
 public:
  // An open scope, which its destructor closes. Scopes must be closed in the reverse order.
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
  // Sets status(), unless it has an error already.
  void SetError(absl::Status error);

  // Opens a name scope. A name that was used before becomes "name_1", "name_2" and so on. A name
  // that ends in "/" opens that scope again. "" opens the top, outside all scopes.
  [[nodiscard]] Scope WithNameScope(absl::string_view name);
  // Opens a device scope. Its device is merged with those of the enclosing scopes, whose fields it
  // overrides.
  [[nodiscard]] Scope WithDevice(absl::string_view device);
  [[nodiscard]] Scope WithDevice(DeviceFunction function);
  // Makes `function` the innermost device scope of every variable that is made while this is open.
  [[nodiscard]] Scope WithVariableDevice(DeviceFunction function);
  // Assigns the nodes that are added while this is open to one of `num_clones` clones.
  [[nodiscard]] Scope WithClone(int clone_index, int num_clones = 1);
  // Marks the nodes that are added while this is open as the gradient of `node`
  // (Node::gradient_of).
  [[nodiscard]] Scope WithGradientOf(const Node* node);
  // Opens "outer/name" for variables and a name scope of that name.
  [[nodiscard]] Scope WithVariableScope(absl::string_view name, Reuse reuse = Reuse::kInherit);
  // Opens a layer's scope with the first of the names default_name, default_name_1, ... that was
  // not used in this variable scope.
  [[nodiscard]] Scope WithDefaultVariableScope(absl::string_view default_name);
  // Opens the current variable scope again and starts its default names again, so that a model can
  // be built a second time with the same variables.
  [[nodiscard]] Scope ReenterVariableScope(Reuse reuse);

  // Adds a node and returns it; null after an error. Its name is `op` if `name` is empty.
  const Node* AddNode(absl::string_view op, std::vector<Output> inputs, Attributes attributes = {},
                      absl::string_view name = "");
  // Adds a node and returns its first output.
  Output Op(absl::string_view op, std::vector<Output> inputs, Attributes attributes = {},
            absl::string_view name = "") {
    return Output{AddNode(op, std::move(inputs), std::move(attributes), name), 0};
  }

  // Adds an input that is fed at each run. The first dimension may be kUnknownDim.
  Output Placeholder(absl::string_view name, DataType dtype, const Shape& shape);

  // Makes or finds the input with the rows of a table of embedding rows, float32 [rows, dim]. It is
  // the same for all clones. InvalidArgument if the graph already uses the table with another dim.
  Output TableRows(const std::string& table, int64_t dim);
  // Makes or finds this clone's input with the row numbers, in that matrix, of the ids of a column:
  // int32, one number for each id. TableRows comes first.
  Output TableIndices(const std::string& table, const std::string& column);

  // Freezes the parameters for which `is_trained` returns false: they get no gradient, no update
  // and no regularizer. Call it before the first variable is made.
  void TrainOnly(std::function<bool(const std::string& name)> is_trained) {
    is_trained_ = std::move(is_trained);
  }

  // Makes or finds the variable spec.name in the variable scope, depending on the scope's Reuse. If
  // l2_regularizer > 0 and the variable is new, adds l2_regularizer * sum(w^2) / 2 to
  // kRegularizationLosses.
  Output GetVariable(VariableSpec spec, double l2_regularizer = 0);

  // Makes or finds the node "global_step", on the device of a variable. It represents the number of
  // applied updates, which the owner of the variables counts. It only has a name and a device; no
  // op may use its value.
  Output GetOrCreateGlobalStep();

  // Adds `value` to kUpdateOps. The variable's owner updates the variable with it (see UpdateKind).
  Output AddUpdateOp(Output variable, Output value);

  // Returns the sum of one value from every clone. The n-th calls of all clones with the same
  // variable scope and `key` form one sum. The sum belongs to no clone, so that clones without
  // examples are left out; it is on the device of the first one. When all clones are built, and
  // before the graph is differentiated or compiled, call FinishClones. It sets an error if a clone
  // contributes nothing to a sum, or if the clones exchange values in different orders.
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
    std::vector<int> clones;  // the clones that have added a term
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
  std::vector<DeviceEntry> variable_devices_;  // only the last one is used
  int clone_index_ = -1;
  int num_clones_ = 1;
  std::map<std::string, CloneSum> clone_sums_;  // keyed by scope, key and number of the call
  std::map<std::string, int> clone_sum_calls_;  // keyed by clone, scope and key
  const Node* gradient_of_ = nullptr;
  std::function<bool(const std::string& name)> is_trained_;  // empty: all parameters are
  std::map<std::string, int> names_used_;  // names in lower case, with the next number to try
  std::map<std::string, int> default_scopes_used_;  // full variable scope of a default name
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_GRAPH_BUILDER_H_
