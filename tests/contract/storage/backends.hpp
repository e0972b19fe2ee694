// The backends that the object store's contract is tested on.
#pragma once

#include <memory>
#include <string>

#include "parsyn/object_store.hpp"
#include "support/temporary_folder.hpp"

namespace parsyn::test {

/// One empty store, of a backend by name: "memory" or "file".
class StoreUnderTest {
 public:
  explicit StoreUnderTest(const std::string &backend)
      : store_(backend == "memory" ? make_memory_store() : make_file_store(folder_.path() / "store")) {}

  ObjectStore &operator*() const { return *store_; }
  ObjectStore *operator->() const { return store_.get(); }

 private:
  TemporaryFolder folder_;
  std::shared_ptr<ObjectStore> store_;
};

}  // namespace parsyn::test
