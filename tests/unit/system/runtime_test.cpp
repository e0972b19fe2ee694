#include "system/runtime.hpp"

#include "support/catch.hpp"

using namespace parsyn;

TEST_CASE("the system names its boot, the same each time") {
  const std::string id = system::system_runtime().boot_id();
  CHECK(id.size() == 36);
  CHECK(id.find_first_not_of("0123456789abcdef-") == std::string::npos);
  CHECK(system::system_runtime().boot_id() == id);
}
