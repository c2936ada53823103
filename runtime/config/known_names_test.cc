// The models that a run file may name are checked without the code that builds them; here both are
// compared.
#include "gtest/gtest.h"

#include "ml/nn/loss_names.h"
#include "ml/nn/model_builder.h"
#include "proto/v1/model_config.pb.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

TEST(KnownNamesTest, EveryLossHasAName) {
  ASSERT_EQ(KnownLosses().size(), static_cast<size_t>(LossKind::kCosineDistance) + 1);
  for (size_t kind = 0; kind < KnownLosses().size(); ++kind) {
    const std::string name(LossName(static_cast<LossKind>(kind)));
    EXPECT_EQ(ParseLossKind(name).value(), static_cast<LossKind>(kind)) << name;
    EXPECT_EQ(KnownLosses()[kind], name);
  }
}

TEST(KnownNamesTest, TheHelpHasThemAll) {
  const std::string help = FlagHelp(kScopeTrain);
  for (const auto& names : {KnownLosses(), KnownModels(), KnownOptimizers()}) {
    for (const std::string& name : names) {
      EXPECT_NE(help.find(name), std::string::npos) << name;
    }
  }
}

TEST(KnownNamesTest, TheModelsAreTheSame) {
  v1::ModelConfig config;
  config.set_name("no such model");
  const std::string list(MakeModel(config, {}, 10).status().message());
  std::string names;
  for (const std::string& name : KnownModels()) names += (names.empty() ? "" : ", ") + name;
  EXPECT_NE(list.find("known are " + names + ";"), std::string::npos) << list;
}

}  // namespace
}  // namespace shoal
