// Collects labels or targets while their kind is not yet known.
#pragma once

#include <cstdint>
#include <vector>

#include "parsyn/state_dict.hpp"

namespace parsyn::data {

/// As long as every target is a whole number they are class labels; one that is not makes all of them F32
/// targets.
class TargetCollector {
 public:
  void add_integer(std::int64_t value);
  void add_number(float value);
  std::uint64_t count() const { return count_; }
  /// I64 [N] or F32 [N]; ends this collection.
  Tensor finish();

 private:
  std::uint64_t count_ = 0;
  bool all_integers_ = true;
  std::vector<std::int64_t> integers_;  // empty once one number was not whole
  std::vector<std::byte> numbers_;      // F32
};

}  // namespace parsyn::data
