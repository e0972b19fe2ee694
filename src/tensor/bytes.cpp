#include "parsyn/bytes.hpp"

#include <cstring>
#include <string>

#include "parsyn/error.hpp"

namespace parsyn {

void MemorySource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
    throw Error(ErrorCode::corrupt_data,
                "bytes [" + std::to_string(offset) + ", +" + std::to_string(out.size()) +
                    ") were asked for, but there are only " + std::to_string(bytes_.size()));
  }
  // An empty span may have a null pointer, which memcpy must not be given.
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
}

}  // namespace parsyn
