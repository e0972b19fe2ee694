// A table may be larger than memory: its documents are read in steps, and no lock is held between them.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "parsyn/journal.hpp"

namespace parsyn::journal {

/// A step ends with whichever is reached first.
inline constexpr std::size_t kStepDocumentsMax = 1'000;
inline constexpr std::size_t kStepBytesMax = 8U << 20;

/// A few documents in key order.
struct Step {
  std::vector<std::pair<std::string, std::string>> documents;
  std::size_t bytes = 0;
  bool last = true;  ///< No further document follows.

  bool is_full() const { return documents.size() >= kStepDocumentsMax || bytes >= kStepBytesMax; }
  void add(std::string key, std::string document) {
    bytes += key.size() + document.size();
    documents.emplace_back(std::move(key), std::move(document));
  }
};

/// `read`: gives the Step of a KeyRange.
template <typename Read>
void visit_in_steps(KeyRange range, const Journal::Visit &visit, const Read &read) {
  for (;;) {
    const Step step = read(range);
    for (const auto &[key, document] : step.documents) visit(key, document);
    if (step.last) return;
    // The key that follows in the order of bytes.
    range.first = step.documents.back().first + '\0';
  }
}

}  // namespace parsyn::journal
