// Scripted modules: read from a file, as a model to train and as a state dict.
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "parsyn/error.hpp"
#include "parsyn/torch.hpp"
#include "torch/errors.hpp"
#include "torch/model.hpp"
#include "torch/state_dict_tensors.hpp"

namespace parsyn::torch {

namespace {

namespace jit = ::torch::jit;

/// A module with this method runs code of its own while it is read.
constexpr std::string_view kLoadHook = "def __setstate__(";
constexpr std::string_view kCodeFolder = "code/";

void refuse_code_that_runs_on_load(const std::string &path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  for (const std::string &record : reader.getAllRecords()) {
    if (!record.starts_with(kCodeFolder) || !record.ends_with(".py")) continue;
    const auto [data, size] = reader.getRecord(record);
    const std::string_view text(static_cast<const char *>(data.get()), size);
    if (text.find(kLoadHook) != std::string_view::npos)
      throw Error(ErrorCode::unsupported, "The scripted module '" + path +
                                              "' runs code of its own when it is loaded (__setstate__ in " +
                                              record + "). Save a module without it.");
  }
}

/// On the CPU, wherever it was saved.
jit::Module read_module(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error(ErrorCode::not_found, "The scripted module '" + path + "' is not a file that can be read.");
  return with_clear_errors(ErrorCode::corrupt_data,
                           "The file '" + path + "' is not a readable scripted module", [&] {
                             refuse_code_that_runs_on_load(path);
                             return jit::load(path, at::Device(at::kCPU));
                           });
}

/// Parameters and buffers, with half-precision floats widened to F32 in place, so that small steps are not
/// lost.
std::vector<NamedTensor> state_of(const jit::Module &module) {
  const c10::NoGradGuard no_grad;
  std::vector<NamedTensor> state;
  const auto add = [&](const std::string &name, at::Tensor tensor) {
    if (!tensor.defined()) return;
    dtype_of(tensor.scalar_type(), name);
    if (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16)
      tensor.set_data(tensor.to(at::kFloat));
    state.push_back({name, std::move(tensor)});
  };
  for (const auto &entry : module.named_parameters()) add(entry.name, entry.value);
  for (const auto &entry : module.named_buffers()) add(entry.name, entry.value);

  std::map<const void *, const NamedTensor *> by_memory;
  for (const NamedTensor &entry : state) {
    if (entry.tensor.layout() != at::kStrided || entry.tensor.numel() == 0) continue;
    const auto [first, is_first] = by_memory.try_emplace(entry.tensor.data_ptr(), &entry);
    if (!is_first && !first->second->tensor.is_same(entry.tensor))
      throw Error(ErrorCode::unsupported, "The module's tensors '" + first->second->name + "' and '" +
                                              entry.name +
                                              "' are two views of the same memory. Tie weights by using one "
                                              "parameter under both names.");
  }
  return state;
}

/// Some kinds of dropout are missing from libtorch's own list of what is not deterministic.
bool draws_random_numbers(const jit::Node &node) {
  return node.isNondeterministic() ||
         std::string_view(node.kind().toUnqualString()).find("dropout") != std::string_view::npos;
}

/// One that uses its running statistics in training too, a constant of the module, normalises no batch.
bool normalises_batches(const jit::Node &node) {
  if (node.kind() != jit::aten::batch_norm) return false;
  const auto training = jit::toIValue(node.namedInput("training"));
  return !training || !training->isBool() || training->toBool();
}

bool any_node(const jit::Block &block, bool (*holds)(const jit::Node &)) {
  for (const jit::Node *node : block.nodes()) {
    if (holds(*node)) return true;
    for (const jit::Block *inner : node->blocks())
      if (any_node(*inner, holds)) return true;
  }
  return false;
}

class TorchscriptModel : public Model {
 public:
  explicit TorchscriptModel(jit::Module module) : Model(state_of(module)), module_(std::move(module)) {
    const auto graph = module_.get_method("forward").graph()->copy();
    jit::Inline(*graph);
    draws_random_numbers_ = any_node(*graph->block(), torch::draws_random_numbers);
    normalises_batches_ = any_node(*graph->block(), torch::normalises_batches);
  }

  at::Tensor forward(const at::Tensor &input) override {
    // The optimising executor rewrites the graph after its first runs, so that a step's last bits would
    // depend on how many came before it in this process.
    const jit::GraphOptimizerEnabledGuard no_optimizer(false);
    const auto output = module_.forward({input});
    if (!output.isTensor())
      throw Error(ErrorCode::invalid_argument, "The scripted module returns a " + output.tagKind() +
                                                   "; its forward() must return one tensor.");
    return output.toTensor();
  }
  void set_training(bool training) override { module_.train(training); }
  bool draws_random_numbers() const override { return draws_random_numbers_; }
  bool normalises_batches() const override { return normalises_batches_; }

 private:
  jit::Module module_;
  bool draws_random_numbers_ = false;
  bool normalises_batches_ = false;
};

}  // namespace

std::unique_ptr<Model> make_torchscript_model(const std::string &path, at::Device device) {
  jit::Module module = read_module(path);
  if (!module.find_method("forward"))
    throw Error(ErrorCode::invalid_argument, "The scripted module '" + path + "' has no method forward().");
  return with_clear_errors(ErrorCode::unsupported, "The scripted module cannot be used", [&] {
    module.to(device);
    return std::unique_ptr<Model>(std::make_unique<TorchscriptModel>(std::move(module)));
  });
}

}  // namespace parsyn::torch

namespace parsyn {

StateDict torchscript_state_dict(const std::filesystem::path &module_path) {
  const auto module = torch::read_module(module_path.string());
  return torch::with_clear_errors(ErrorCode::unsupported, "The scripted module cannot be used", [&] {
    StateDict result;
    for (const auto &[name, tensor] : torch::state_of(module))
      result.emplace(name, torch::copy_out(tensor, name));
    return result;
  });
}

}  // namespace parsyn
