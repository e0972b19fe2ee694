#include "http/client_url.hpp"

#include <algorithm>

#include "http/text.hpp"
#include "parsyn/error.hpp"
#include "text/utf8.hpp"

namespace parsyn::http {
namespace {

constexpr std::size_t kShownBytesMax = 300;

struct UrlParts {
  std::string_view scheme;  // without "://"; empty: none
  std::string_view authority;
  std::string_view path;
};

UrlParts parts_of(std::string_view url) {
  UrlParts parts;
  url = url.substr(0, url.find_first_of("?#"));
  const auto colon = url.find("://");
  if (colon == std::string_view::npos) {
    parts.path = url;
    return parts;
  }
  parts.scheme = url.substr(0, colon);
  url.remove_prefix(colon + 3);
  const auto slash = std::min(url.find('/'), url.size());
  parts.authority = url.substr(0, slash);
  parts.path = url.substr(slash);
  return parts;
}

}  // namespace

std::string shown_url(std::string_view url) {
  const UrlParts parts = parts_of(url);
  const auto at = parts.authority.rfind('@');
  const std::string_view host =
      at == std::string_view::npos ? parts.authority : parts.authority.substr(at + 1);
  std::string text;
  if (!parts.scheme.empty()) text = std::string(parts.scheme) + "://" + std::string(host);
  text += parts.path;
  return text::printable(text, kShownBytesMax);
}

void check_url(std::string_view url) {
  const UrlParts parts = parts_of(url);
  const std::string shown = "the URL '" + shown_url(url) + "' ";
  if (!same_word(parts.scheme, "http") && !same_word(parts.scheme, "https")) {
    throw Error(ErrorCode::invalid_argument, shown + "must begin with http:// or https://");
  }
  if (parts.authority.find('@') != std::string_view::npos) {
    throw Error(ErrorCode::invalid_argument,
                shown + "holds user information; send an Authorization header instead");
  }
  if (parts.authority.empty()) throw Error(ErrorCode::invalid_argument, shown + "names no host");
  const bool plain = std::none_of(url.begin(), url.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '\\';
  });
  if (!plain) {
    throw Error(ErrorCode::invalid_argument,
                shown + "holds a space, a backslash or a control character; percent-encode it");
  }
}

}  // namespace parsyn::http
