// VGG: Simonyan and Zisserman 2014.
#include "absl/strings/str_cat.h"

#include "ml/nn/layers.h"
#include "ml/nn/pooling_layers.h"
#include "ml/nn/zoo.h"
#include "ml/nn/zoo_parts.h"

namespace shoal::zoo {

Output Vgg16(GraphBuilder& builder, Output images, const ModelOptions& model) {
  constexpr struct {
    int64_t channels, repeats;
  } kBlocks[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  Output net = images;
  int block = 0;
  for (const auto& [channels, repeats] : kBlocks) {
    ++block;
    for (int64_t i = 1; i <= repeats; ++i) {
      net = Conv2d(builder, net,
                   ConvLayer(absl::StrCat("conv", block, "_", i), channels, 3, Activation::kRelu,
                             model.weight_decay));
    }
    net = MaxPool(builder, net, {2});
  }
  for (const char* number : {"6", "7"}) {
    net =
        Dense(builder, net,
              DenseLayer(absl::StrCat("fc", number), 4096, Activation::kRelu, model.weight_decay));
    DropoutOptions dropout;
    dropout.scope = absl::StrCat("dropout", number);
    dropout.rate = model.dropout_rate;
    dropout.is_training = model.is_training;
    net = Dropout(builder, net, dropout);
  }
  return Dense(builder, net,
               DenseLayer("fc8", model.classes, Activation::kNone, model.weight_decay));
}

}  // namespace shoal::zoo
