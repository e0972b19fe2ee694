// Does a file hold exactly the tensors that the global model has? Exactly: no broadcasting, no equal element
// counts, no intersection of names.
#pragma once

#include <string>
#include <vector>

#include "parsyn/safetensors.hpp"

namespace parsyn::aggregation {

/// Empty, or a sentence about the first difference in names, dtypes or shapes, with both sides of it.
std::string why_schema_differs(const SafetensorsHeader &update, const std::vector<TensorSpec> &expected);

}  // namespace parsyn::aggregation
