// The last phase of compilation. It assigns memory to every value of a finished plan and a kernel
// to every step. Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_ASSEMBLER_H_
#define SHOAL_ML_GRAPH_ASSEMBLER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/compiler.h"
#include "ml/graph/memory_plan.h"
#include "ml/graph/plan.h"
#include "ml/graph/program.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<Executable>> Assemble(const CompileRequest& request,
                                                     const DeviceBackends& backends, Plan plan);

// The place of a value's bytes.
struct ValuePlace {
  enum class Kind { kNone, kArena, kStaging, kInput, kVariable, kOutput };
  Kind kind = Kind::kNone;
  int device = 0;  // kArena, kStaging, kOutput: the device that computes the value
  int index = 0;   // kArena, kStaging: index of the memory request; otherwise index of the binding
};

// The memory of one device while it is planned.
struct MemoryDraft {
  std::vector<MemoryRequest> arena;
  // The next members are used for devices with their own memory.
  std::vector<size_t> staging;        // sizes in bytes of the values that it copies to the host
  std::vector<PackedInput> inputs;    // bindings that it reads
  std::vector<PackedOutput> outputs;  // fetches that it computes
  std::vector<int> mirrored;          // indices of `inputs`, in the group's order
  // (is_variable, index of the binding) -> index in `inputs`.
  std::map<std::pair<bool, int>, int> input_of;
  size_t input_bytes = 0, output_bytes = 0;
};

class Assembler {
 public:
  Assembler(const CompileRequest& request, const DeviceBackends& backends, Plan plan);

  absl::StatusOr<std::unique_ptr<Executable>> Assemble();

 private:
  // assembler_memory.cc
  void BindFetches();
  void PlaceValues();
  void PlaceValue(int value, int device);
  void AddOperand(int value, int reader);
  void AddPackedInput(const ValuePlace& place, const TensorSpec& spec, int reader, int operand);
  void AddOutputOperand(int fetch, int device);
  void AddPackedOutput(int fetch, int device, int step);
  // Chooses for each variable that the whole group reads the device that uploads it.
  void ChooseOwners();
  absl::Status PlaceMemory();
  absl::Status PlaceDeviceMemory(int device);
  void PlaceHostMemory(int device);
  absl::Status FillConstants();

  // assembler.cc
  bool HasOwnMemory(int device) const { return static_cast<bool>(backends_[device]->open_device); }
  DeviceProgram& program_of(int device) { return parts_.devices[program_device_[device]]; }
  int FirstHostDevice() const;
  void NumberSteps();
  // Returns whether the step waits for another device and only the caller reads its outputs, so
  // that it need not delay its device.
  bool MayBeLate(int step) const;
  absl::Status OpenDevice(int device, DeviceProgram* program) const;
  absl::Status MakeDevice(int device);
  void JoinGroup();
  // Returns why the device's steps are not recorded; empty if they are.
  std::string WhyNotRecorded(int device);
  void ChooseRecorded();
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const PlanStep& step, Device* device) const;
  void AddConstant(const PlanStep& step, DeviceProgram* program);
  void SetCopy(const PlanStep& step, ProgramStep* program_step) const;
  absl::Status AddStep(int step, int device, DeviceProgram* program);
  absl::Status AddEvents(const DeviceProgram& program, ProgramStep* step) const;
  void AddFetchCopies(int device, DeviceProgram* program);
  void AddFinishedOutput(int fetch, int device, int step, ProgramStep* program_step);
  void AddWaits(const PlanStep& step, ProgramStep* program_step);
  std::string Describe(const PlanStep& step, const std::string& device) const;
  uint64_t FirstExample(int clone_index) const;

  const CompileRequest& request_;
  const DeviceBackends& backends_;  // indexed by device
  Plan plan_;
  std::vector<std::vector<int>> order_;        // the steps of each device in order, without aliases
  std::vector<std::pair<int, int>> position_;  // indexed by step: its device and place there
  std::vector<std::vector<int>> consumers_;    // indexed by root value: steps that read it
  std::vector<bool> is_awaited_;               // indexed by step
  std::vector<int> output_of_root_;            // indexed by value: the fetch that holds it, or -1
  // Indexed by the device that copies: the fetches that no step writes directly, so that they are
  // copied to the caller's output at the end.
  std::vector<std::vector<int>> copies_;
  std::vector<ValuePlace> places_;   // indexed by root value
  std::vector<MemoryDraft> memory_;  // indexed by device
  std::vector<int> program_device_;  // indexed by device: its index among those with steps
  // Operands whose addresses are known when their device's memory is.
  struct PlannedOperand {
    enum class Area { kArena, kStaging, kInputs, kOutputs };
    int operand, device;
    Area area;
    int index;  // index of the memory request, the packed input or the fetch
  };
  std::vector<PlannedOperand> planned_;
  struct ConstantOperand {
    int operand, device;
    TensorSpec spec;
    double value;
  };
  std::vector<ConstantOperand> constants_;
  ProgramParts parts_;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_ASSEMBLER_H_
