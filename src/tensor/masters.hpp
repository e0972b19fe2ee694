// Float32 masters: the global model keeps trainable tensors in F32, whatever type the compute uses, because
// averages of small steps vanish in 16 bits.
#pragma once

#include "parsyn/state_dict.hpp"

namespace parsyn::tensor {

/// F16 and BF16 tensors become F32, exactly; all others stay as they are.
/// Throws Error(invalid_argument) when a tensor's data does not fit its shape.
StateDict widen_to_f32_masters(StateDict state);

}  // namespace parsyn::tensor
