#include "torch/model.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "parsyn/error.hpp"
#include "torch/state_dict_tensors.hpp"

namespace parsyn::torch {

namespace {

/// So many names stand in an error; what follows is counted.
constexpr std::size_t kListedNames = 10;

std::string listed(const std::vector<std::string> &names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kListedNames); ++i)
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > kListedNames) text += " and " + std::to_string(names.size() - kListedNames) + " more";
  return text;
}

std::string described(Dtype dtype, const std::vector<std::uint64_t> &shape) {
  return std::string(dtype_name(dtype)) + " " + shape_text(shape);
}

}  // namespace

Model::Model(std::vector<NamedTensor> state) : state_(std::move(state)) {}

std::vector<at::Tensor> Model::trainable() const {
  std::vector<at::Tensor> result;
  std::set<const void *> seen;
  for (const auto &[name, tensor] : state_)
    if (tensor.requires_grad() && seen.insert(tensor.unsafeGetTensorImpl()).second) result.push_back(tensor);
  return result;
}

void Model::check(const StateDict &weights) const {
  std::vector<Fault> faults;
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::set<std::string_view> own_names;
  std::map<const void *, std::pair<std::string, const Tensor *>> tied;
  for (const auto &[name, tensor] : state_) {
    own_names.insert(name);
    const auto given = weights.find(name);
    if (given == weights.end()) {
      missing.push_back(name);
      continue;
    }
    const std::string expected = described(dtype_of(tensor.scalar_type(), name), shape_of(tensor));
    const std::string found = described(given->second.dtype, given->second.shape);
    if (expected != found)
      faults.push_back({name, "shape",
                        "'" + name + "' is " + expected + " in the model and " + found + " in the weights"});
    else if (given->second.data.size() != tensor.nbytes())
      faults.push_back({name, "size",
                        "'" + name + "' has " + std::to_string(given->second.data.size()) +
                            " bytes in the weights; " + expected + " has " +
                            std::to_string(tensor.nbytes())});
    const auto [first, is_first] = tied.try_emplace(tensor.unsafeGetTensorImpl(), name, &given->second);
    if (!is_first && first->second.second->data != given->second.data)
      faults.push_back({name, "tied",
                        "'" + first->second.first + "' and '" + name +
                            "' are one tensor in the model and differ in the weights"});
  }
  for (const auto &entry : weights)
    if (!own_names.contains(entry.first)) unexpected.push_back(entry.first);

  if (!missing.empty()) faults.push_back({"", "missing", "missing: " + listed(missing)});
  if (!unexpected.empty()) faults.push_back({"", "unexpected", "unexpected: " + listed(unexpected)});
  if (faults.empty()) return;
  std::string message = "The weights do not fit the model";
  for (std::size_t i = 0; i < std::min(faults.size(), kListedNames); ++i)
    message += (i == 0 ? ": " : "; ") + faults[i].message;
  if (faults.size() > kListedNames)
    message += "; and " + std::to_string(faults.size() - kListedNames) + " more";
  throw Error(ErrorCode::invalid_argument, message + ".", std::move(faults));
}

void Model::load(const StateDict &weights) {
  check(weights);
  for (const auto &[name, tensor] : state_) copy_in(tensor, weights.find(name)->second, name);
}

StateDict Model::save() const {
  StateDict result;
  for (const auto &[name, tensor] : state_) result.emplace(name, copy_out(tensor, name));
  return result;
}

}  // namespace parsyn::torch
