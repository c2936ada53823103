// A graph of typed nodes. It describes what is computed, but not in which order or by which
// kernels. GraphBuilder builds it, BuildGradients differentiates it and Compile compiles it. No
// node changes a variable.
//
// Not thread-safe while it is built. Afterwards it does not change, and any number of threads may
// read it.
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
  inline const std::string& name() const;  // the name of the node

  friend bool operator==(const Output& a, const Output& b) {
    return a.node == b.node && a.index == b.index;
  }
  friend bool operator!=(const Output& a, const Output& b) { return !(a == b); }
};

struct Node {
  int id = 0;  // ordered by creation; inputs of a node have smaller ids than the node
  std::string name;
  std::string op;
  Attributes attributes;
  std::vector<Output> inputs;
  std::vector<TensorSpec> outputs;  // the batch dimension may be unknown
  DeviceSpec device;                // requested device; the placer completes it
  int clone_index = -1;             // the clone for which it was built; -1: none
  int variable_index = -1;          // op "Variable": index in Graph::variables()
  // The forward node whose gradient this node computes; null for forward nodes. Fusion uses it to
  // match forward and backward nodes.
  const Node* gradient_of = nullptr;
};

inline const TensorSpec& Output::spec() const { return node->outputs[index]; }
inline const std::string& Output::name() const { return node->name; }

struct Variable {
  VariableSpec spec;
  const Node* node = nullptr;
};

// A table of embedding rows that the graph uses. A run reads the rows that its batch needs from an
// input, the compact matrix, and the gradient of that input is what the batch contributes to the
// table (docs/decisions/0047-compact-matrices-have-a-capacity.md).
struct TableInput {
  // The input with the row numbers of a column's ids, for one clone's part of the batch.
  struct Lookup {
    std::string column;
    int clone_index = -1;
    Output indices;  // a placeholder, int32 [ids]: for each id the number of its row in `rows`
  };

  std::string table;
  int64_t dim = 0;
  Output rows;  // a placeholder, float32 [rows, dim]: one row for each different id of the batch
  std::vector<Lookup> lookups;  // one for each column and clone
};

// Names of collections; they are TensorFlow's, except for the last one.
inline constexpr char kLosses[] = "losses";
inline constexpr char kRegularizationLosses[] = "regularization_losses";
inline constexpr char kUpdateOps[] = "update_ops";
inline constexpr char kSummaries[] = "summaries";
inline constexpr char kTrainableVariables[] = "trainable_variables";
inline constexpr char kCorrectCounts[] = "correct_counts";  // outputs of CorrectCount, scalars

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  // Returns the variables in the order of declaration. All lists of variables in Shoal have this
  // order.
  const std::vector<Variable>& variables() const { return variables_; }
  // Returns the tables in the order in which the graph first used them.
  const std::vector<TableInput>& table_inputs() const { return table_inputs_; }
  std::vector<TableInput>& mutable_table_inputs() { return table_inputs_; }
  // Return null if no node or variable has the name.
  const Node* FindNode(absl::string_view name) const;
  const Variable* FindVariable(absl::string_view name) const;

  void AddToCollection(absl::string_view collection, Output output);
  // Returns the collection's outputs whose node names start with `scope`, in the order in which
  // they were added; all of them if the scope is empty.
  std::vector<Output> Collection(absl::string_view collection, absl::string_view scope = "") const;

  // For GraphBuilder: appends a complete node, whose name must be new.
  const Node* Append(std::unique_ptr<Node> node);
  const Node* AppendVariable(std::unique_ptr<Node> node, VariableSpec spec);
  // Adds a term to an AddN node of this graph. The term may be created after the sum; until
  // OrderByDependence is called, the id of an input may then be larger than the id of its node.
  void AddTerm(const Node* sum, Output term);
  // Renumbers the nodes so that inputs have smaller ids than their nodes, and keeps the present
  // order as far as possible. Returns false, and changes nothing, if a node depends on itself.
  [[nodiscard]] bool OrderByDependence();

  // Returns one line per node: "name = Op(inputs) [attributes] -> outputs @device".
  std::string ToString() const;

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Variable> variables_;
  std::vector<TableInput> table_inputs_;
  absl::flat_hash_map<std::string, const Node*> by_name_;
  std::map<std::string, std::vector<Output>, std::less<>> collections_;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_GRAPH_H_
