#include "ml/kernels/cpu/onednn_convolution.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "ml/kernels/cpu/layout_reorder.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/tensor/buffer.h"
#include <dnnl.hpp>

namespace shoal::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Descriptor = memory::desc;

constexpr auto kFloat = memory::data_type::f32;

// A primitive with its arguments, whose addresses are set before each call. It uses oneDNN's C
// interface, because the C++ interface allocates memory in each call.
class Call {
 public:
  Call() = default;
  Call(dnnl::primitive primitive, const dnnl::engine& engine,
       const std::vector<std::pair<int, Descriptor>>& arguments)
      : primitive_(std::move(primitive)) {
    for (const auto& [id, descriptor] : arguments) {
      memories_.emplace_back(descriptor, engine, nullptr);
      arguments_.push_back({id, memories_.back().get()});
    }
  }

  void Run(dnnl::stream& stream, std::initializer_list<const void*> handles) {
    size_t i = 0;
    for (const void* handle : handles) {
      dnnl_memory_set_data_handle(memories_[i++].get(), const_cast<void*>(handle));
    }
    dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()),
                           arguments_.data());
  }

 private:
  dnnl::primitive primitive_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// One argument: its layout in the caller's memory, its layout for the primitive, and the reorder
// between them if they differ.
struct Port {
  Descriptor outside, inside;
  bool is_reordered = false;
  size_t offset = 0;  // place of the reordered copy in the workspace
  Call reorder;
  // Instead of it between plain order and blocks of 16, some of them not full, where oneDNN is
  // slow.
  std::optional<LayoutReorder> own_reorder;
};

class OnednnConvolution : public ConvolutionPrimitive {
 public:
  explicit OnednnConvolution(const ConvolutionOptions& options)
      : o_(options), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    OmpThreadsScope scope(o_.threads);
    const ConvolutionShape& s = o_.shape;
    input_.outside = Images(s.in_channels, s.in_size, o_.input_layout);
    output_.outside = Images(s.out_channels, s.out_size, o_.output_layout);
    const int64_t in = s.in_channels / s.group;
    const int64_t* kernel = s.window.kernel;
    if (s.group == 1) {
      weights_.outside = Descriptor({s.out_channels, in, kernel[0], kernel[1]}, kFloat, Tag::oihw);
    } else {
      weights_.outside = Descriptor({s.group, s.out_channels / s.group, in, kernel[0], kernel[1]},
                                    kFloat, Tag::goihw);
    }
    bias_ = Descriptor({s.out_channels}, kFloat, Tag::x);
    attr_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    MakePrimitive();
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string implementation() const override { return implementation_; }

  void PackWeights(const float* weights, char* workspace) override {
    OmpThreadsScope scope(o_.threads);
    plain_weights_ = weights;
    if (weights_.is_reordered) {
      weights_.reorder.Run(stream_, {weights, workspace + weights_.offset});
    }
  }

  void Run(const Buffers& b, char* workspace) override {
    OmpThreadsScope scope(o_.threads);
    char* scratch = workspace + scratchpad_offset_;
    switch (o_.product) {
      case ConvolutionProduct::kForward: {
        const void* x = Bring(input_, b.input, workspace);
        void* y = Target(output_, b.result, workspace);
        const void* w = Weights(workspace);
        if (o_.has_bias) {
          call_.Run(stream_, {x, w, y, scratch, b.bias});
        } else {
          call_.Run(stream_, {x, w, y, scratch});
        }
        return Deliver(output_, b.result, workspace);
      }
      case ConvolutionProduct::kInputGradient: {
        const void* dy = Bring(output_, b.output, workspace);
        call_.Run(stream_, {Target(input_, b.result, workspace), Weights(workspace), dy, scratch});
        return Deliver(input_, b.result, workspace);
      }
      case ConvolutionProduct::kWeightGradient: {
        const void* x = Bring(input_, b.input, workspace);
        const void* dy = Bring(output_, b.output, workspace);
        void* dw = Target(weights_, b.result, workspace);
        if (o_.has_bias) {
          call_.Run(stream_, {x, dw, dy, scratch, b.bias_gradient});
        } else {
          call_.Run(stream_, {x, dw, dy, scratch});
        }
        return Deliver(weights_, b.result, workspace);
      }
    }
  }

 private:
  Descriptor Images(int64_t channels, const int64_t* size, Layout layout) const {
    return Descriptor({o_.shape.batch, channels, size[0], size[1]}, kFloat,
                      layout == Layout::kBlocked16 ? Tag::nChw16c : Tag::nchw);
  }

  // The order of elements in which the primitive is asked to take images.
  enum class Order { kOurBlocks, kAny, kPlain };

  // kOurBlocks: blocks of 16 where our tensors can have them and no block belongs to several groups
  // of more than one channel, else oneDNN's own choice.
  Descriptor Wanted(const Descriptor& outside, int64_t channels, Order order) const {
    if (order == Order::kPlain) return Descriptor(outside.dims(), kFloat, Tag::nchw);
    const ConvolutionShape& s = o_.shape;
    const int64_t in = s.in_channels / s.group, out = s.out_channels / s.group;
    const bool is_whole = (in == 1 && out == 1) || (in % 16 == 0 && out % 16 == 0);
    const bool blocked = order == Order::kOurBlocks && channels % 16 == 0 &&
                         (s.group == 1 || is_whole) && HasAvx512();
    return Descriptor(outside.dims(), kFloat, blocked ? Tag::nChw16c : Tag::any);
  }

  static bool HasAvx512() {
    const unsigned wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }

  // oneDNN has its reference loops, a thousand times slower, for what it has no kernel for, as
  // weight gradients between 4 to 15 channels in any order and blocks of 16. Any other order is
  // better then, reordered in the workspace; plain order always has a product of matrices.
  void MakePrimitive() {
    SetPostOps();
    if (MakePrimitive(Order::kOurBlocks) || MakePrimitive(Order::kAny)) return;
    MakePrimitive(Order::kPlain);
  }

  void SetPostOps() {
    if (o_.product != ConvolutionProduct::kForward || (!o_.relu && !o_.relu6)) return;
    dnnl::post_ops post_ops;
    if (o_.relu) {
      post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    } else {
      post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_clip, 0.0f, 6.0f);
    }
    attr_.set_post_ops(post_ops);
  }

  // False, and nothing is made, if oneDNN has only its reference loops for that order and there is
  // another to try.
  bool MakePrimitive(Order order) {
    const ConvolutionShape& s = o_.shape;
    const WindowShape& w = s.window;
    const memory::dims strides = {w.stride[0], w.stride[1]};
    const memory::dims dilates = {w.dilation[0] - 1, w.dilation[1] - 1};
    const memory::dims before = {w.pad_before[0], w.pad_before[1]};
    const memory::dims after = {w.pad_after[0], w.pad_after[1]};
    const Descriptor x = Wanted(input_.outside, s.in_channels, order);
    const Descriptor y = Wanted(output_.outside, s.out_channels, order);
    const Descriptor weights(weights_.outside.dims(), kFloat, Tag::any);
    const auto algorithm =
        o_.winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
    using Forward = dnnl::convolution_forward;
    if (o_.product == ConvolutionProduct::kForward) {
      const auto kind = !o_.relu && !o_.relu6 ? dnnl::prop_kind::forward_training
                                              : dnnl::prop_kind::forward_inference;
      const Forward::desc forward = o_.has_bias ? Forward::desc(kind, algorithm, x, weights, bias_,
                                                                y, strides, dilates, before, after)
                                                : Forward::desc(kind, algorithm, x, weights, y,
                                                                strides, dilates, before, after);
      return Accept(Forward::primitive_desc(forward, attr_, engine_), order);
    }
    const Forward::desc hint(dnnl::prop_kind::forward_training, algorithm, x, weights, y, strides,
                             dilates, before, after);
    const Forward::primitive_desc hint_descriptor(hint, attr_, engine_);
    if (o_.product == ConvolutionProduct::kInputGradient) {
      using Backward = dnnl::convolution_backward_data;
      const Backward::desc backward(algorithm, x, weights, y, strides, dilates, before, after);
      return Accept(Backward::primitive_desc(backward, attr_, engine_, hint_descriptor), order);
    }
    using Backward = dnnl::convolution_backward_weights;
    const Backward::desc backward =
        o_.has_bias
            ? Backward::desc(algorithm, x, weights, bias_, y, strides, dilates, before, after)
            : Backward::desc(algorithm, x, weights, y, strides, dilates, before, after);
    return Accept(Backward::primitive_desc(backward, attr_, engine_, hint_descriptor), order);
  }

  template <typename PrimitiveDescriptor>
  bool Accept(const PrimitiveDescriptor& d, Order order) {
    const bool is_reference = absl::StartsWith(d.impl_info_str(), "ref");
    if (is_reference && order != Order::kPlain) return false;
    Connect(d);
    return true;
  }

  void Connect(const dnnl::convolution_forward::primitive_desc& d) {
    Connect(&input_, d.src_desc(), true);
    Connect(&weights_, d.weights_desc(), true);
    Connect(&output_, d.dst_desc(), false);
    std::vector<std::pair<int, Descriptor>> arguments = {
        {DNNL_ARG_SRC, d.src_desc()},
        {DNNL_ARG_WEIGHTS, d.weights_desc()},
        {DNNL_ARG_DST, d.dst_desc()},
        {DNNL_ARG_SCRATCHPAD, d.scratchpad_desc()}};
    if (o_.has_bias) arguments.emplace_back(DNNL_ARG_BIAS, d.bias_desc());
    Finish(dnnl::convolution_forward(d), d, arguments);
  }

  void Connect(const dnnl::convolution_backward_data::primitive_desc& d) {
    Connect(&output_, d.diff_dst_desc(), true);
    Connect(&weights_, d.weights_desc(), true);
    Connect(&input_, d.diff_src_desc(), false);
    Finish(dnnl::convolution_backward_data(d), d,
           {{DNNL_ARG_DIFF_SRC, d.diff_src_desc()},
            {DNNL_ARG_WEIGHTS, d.weights_desc()},
            {DNNL_ARG_DIFF_DST, d.diff_dst_desc()},
            {DNNL_ARG_SCRATCHPAD, d.scratchpad_desc()}});
  }

  void Connect(const dnnl::convolution_backward_weights::primitive_desc& d) {
    Connect(&input_, d.src_desc(), true);
    Connect(&output_, d.diff_dst_desc(), true);
    Connect(&weights_, d.diff_weights_desc(), false);
    std::vector<std::pair<int, Descriptor>> arguments = {
        {DNNL_ARG_SRC, d.src_desc()},
        {DNNL_ARG_DIFF_WEIGHTS, d.diff_weights_desc()},
        {DNNL_ARG_DIFF_DST, d.diff_dst_desc()},
        {DNNL_ARG_SCRATCHPAD, d.scratchpad_desc()}};
    if (o_.has_bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, d.diff_bias_desc());
    Finish(dnnl::convolution_backward_weights(d), d, arguments);
  }

  template <typename PrimitiveDescriptor>
  void Finish(dnnl::primitive primitive, const PrimitiveDescriptor& d,
              const std::vector<std::pair<int, Descriptor>>& arguments) {
    implementation_ = d.impl_info_str();
    scratchpad_offset_ = workspace_bytes_;
    workspace_bytes_ += AlignedBytes(d.scratchpad_desc().get_size());
    call_ = Call(std::move(primitive), engine_, arguments);
  }

  void Connect(Port* port, const Descriptor& inside, bool is_read) {
    port->inside = inside;
    port->is_reordered = inside != port->outside;
    if (!port->is_reordered) return;
    port->offset = workspace_bytes_;
    workspace_bytes_ += AlignedBytes(inside.get_size());
    const memory::dims dims = inside.dims();
    const bool is_image = dims.size() == 4 && port != &weights_;
    if (is_image && port->outside == Descriptor(dims, kFloat, Tag::nchw) &&
        inside == Descriptor(dims, kFloat, Tag::nChw16c)) {
      port->own_reorder = LayoutReorder{dims[0], dims[1], dims[2] * dims[3], is_read};
      return;
    }
    const Descriptor& from = is_read ? port->outside : inside;
    const Descriptor& to = is_read ? inside : port->outside;
    const dnnl::reorder::primitive_desc d(engine_, from, engine_, to);
    port->reorder = Call(dnnl::reorder(d), engine_, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  void Reorder(Port& port, const void* from, void* to) {
    if (!port.own_reorder.has_value()) return port.reorder.Run(stream_, {from, to});
    port.own_reorder->Run(o_.threads, static_cast<const float*>(from), static_cast<float*>(to));
  }

  const void* Bring(Port& port, const float* outside, char* workspace) {
    if (!port.is_reordered) return outside;
    Reorder(port, outside, workspace + port.offset);
    return workspace + port.offset;
  }

  void* Target(Port& port, float* outside, char* workspace) {
    return port.is_reordered ? static_cast<void*>(workspace + port.offset) : outside;
  }

  void Deliver(Port& port, float* outside, char* workspace) {
    if (port.is_reordered) Reorder(port, workspace + port.offset, outside);
  }

  const void* Weights(char* workspace) const {
    return weights_.is_reordered ? static_cast<const void*>(workspace + weights_.offset)
                                 : plain_weights_;
  }

  const ConvolutionOptions o_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive_attr attr_;
  Port input_, output_, weights_;
  Descriptor bias_;
  size_t workspace_bytes_ = 0;
  size_t scratchpad_offset_ = 0;
  std::string implementation_;
  Call call_;
  const float* plain_weights_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateOnednnConvolution(
    const ConvolutionOptions& options) {
  try {
    return std::make_unique<OnednnConvolution>(options);
  } catch (const dnnl::error& error) {
    return absl::UnimplementedError(absl::StrCat("oneDNN: ", error.what()));
  }
}

}  // namespace shoal::cpu
