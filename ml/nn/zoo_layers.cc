#include "ml/nn/zoo_layers.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"

namespace shoal::zoo {
namespace {

// In these texts, $0 is the number of classes and $1 the dropout rate.

// The LeNet of TensorFlow's MNIST tutorial: two 5x5 convolutions, each with 2x2 max pooling.
constexpr char kFashionCnn[] = R"(layer { name: "conv1" convolution { channels: 32 kernel: 5
      activation: ACTIVATION_KIND_RELU } }
layer { pool { kernel: 2 } }
layer { name: "conv2" convolution { channels: 64 kernel: 5 activation: ACTIVATION_KIND_RELU } }
layer { pool { kernel: 2 } }
layer { name: "fc3" dense { units: 512 activation: ACTIVATION_KIND_RELU } }
layer { name: "logits" dense { units: $0 } }
)";

// LeCun et al. 1998 for 28x28 images, all maps connected, with plain average pooling.
constexpr char kLenet5[] = R"(layer { name: "conv1" convolution { channels: 6 kernel: 5
      activation: ACTIVATION_KIND_TANH padding: 2 } }
layer { pool { kernel: 2 average: true } }
layer { name: "conv2" convolution { channels: 16 kernel: 5
      activation: ACTIVATION_KIND_TANH valid_padding: true } }
layer { pool { kernel: 2 average: true } }
layer { name: "fc3" dense { units: 120 activation: ACTIVATION_KIND_TANH } }
layer { name: "fc4" dense { units: 84 activation: ACTIVATION_KIND_TANH } }
layer { name: "logits" dense { units: $0 } }
)";

constexpr char kMlp[] = R"(layer { name: "fc1" dense { units: 512
      activation: ACTIVATION_KIND_RELU } }
layer { name: "fc2" dense { units: 128 activation: ACTIVATION_KIND_RELU } }
layer { name: "logits" dense { units: $0 } }
)";

// Each layer has one scalar bias; the last weights start at 1.
constexpr char kSeedMlp[] = R"(layer { name: "affine0" dense { units: 512
      activation: ACTIVATION_KIND_RELU scalar_bias: true weights_name: "w" biases_name: "b" }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 1 } }
layer { name: "affine1" dense { units: 128
      activation: ACTIVATION_KIND_RELU scalar_bias: true weights_name: "w" biases_name: "b" }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 1 } }
layer { name: "affine2" dense { units: 128
      activation: ACTIVATION_KIND_RELU scalar_bias: true weights_name: "w" biases_name: "b" }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 1 } }
layer { name: "affine_last" dense { units: 1 scalar_bias: true weights_name: "w" biases_name: "b" }
      weights_initializer { distribution: DISTRIBUTION_CONSTANT a: 1 } }
)";

constexpr char kSoftmaxRegression[] = R"(layer { name: "logits" dense { units: $0 } }
)";

// y = x w + b; w and b start at zero.
constexpr char kLinear[] = R"(layer { name: "linear" dense { units: 1 }
      weights_initializer { distribution: DISTRIBUTION_CONSTANT } }
)";

// TensorFlow's CIFAR-10 tutorial, with its initializers, local response norm and a weight decay of
// its own on two layers. Its images are crops of 24x24.
constexpr char kCifar10Cnn[] = R"(layer { name: "conv1" convolution { channels: 64 kernel: 5
      activation: ACTIVATION_KIND_RELU }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.05 } }
layer { pool { kernel: 3 stride: 2 same_padding: true } }
layer { local_response_norm { depth_radius: 4 alpha: 0.00011111111111111112 beta: 0.75 } }
layer { name: "conv2" convolution { channels: 64 kernel: 5 activation: ACTIVATION_KIND_RELU }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.05 }
      biases_initializer { distribution: DISTRIBUTION_CONSTANT a: 0.1 } }
layer { local_response_norm { depth_radius: 4 alpha: 0.00011111111111111112 beta: 0.75 } }
layer { pool { kernel: 3 stride: 2 same_padding: true } }
layer { name: "local3" dense { units: 384 activation: ACTIVATION_KIND_RELU }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.04 }
      biases_initializer { distribution: DISTRIBUTION_CONSTANT a: 0.1 } weight_decay: 0.004 }
layer { name: "local4" dense { units: 192 activation: ACTIVATION_KIND_RELU }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.04 }
      biases_initializer { distribution: DISTRIBUTION_CONSTANT a: 0.1 } weight_decay: 0.004 }
layer { name: "softmax_linear" dense { units: $0 }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.005208333333333333 } }
)";

// Simonyan and Zisserman 2014, configuration D.
constexpr char kVgg16[] = R"(layer { name: "conv1_1" convolution { channels: 64 kernel: 3
      activation: ACTIVATION_KIND_RELU } }
layer { name: "conv1_2" convolution { channels: 64 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { pool { kernel: 2 } }
layer { name: "conv2_1" convolution { channels: 128 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { name: "conv2_2" convolution { channels: 128 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { pool { kernel: 2 } }
layer { name: "conv3_1" convolution { channels: 256 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { name: "conv3_2" convolution { channels: 256 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { name: "conv3_3" convolution { channels: 256 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { pool { kernel: 2 } }
layer { name: "conv4_1" convolution { channels: 512 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { name: "conv4_2" convolution { channels: 512 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { name: "conv4_3" convolution { channels: 512 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { pool { kernel: 2 } }
layer { name: "conv5_1" convolution { channels: 512 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { name: "conv5_2" convolution { channels: 512 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { name: "conv5_3" convolution { channels: 512 kernel: 3 activation: ACTIVATION_KIND_RELU } }
layer { pool { kernel: 2 } }
layer { name: "fc6" dense { units: 4096 activation: ACTIVATION_KIND_RELU } }
layer { name: "dropout6" dropout { rate: $1 } }
layer { name: "fc7" dense { units: 4096 activation: ACTIVATION_KIND_RELU } }
layer { name: "dropout7" dropout { rate: $1 } }
layer { name: "fc8" dense { units: $0 } }
)";

// Keyword spotting over spectrograms [1, frames, features]: the "conv" of TensorFlow's
// speech_commands (98x40), and Sainath and Parada 2015, table 1 (32x40).
constexpr char kSpeechConv[] = R"(layer { name: "conv1" convolution { channels: 64 kernel: [20, 8]
      activation: ACTIVATION_KIND_RELU }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.01 } }
layer { name: "dropout1" dropout { rate: $1 } }
layer { pool { kernel: 2 same_padding: true } }
layer { name: "conv2" convolution { channels: 64 kernel: [10, 4]
      activation: ACTIVATION_KIND_RELU }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.01 } }
layer { name: "dropout2" dropout { rate: $1 } }
layer { name: "logits" dense { units: $0 }
      weights_initializer { distribution: DISTRIBUTION_TRUNCATED_NORMAL b: 0.01 } }
)";

constexpr char kCnnTradFpool3[] =
    R"(layer { name: "conv1" convolution { channels: 64 kernel: [20, 8]
      activation: ACTIVATION_KIND_RELU valid_padding: true } }
layer { pool { kernel: [1, 3] } }
layer { name: "conv2" convolution { channels: 64 kernel: [10, 4]
      activation: ACTIVATION_KIND_RELU valid_padding: true } }
layer { name: "linear" dense { units: 32 } }
layer { name: "dnn" dense { units: 128 activation: ACTIVATION_KIND_RELU } }
layer { name: "logits" dense { units: $0 } }
)";

template <const char* kText>
std::string Fixed(const ModelOptions& options, int64_t, int64_t) {
  return absl::Substitute(kText, options.classes, options.dropout_rate);
}

// A convolution without bias, batch norm, activation. The weights are initialized for the
// activation behind the batch norm.
struct ConvNorm {
  std::string name;
  std::string convolution;  // Fields of the convolution.
  const char* norm = "";    // Fields of the batch norm.
  const char* activation = "";
  std::string input = "";  // Empty: the layer before.
};

std::string Text(const ConvNorm& layer) {
  const bool is_active = layer.activation[0] != '\0';
  const std::string input =
      layer.input.empty() ? "" : absl::Substitute("input: \"$0\" ", layer.input);
  return absl::Substitute(
      "layer { name: \"$0\" $1convolution { $2 no_bias: true }$3 }\n"
      "layer { name: \"$0/BatchNorm\" batch_norm { $4$5 } }\n",
      layer.name, input, layer.convolution,
      is_active ? " weights_initializer { distribution: DISTRIBUTION_HE_NORMAL }" : "", layer.norm,
      is_active ? absl::StrCat(" activation: ACTIVATION_KIND_", layer.activation) : "");
}

std::string Convolution(int64_t channels, int64_t kernel, int64_t stride) {
  std::string fields = channels == 0 ? "depthwise: true" : absl::StrCat("channels: ", channels);
  absl::StrAppend(&fields, " kernel: ", kernel);
  if (stride != 1) absl::StrAppend(&fields, " stride: ", stride);
  return fields;
}

std::string Last(const char* name, int64_t units) {
  return absl::Substitute("layer { name: \"$0\" dense { units: $1 } }\n", name, units);
}

// MobileNetV2: Sandler et al. 2018, table 2, in the form of Keras (channels in multiples of 8).

// Returns the nearest multiple of 8 that is at least 8 and not more than a tenth below the number.
int64_t Channels(double channels) {
  const int64_t rounded = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

// 1x1 to `expansion` times the channels, 3x3 on each by itself, 1x1 to `channels`.
std::string Residual(const std::string& scope, int64_t in, int64_t channels, int64_t stride,
                     int64_t expansion) {
  std::string text;
  if (expansion > 1) {
    text = Text({scope + "/expand", Convolution(in * expansion, 1, 1), "", "RELU6"});
  }
  absl::StrAppend(&text, Text({scope + "/depthwise", Convolution(0, 3, stride), "", "RELU6"}),
                  Text({scope + "/project", Convolution(channels, 1, 1)}));
  return text;
}

std::string MobileNetFeatures(double width) {
  constexpr struct {
    int64_t expansion, channels, repeats, stride;
  } kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  int64_t in = Channels(32 * width);
  std::string text = Text({"Conv", Convolution(in, 3, 2), "", "RELU6"});
  std::string before = "Conv/BatchNorm";
  int block = 0;
  for (const auto& stage : kStages) {
    const int64_t channels = Channels(static_cast<double>(stage.channels) * width);
    for (int64_t i = 0; i < stage.repeats; ++i, ++block) {
      const std::string scope =
          block == 0 ? "expanded_conv" : absl::StrCat("expanded_conv_", block);
      const int64_t stride = i == 0 ? stage.stride : 1;
      absl::StrAppend(&text, Residual(scope, in, channels, stride, stage.expansion));
      const std::string projected = scope + "/project/BatchNorm";
      const bool is_added = stride == 1 && in == channels;
      if (is_added) {
        absl::SubstituteAndAppend(&text,
                                  "layer { name: \"$0\" add {} input: \"$1\" input: \"$2\" }\n",
                                  scope, projected, before);
      }
      before = is_added ? scope : projected;
      in = channels;
    }
  }
  const int64_t last = width > 1 ? Channels(1280 * width) : 1280;
  return text + Text({"Conv_1", Convolution(last, 1, 1), "", "RELU6"});
}

std::string MobileNetV2(const ModelOptions& options, int64_t, int64_t) {
  return absl::StrCat(MobileNetFeatures(options.width_multiplier),
                      "layer { pool { global: true average: true } }\n",
                      Last("Logits", options.classes));
}

// Another top: 2x2 average pool, dense 512 without activation, dense `classes`.
std::string MobileNetV2Dense(const ModelOptions& options, int64_t height, int64_t width) {
  // Images of less than 33 pixels leave one.
  return absl::StrCat(MobileNetFeatures(options.width_multiplier),
                      absl::Substitute("layer { pool { kernel: [$0, $1] average: true } }\n",
                                       height <= 32 ? 1 : 2, width <= 32 ? 1 : 2),
                      Last("Dense", 512), Last("Logits", options.classes));
}

// ResNet: He et al. 2015, in the form of torchvision (stride in the 3x3 convolution).

constexpr char kResNetNorm[] = "decay: 0.9 epsilon: 1e-5";

std::string Padded(int64_t channels, int64_t kernel, int64_t stride) {
  return absl::StrCat(Convolution(channels, kernel, stride), " padding: ", (kernel - 1) / 2);
}

// Two 3x3 convolutions; or 1x1 to `channels`, 3x3, 1x1 to four times as many. The input is added,
// through a 1x1 convolution where the shape changes.
std::string Block(const std::string& scope, const std::string& before, int64_t in, int64_t channels,
                  int64_t stride, bool is_bottleneck) {
  const auto unit = [&](const char* name, int64_t to, int64_t kernel, int64_t by,
                        const char* activation) {
    return Text({scope + name, Padded(to, kernel, by), kResNetNorm, activation});
  };
  const int64_t out = is_bottleneck ? 4 * channels : channels;
  std::string text = is_bottleneck ? absl::StrCat(unit("/conv1", channels, 1, 1, "RELU"),
                                                  unit("/conv2", channels, 3, stride, "RELU"),
                                                  unit("/conv3", out, 1, 1, ""))
                                   : absl::StrCat(unit("/conv1", channels, 3, stride, "RELU"),
                                                  unit("/conv2", out, 3, 1, ""));
  const bool is_changed = stride != 1 || in != out;
  if (is_changed) {
    absl::StrAppend(&text,
                    Text({scope + "/shortcut", Padded(out, 1, stride), kResNetNorm, "", before}));
  }
  absl::SubstituteAndAppend(
      &text,
      "layer { name: \"$0\" add { activation: ACTIVATION_KIND_RELU } input: \"$0/$1/BatchNorm\" "
      "input: \"$2\" }\n",
      scope, is_bottleneck ? "conv3" : "conv2",
      is_changed ? scope + "/shortcut/BatchNorm" : before);
  return text;
}

std::string ResNet(bool is_bottleneck, const int (&repeats)[4], int64_t classes) {
  std::string text =
      absl::StrCat(Text({"conv1", Padded(64, 7, 2), kResNetNorm, "RELU"}),
                   "layer { name: \"pool\" pool { kernel: 3 stride: 2 padding: 1 } }\n");
  std::string before = "pool";
  int64_t in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t channels = int64_t{64} << stage;
    for (int i = 0; i < repeats[stage]; ++i) {
      const std::string scope = absl::StrCat("layer", stage + 1, "_", i);
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      absl::StrAppend(&text, Block(scope, before, in, channels, stride, is_bottleneck));
      before = scope;
      in = is_bottleneck ? 4 * channels : channels;
    }
  }
  return absl::StrCat(text, "layer { pool { global: true average: true } }\n", Last("fc", classes));
}

std::string ResNet18(const ModelOptions& options, int64_t, int64_t) {
  return ResNet(/*is_bottleneck=*/false, {2, 2, 2, 2}, options.classes);
}

std::string ResNet50(const ModelOptions& options, int64_t, int64_t) {
  return ResNet(/*is_bottleneck=*/true, {3, 4, 6, 3}, options.classes);
}

// ---- models of clicks: the last feature has the size feature_dim

std::string Dense(const std::string& name, int64_t units, const char* activation = "RELU",
                  const std::string& inputs = "") {
  return absl::Substitute(
      "layer { name: \"$0\" $1dense { units: $2 $3} }\n", name, inputs, units,
      *activation == 0 ? "" : absl::StrCat("activation: ACTIVATION_KIND_", activation, " "));
}

// The inputs of a layer that takes the dense input, if the data has one, and features.
std::string WithInput(const ModelOptions& options, const std::string& features) {
  return absl::StrCat(options.has_input ? "input: \"input\" " : "", "input: \"", features, "\" ");
}

constexpr char kWideAndDeepFeatures[] =
    "feature { name: \"wide_*\" column: \"*\" table: \"wide_*\" }\n"
    "feature { name: \"deep_*\" column: \"*\" table: \"deep_*\" }\n";
constexpr char kWideAndDeepTables[] =
    "table { name: \"wide_*\" dim: 1 initializer { constant {} } }\n"
    "table { name: \"deep_*\" dim: 16 }\n";
constexpr char kOneFeatureEach[] = "feature { column: \"*\" table: \"*\" }\n";
constexpr char kOneTableEach[] = "table { name: \"*\" dim: 16 }\n";

// Cheng et al. 2016, without crossed columns.
std::string WideAndDeep(const ModelOptions& options, int64_t, int64_t) {
  return absl::StrCat("layer { name: \"wide\" input: \"wide_*\" add {} }\n",
                      Dense("deep1", 1024, "RELU", WithInput(options, "deep_*")),
                      Dense("deep2", 512), Dense("deep3", 256), Dense("deep", 1, ""),
                      "layer { name: \"logits\" input: \"wide\" input: \"deep\" add {} }\n");
}

// Guo et al. 2017: a factorization machine and a deep network on the same vectors.
std::string DeepFm(const ModelOptions& options, int64_t, int64_t) {
  const char* const linear = options.has_input ? "input: \"linear\" " : "";
  return absl::StrCat("layer { name: \"first_order\" input: \"wide_*\" add {} }\n",
                      options.has_input ? Dense("linear", 1, "", "input: \"input\" ") : "",
                      "layer { name: \"second_order\" input: \"deep_*\" interaction { "
                      "factorization_machine {} } }\n",
                      Dense("deep1", 400, "RELU", WithInput(options, "deep_*")),
                      Dense("deep2", 400), Dense("deep3", 400), Dense("deep", 1, ""),
                      "layer { name: \"logits\" input: \"first_order\" ", linear,
                      "input: \"second_order\" input: \"deep\" add {} }\n");
}

// Naumov et al. 2019, with the layers of its benchmark on Criteo's data.
std::string Dlrm(const ModelOptions& options, int64_t, int64_t) {
  const std::string bottom =
      absl::StrCat(Dense("bottom1", 512), Dense("bottom2", 256), Dense("bottom3", 64),
                   Dense("bottom", options.feature_dim));
  return absl::StrCat(options.has_input ? bottom : "",
                      options.has_input ? "layer { name: \"interaction\" interaction { dot {} } }\n"
                                        : "layer { name: \"interaction\" input: \"*\" interaction "
                                          "{ dot { only_products: true } } }\n",
                      Dense("top1", 512), Dense("top2", 256), Dense("logits", 1, ""));
}

// Wang et al. 2021: cross layers, then a deep network.
std::string DcnV2(const ModelOptions& options, int64_t, int64_t) {
  return absl::StrCat("layer { name: \"cross\" ", WithInput(options, "*"),
                      "interaction { cross { layers: 3 } } }\n", Dense("deep1", 512),
                      Dense("deep2", 256), Dense("logits", 1, ""));
}

constexpr Model kModels[] = {
    {"fashion_cnn", false, Fixed<kFashionCnn>},
    {"lenet5", false, Fixed<kLenet5>},
    {"mlp", false, Fixed<kMlp>},
    {"seed_mlp", true, Fixed<kSeedMlp>},
    {"softmax_regression", false, Fixed<kSoftmaxRegression>},
    {"linear", true, Fixed<kLinear>},
    {"cifar10_cnn", false, Fixed<kCifar10Cnn>},
    {"vgg16", false, Fixed<kVgg16>},
    {"speech_conv", false, Fixed<kSpeechConv>},
    {"cnn_trad_fpool3", false, Fixed<kCnnTradFpool3>},
    {"mobilenet_v2", false, MobileNetV2, nullptr, nullptr, /*has_width_multiplier=*/true},
    {"mobilenet_v2_dense", false, MobileNetV2Dense, nullptr, nullptr,
     /*has_width_multiplier=*/true},
    {"resnet18", false, ResNet18},
    {"resnet50", false, ResNet50},
    {"wide_deep", false, WideAndDeep, kWideAndDeepFeatures, kWideAndDeepTables},
    {"deepfm", false, DeepFm, kWideAndDeepFeatures, kWideAndDeepTables},
    {"dlrm", false, Dlrm, kOneFeatureEach, kOneTableEach},
    {"dcn_v2", false, DcnV2, kOneFeatureEach, kOneTableEach},
};

}  // namespace

absl::Span<const Model> Models() { return kModels; }

const Model* Find(absl::string_view name) {
  const auto* found = std::find_if(std::begin(kModels), std::end(kModels),
                                   [name](const Model& model) { return name == model.name; });
  return found == std::end(kModels) ? nullptr : found;
}

}  // namespace shoal::zoo
