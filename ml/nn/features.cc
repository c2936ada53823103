#include "ml/nn/features.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "ml/nn/feature_names.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

bool HasIds(const FieldSpec& field) {
  return field.is_ragged() ||
         (field.example.dtype == DataType::kInt64 && field.example.shape.rank() == 0);
}

std::string ColumnsWithIds(const std::vector<FieldSpec>& fields) {
  std::vector<std::string> names;
  for (const FieldSpec& field : fields) {
    if (HasIds(field) && !IsTarget(field)) names.push_back(field.name);
  }
  return names.empty() ? "none; name them with data { ids { column: \"COLUMN\" } }"
                       : absl::StrJoin(names, ", ");
}

// Returns the columns that the entry stands for.
absl::StatusOr<std::vector<std::string>> ColumnsOf(const std::string& field,
                                                   const v1::FeatureConfig& entry,
                                                   const std::vector<FieldSpec>& fields) {
  std::vector<std::string> columns;
  for (const FieldSpec& of_data : fields) {
    if (!StandsFor(entry.column(), of_data.name) || IsTarget(of_data)) continue;
    if (HasIds(of_data)) {
      columns.push_back(of_data.name);
    } else if (!IsPattern(entry.column())) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".column: ", of_data.name, " is ", of_data.example.ToString(),
                       " and has no ids; columns with ids are ", ColumnsWithIds(fields)));
    }
  }
  if (!columns.empty()) return columns;
  return absl::InvalidArgumentError(
      absl::StrCat(field, ".column: \"", entry.column(),
                   "\" is not a column of the data; those with ids are ", ColumnsWithIds(fields)));
}

}  // namespace

absl::StatusOr<std::vector<Feature>> ResolveFeatures(const v1::ModelConfig& model,
                                                     const TableConfigs& tables,
                                                     const std::vector<FieldSpec>& fields) {
  std::vector<Feature> features;
  std::set<std::string> names;
  for (int i = 0; i < model.feature_size(); ++i) {
    const v1::FeatureConfig& entry = model.feature(i);
    const std::string field = absl::StrCat("model.feature[", i, "]");
    ASSIGN_OR_RETURN(const std::vector<std::string> columns, ColumnsOf(field, entry, fields));
    for (const std::string& column : columns) {
      Feature feature;
      feature.name = entry.name().empty() ? column : NameForColumn(entry.name(), column);
      feature.embedding.column = column;
      feature.embedding.table = NameForColumn(entry.table(), column);
      if (!IsTableName(feature.embedding.table)) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ".table: \"", feature.embedding.table,
                         "\" must be 1 to 128 letters, digits, '_', '-' or '.'; name another table",
                         absl::StrContains(entry.table(), '*')
                             ? absl::StrCat(", or rename the column: ids { column: \"", column,
                                            "\" name: \"NAME\" }")
                             : ""));
      }
      const v1::TableConfig* table = FindTable(tables, feature.embedding.table);
      if (table == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ".table: the run has no table \"", feature.embedding.table,
                         "\"; add table { name: \"", feature.embedding.table, "\" dim: 16 }"));
      }
      feature.embedding.dim = table->dim();
      feature.embedding.pooling =
          entry.pooling() == v1::FeatureConfig::POOLING_MEAN ? Pooling::kMean : Pooling::kSum;
      if (!names.insert(feature.name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ".name: \"", feature.name,
                         "\" is the name of another feature too; give each a name of its own"));
      }
      features.push_back(std::move(feature));
    }
  }
  return features;
}

NamedOutputs BuildFeatureVectors(GraphBuilder& builder, const std::vector<Feature>& features,
                                 const std::vector<FieldSpec>& fields,
                                 absl::Span<const Output> batch) {
  NamedOutputs vectors;
  for (const Feature& feature : features) {
    vectors.emplace_back(feature.name,
                         TableEmbedding(builder, FindField(fields, batch, feature.embedding.column),
                                        feature.embedding));
  }
  return vectors;
}

}  // namespace shoal
