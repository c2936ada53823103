// The names a run file may use are checked without the model code; here both are compared.
#include "gtest/gtest.h"

#include "ml/nn/losses.h"
#include "ml/nn/model_builder.h"
#include "proto/v1/model_config.pb.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

TEST(KnownNamesTest, EveryKnownLossExists) {
  for (const std::string& name : KnownLosses()) EXPECT_TRUE(ParseLossKind(name).ok()) << name;
}

TEST(KnownNamesTest, EveryLossIsKnown) {
  const std::string list(ParseLossKind("no such loss").status().message());
  for (const std::string& name : KnownLosses()) {
    EXPECT_NE(list.find(name), std::string::npos) << name << " in " << list;
  }
  EXPECT_EQ(KnownLosses().size(), static_cast<size_t>(LossKind::kCosineDistance) + 1);
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
