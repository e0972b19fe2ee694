#include "aggregation/schema.hpp"

#include <set>
#include <string_view>

#include "tensor/quoted_name.hpp"

namespace parsyn::aggregation {

std::string why_schema_differs(const SafetensorsHeader &update, const std::vector<TensorSpec> &expected) {
  std::set<std::string_view> names;
  for (const TensorSpec &wanted : expected) {
    names.insert(wanted.name);
    const std::string name = tensor::quoted_name(wanted.name);
    const SafetensorsEntry *given = update.find(wanted.name);
    if (given == nullptr) return "tensor " + name + " is missing";
    if (given->spec.dtype != wanted.dtype) {
      return "tensor " + name + " is " + std::string(dtype_name(given->spec.dtype)) +
             ", but the global model's is " + std::string(dtype_name(wanted.dtype));
    }
    if (given->spec.shape != wanted.shape) {
      return "tensor " + name + " has shape " + shape_text(given->spec.shape) +
             ", but the global model's has " + shape_text(wanted.shape);
    }
  }
  for (const SafetensorsEntry &given : update.tensors) {
    if (!names.contains(given.spec.name)) {
      return "tensor " + tensor::quoted_name(given.spec.name) +
             " is unexpected: the global model has none of this name";
    }
  }
  return "";
}

}  // namespace parsyn::aggregation
