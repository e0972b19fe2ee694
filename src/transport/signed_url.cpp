#include "transport/signed_url.hpp"

#include "parsyn/error.hpp"
#include "system/sha256.hpp"
#include "text/encoding.hpp"
#include "transport/paths.hpp"

namespace parsyn::transport {
namespace {

std::string value_of(const std::map<std::string, std::string> &query, const std::string &name) {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

}  // namespace

UrlSigner::UrlSigner(std::chrono::milliseconds lifetime, system::Runtime &runtime)
    : lifetime_(lifetime), runtime_(runtime), secret_(runtime.random_hex(32)) {}

std::string UrlSigner::signature(std::string_view method, std::string_view key, std::string_view worker,
                                 std::string_view expires) const {
  std::string text;
  for (const std::string_view part : {method, key, worker, expires}) (text += part) += '\n';
  return system::hmac_sha256_hex(secret_, text);
}

std::string UrlSigner::sign(std::string_view method, std::string_view key, Id worker) const {
  const std::string expires = std::to_string(runtime_.wall_ms() + lifetime_.count());
  const std::string id = std::to_string(worker);
  return kObjectsPath + text::percent_encode(key, "/=") + "?worker=" + id + "&expires=" + expires +
         "&signature=" + signature(method, key, id, expires);
}

Id UrlSigner::verify(std::string_view method, std::string_view key,
                     const std::map<std::string, std::string> &query) const {
  const std::string worker = value_of(query, "worker");
  const std::string expires = value_of(query, "expires");
  const auto id = text::parse_u64(worker);
  const auto end = text::parse_u64(expires);
  if (!id || !end ||
      !system::equal_in_constant_time(signature(method, key, worker, expires),
                                      value_of(query, "signature"))) {
    throw Error(
        ErrorCode::forbidden,
        "the signature of this URL does not fit its method, object or worker, or is of the time before "
        "the coordinator was started again: ask for a fresh one",
        {{"signature", kUrlExpired, "does not fit"}});
  }
  if (*end < static_cast<std::uint64_t>(runtime_.wall_ms())) {
    throw Error(ErrorCode::forbidden, "this URL has expired: ask for a fresh one",
                {{"expires", kUrlExpired, "the URL's time is over"}});
  }
  return *id;
}

}  // namespace parsyn::transport
