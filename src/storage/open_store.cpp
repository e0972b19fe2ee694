#include <string>

#include "parsyn/object_store.hpp"
#include "storage/store_location.hpp"

namespace parsyn {

std::shared_ptr<ObjectStore> open_object_store(const std::string &location) {
  const auto folder = storage::folder_of_location(location);
  return folder ? make_file_store(*folder) : make_memory_store();
}

}  // namespace parsyn
