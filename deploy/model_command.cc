#include "deploy/model_command.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "ml/nn/zoo_layers.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

// The size of image for which `shoal model` writes layers that depend on it: any above 32.
constexpr int64_t kImageSize = 224;
constexpr size_t kLineWidth = 90;

// Returns the known models, indented, in lines that a terminal need not wrap.
std::string NamesInLines() {
  std::string text, line;
  for (const std::string& name : KnownModels()) {
    if (line.size() + name.size() + 2 > kLineWidth)
      absl::StrAppend(&text, std::exchange(line, ""), "\n");
    absl::StrAppend(&line, "  ", name);
  }
  return absl::StrCat(text, line, "\n");
}

}  // namespace

absl::StatusOr<std::string> ModelText(absl::Span<const std::string> args) {
  const std::string known = absl::StrJoin(KnownModels(), ", ");
  if (args.empty()) return InvalidField("NAME", absl::StrCat("is missing; it is one of ", known));
  const zoo::Model* model = zoo::Find(args[0]);
  if (model == nullptr) {
    return InvalidField(args[0], absl::StrCat("is not a model's name; known are ", known,
                                              DidYouMean(args[0], KnownModels())));
  }
  zoo::ModelOptions options;
  options.classes = 10;
  if (args.size() > 1 && (!absl::SimpleAtoi(args[1], &options.classes) || options.classes < 2)) {
    return InvalidField(args[1], "is not a number of classes; give 2 or more");
  }
  if (args.size() > 2) return InvalidField(args[2], "is not expected; give a name and classes");
  const bool is_classifier = !model->is_regression && model->features == nullptr;
  return absl::StrCat("model {\n",
                      is_classifier ? "" : absl::StrCat("loss: \"", model->loss(), "\"\n"),
                      model->features == nullptr ? "" : model->features,
                      model->layers(options, kImageSize, kImageSize), "}\n",
                      model->tables == nullptr ? "" : model->tables);
}

int ModelMain(absl::Span<const std::string> args) {
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) {
    std::printf(
        "usage: shoal model NAME [CLASSES]\n\n"
        "Prints a model by name as the layers of a run file, to be changed there. CLASSES is the\n"
        "number of outputs of a classifier, 10 if not given. The names are:\n%s",
        NamesInLines().c_str());
    return kExitDone;
  }
  const absl::StatusOr<std::string> text = ModelText(args);
  if (!text.ok()) {
    std::fprintf(stderr, "shoal model: %s\n", std::string(text.status().message()).c_str());
    return ToExitCode(text.status());
  }
  std::printf("%s", text->c_str());
  return kExitDone;
}

}  // namespace shoal
