// Products of bfloat16 numbers and conversions to and from them.

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {
namespace {

Tensor Cast(const Tensor& tensor, DataType to) {
  return CaseTable::Reference({"Cast", {}, {tensor}, {{to, tensor.shape()}}})[0];
}

float FloatOf(uint32_t word) {
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

// Returns ties and their neighbours, numbers that overflow, infinities, denormals and NaN.
Tensor Corners() {
  const uint32_t words[] = {0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x3fffffff, 0x7f7fffff,
                            0x7f7f8000, 0x7f7f7fff, 0x7f800000, 0x00000001, 0x00008000, 0x00008001,
                            0x00018000, 0x007f8000, 0x00000000, 0x7fc00000, 0x7f800001, 0x7fffffff};
  Tensor tensor(F32({2, static_cast<int64_t>(std::size(words))}));
  float* values = tensor.mutable_span<float>().data();
  for (uint32_t word : words) *values++ = FloatOf(word);
  for (uint32_t word : words) *values++ = FloatOf(word | 0x80000000u);
  return tensor;
}

// Returns the same product with rounded inputs. For the gradient of a convolution, the parts
// that are not products are left out.
OpCall Rounded(OpCall call) {
  if (call.op == "ConvGrad") {
    call.attributes.Erase("activation");
    call.inputs[2] = call.inputs[3];
    call.outputs.resize(2);
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (i < 2 || call.op == "ConvGrad") call.inputs[i] = Cast(call.inputs[i], DataType::kBfloat16);
  }
  return call;
}

}  // namespace

void AddBfloat16Products(CaseTable& table) {
  const std::vector<ConformanceCase> cases = table.cases();
  for (const ConformanceCase& c : cases) {
    const std::string& op = c.call.op;
    if (op != "MatMul" && op != "Dense" && op != "Conv" && op != "ConvGrad" && op != "ConvPool" &&
        op != "ConvTranspose") {
      continue;
    }
    // One kind of batch, and of activations behind a product, is enough.
    if (c.call.inputs[0].shape().rank() > (op == "MatMul" ? 3 : 4)) continue;
    const std::string activation = c.call.attributes.GetString("activation", "none");
    if (op == "Dense" && activation != "none" && activation != "relu") continue;
    table.Add(absl::StrCat("bfloat16_", c.name), Rounded(c.call), c.tolerance, c.byte_mismatch);
    if (absl::string_view(op).substr(0, 4) == "Conv") table.AllowRoundedOutputs();
  }
}

void AddBfloat16Conversions(CaseTable& table) {
  const DataType bfloat16 = DataType::kBfloat16;
  const auto add = [&](const std::string& what, const Tensor& x, DataType to) {
    table.Add(what, {"Cast", {}, {x}, {{to, x.shape()}}}, 0);
  };
  add("to_bfloat16", table.Uniform({1000}), bfloat16);
  add("corners_to_bfloat16", Corners(), bfloat16);
  add("images_from_bfloat16", Cast(table.Uniform({2, 32, 5, 3}), bfloat16), DataType::kFloat32);
  add("images_to_bfloat16", table.Uniform({2, 32, 5, 3}), bfloat16);
  const Tensor labels = table.Labels(385, 4);
  for (DataType dtype : {DataType::kInt32, DataType::kInt64, DataType::kUint8, DataType::kBool}) {
    const Tensor numbers = Cast(labels, dtype);
    add(absl::StrCat(DataTypeName(dtype), "_to_bfloat16"), numbers, bfloat16);
    add(absl::StrCat(DataTypeName(dtype), "_from_bfloat16"), Cast(numbers, bfloat16), dtype);
  }
  const Tensor images = Cast(table.Uniform({2, 32, 3, 5}), bfloat16);
  TensorSpec blocked = images.spec();
  blocked.layout = Layout::kBlocked16;
  const OpCall there{"ReorderLayout", {}, {images}, {blocked}};
  table.Add("bfloat16_there", there, 0);
  table.Add("bfloat16_back", {"ReorderLayout", {}, CaseTable::Reference(there), {images.spec()}},
            0);
}

}  // namespace shoal::conformance
