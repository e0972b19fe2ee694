// Logarithm and exponential from +, -, * and / alone.
//
// The C library's log and exp differ between platforms in the last bit, and one bit can move an example to
// another partition. These give the same bits wherever double is IEEE 754 and the compiler does not contract
// operations.
#pragma once

namespace parsyn::core {

/// Natural logarithm; relative error below 1e-15. `x` is finite and greater than 0.
double portable_log(double x);

/// e to the power `x`; 0 below -745. `x` is not NaN and at most 700.
double portable_exp(double x);

}  // namespace parsyn::core
