// A graph of typed nodes: what is computed, before anybody decides how. Built by GraphBuilder,
// differentiated by BuildGradients, compiled by Compile; nothing in it changes a variable.
//
// Not thread-safe while it is built; constant and shareable afterwards.
#ifndef SHOAL_ML_GRAPH_GRAPH_H_
#define SHOAL_ML_GRAPH_GRAPH_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/device/attributes.h"
#include "ml/graph/variable_spec.h"
#include "ml/tensor/device_spec.h"
#include "ml/tensor/tensor_spec.h"

namespace shoal {

struct Node;

// One output of a node. Cheap to copy; borrows the node from the graph.
struct Output {
  const Node* node = nullptr;
  int index = 0;

  bool valid() const { return node != nullptr; }
  inline const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  DataType dtype() const { return spec().dtype; }
  inline const std::string& name() const;  // the node's

  friend bool operator==(const Output& a, const Output& b) {
    return a.node == b.node && a.index == b.index;
  }
  friend bool operator!=(const Output& a, const Output& b) { return !(a == b); }
};

struct Node {
  int id = 0;  // the order of creation, which is an order of dependence
  std::string name;
  std::string op;
  Attributes attributes;
  std::vector<Output> inputs;
  std::vector<TensorSpec> outputs;  // the batch dimension may be unknown
  DeviceSpec device;                // requested device; the placer completes it
  int clone_index = -1;             // the clone it was built for; -1: none
  int variable_index = -1;          // op "Variable": index in Graph::variables()
  // The forward node whose gradient this node computes; fusion finds forward and backward clusters
  // by it. Null for forward nodes.
  const Node* gradient_of = nullptr;
};

inline const TensorSpec& Output::spec() const { return node->outputs[index]; }
inline const std::string& Output::name() const { return node->name; }

struct Variable {
  VariableSpec spec;
  const Node* node = nullptr;
};

// Names of collections, TensorFlow's.
inline constexpr char kLosses[] = "losses";
inline constexpr char kRegularizationLosses[] = "regularization_losses";
inline constexpr char kUpdateOps[] = "update_ops";
inline constexpr char kSummaries[] = "summaries";
inline constexpr char kTrainableVariables[] = "trainable_variables";
inline constexpr char kCorrectCounts[] = "correct_counts";  // ours: scalars of CorrectCount

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  // In the order of declaration, which is the order of variables everywhere.
  const std::vector<Variable>& variables() const { return variables_; }
  // Null if there is none of that name.
  const Node* FindNode(absl::string_view name) const;
  const Variable* FindVariable(absl::string_view name) const;

  void AddToCollection(absl::string_view collection, Output output);
  // The entries whose node name starts with the scope, in order; all of them for an empty scope.
  std::vector<Output> Collection(absl::string_view collection, absl::string_view scope = "") const;

  // For GraphBuilder: takes a complete node, whose name must be new.
  const Node* Append(std::unique_ptr<Node> node);
  const Node* AppendVariable(std::unique_ptr<Node> node, VariableSpec spec);
  // One more term for an AddN of this graph, which may be younger than the sum: until
  // OrderByDependence, ids are then no order of dependence.
  void AddTerm(const Node* sum, Output term);
  // Makes ids an order of dependence again, as near as can be to the present one. False, and
  // nothing is changed, if a node depends on itself.
  [[nodiscard]] bool OrderByDependence();

  // One line per node: "name = Op(inputs) [attributes] -> outputs @device".
  std::string ToString() const;

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Variable> variables_;
  absl::flat_hash_map<std::string, const Node*> by_name_;
  std::map<std::string, std::vector<Output>, std::less<>> collections_;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_GRAPH_H_
