#include "ml/graph/graph.h"

#include <functional>
#include <queue>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/log.h"

namespace shoal {

const Node* Graph::FindNode(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

const Variable* Graph::FindVariable(absl::string_view name) const {
  const Node* node = FindNode(name);
  if (node == nullptr || node->variable_index < 0) return nullptr;
  return &variables_[node->variable_index];
}

void Graph::AddToCollection(absl::string_view collection, Output output) {
  collections_[std::string(collection)].push_back(output);
}

std::vector<Output> Graph::Collection(absl::string_view collection, absl::string_view scope) const {
  std::vector<Output> entries;
  const auto it = collections_.find(collection);
  if (it == collections_.end()) return entries;
  for (const Output& output : it->second) {
    if (absl::StartsWith(output.name(), scope)) entries.push_back(output);
  }
  return entries;
}

const Node* Graph::Append(std::unique_ptr<Node> node) {
  node->id = static_cast<int>(nodes_.size());
  by_name_.emplace(node->name, node.get());
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

const Node* Graph::AppendVariable(std::unique_ptr<Node> node, VariableSpec spec) {
  node->variable_index = static_cast<int>(variables_.size());
  const Node* appended = Append(std::move(node));
  variables_.push_back({std::move(spec), appended});
  return appended;
}

void Graph::AddTerm(const Node* sum, Output term) {
  Node& node = *nodes_[sum->id];
  CHECK(&node == sum && node.op == "AddN") << sum->name << " is not a sum of this graph";
  node.inputs.push_back(term);
}

bool Graph::OrderByDependence() {
  std::vector<int> missing(nodes_.size(), 0);
  std::vector<std::vector<int>> users(nodes_.size());
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (const auto& node : nodes_) {
    missing[node->id] = static_cast<int>(node->inputs.size());
    for (const Output& input : node->inputs) users[input.node->id].push_back(node->id);
    if (node->inputs.empty()) ready.push(node->id);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int id = ready.top();
    ready.pop();
    for (int user : users[id]) {
      if (--missing[user] == 0) ready.push(user);
    }
    order.push_back(id);
  }
  if (order.size() != nodes_.size()) return false;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int id : order) {
    nodes.push_back(std::move(nodes_[id]));
    nodes.back()->id = static_cast<int>(nodes.size()) - 1;
  }
  nodes_ = std::move(nodes);
  return true;
}

std::string Graph::ToString() const {
  std::string text;
  for (const auto& node : nodes_) {
    const auto input_name = [](std::string* out, const Output& input) {
      absl::StrAppend(out, input.name());
      if (input.index > 0) absl::StrAppend(out, ":", input.index);
    };
    const auto spec_text = [](std::string* out, const TensorSpec& spec) {
      absl::StrAppend(out, spec.ToString());
    };
    absl::StrAppend(
        &text, node->name, " = ", node->op, "(", absl::StrJoin(node->inputs, ", ", input_name),
        ") [", node->attributes.ToString(), "] -> ", absl::StrJoin(node->outputs, ", ", spec_text),
        " @", node->device.ToString(), "\n");
  }
  return text;
}

}  // namespace shoal
