#include <algorithm>
#include <string_view>

#include "http/http_client.hpp"
#include "http/http_server.hpp"
#include "http/text.hpp"

namespace parsyn::http {
namespace {

// ASCII only, whatever the host's locale: header names have no other letters.
unsigned char lower(char c) { return static_cast<unsigned char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

std::string value_of(const Headers &headers, std::string_view name) {
  const auto found = headers.find(std::string(name));
  return found == headers.end() ? std::string() : found->second;
}

}  // namespace

bool CaseInsensitiveLess::operator()(const std::string &a, const std::string &b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](char x, char y) { return lower(x) < lower(y); });
}

std::string HttpRequest::header(std::string_view name) const { return value_of(headers, name); }

std::string HttpClientResponse::header(std::string_view name) const { return value_of(headers, name); }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace parsyn::http
