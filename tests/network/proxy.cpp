// A bad network between workers and a coordinator: an HTTP proxy on loopback that does to a share of the
// exchanges what middleboxes, lines and NAT tables do.
//
//   network_proxy PORT       prints its own port, then reads a command a line from stdin, and answers "ok":
//
//   faults KIND,... SHARE LIMIT SEED [objects]   of so many of 100 exchanges, LIMIT in all; objects:
//   transfers idle MILLISECONDS                            resets a connection that is silent for so long; 0:
//   none count                                        answers with the number of faults since the last
//   "faults"
//
// Each fault is a line on stderr. Kinds, and where they strike (up: towards the coordinator):
//   cut-up, cut-down      a reset after some bytes        stall-up, stall-down  silence for a while, then a
//   reset half-up, half-down    FIN after some bytes            delay                 held back: others
//   overtake it flip-up, flip-down    one bit of a transfer's body    refuse                502 or 503, never
//   passed on swallow               passed on, its answer lost: 502 or 503 with HTML instead
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/raw_socket.hpp"

namespace parsyn::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeadBytesMax = 1 << 20;
/// Longer than any wait of the worker's or the coordinator's own: what is silent for so long is dead.
constexpr milliseconds kPatience{120'000};
constexpr milliseconds kLookInterval{100};
constexpr std::uint64_t kDelayMax = 1'500;
constexpr std::uint64_t kStallMax = 3'000;
/// Most exchanges are short: a point of fault that lies behind their end would do nothing.
constexpr std::uint64_t kHeadPointMax = 400;

/// SplitMix64 (Steele, Lea, Flood 2014): a number for each place of a seed.
std::uint64_t mix(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = seed + (place + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

struct Fault {
  std::string kind;
  std::uint64_t draw = 0;  // where exactly, and for how long

  bool is(std::string_view name) const { return kind == name; }
};

/// What is done to which exchange. Thread-safe.
class Plan {
 public:
  void set(std::vector<std::string> kinds, std::uint64_t share, std::uint64_t limit, std::uint64_t seed,
           std::string only) {
    const std::lock_guard lock(mutex_);
    kinds_ = std::move(kinds);
    share_ = share;
    limit_ = limit;
    seed_ = seed;
    only_ = std::move(only);
    exchanges_ = made_ = 0;
  }
  void set_idle(milliseconds idle) { idle_ms_ = idle.count(); }
  /// How long a connection may be silent.
  milliseconds patience() const {
    const std::int64_t idle = idle_ms_;
    return idle == 0 ? kPatience : milliseconds(idle);
  }
  std::uint64_t made() const {
    const std::lock_guard lock(mutex_);
    return made_;
  }
  void count_one() {
    const std::lock_guard lock(mutex_);
    ++made_;
  }

  /// For an exchange, as "METHOD PATH".
  std::optional<Fault> next(const std::string &exchange) {
    const std::lock_guard lock(mutex_);
    const bool is_object = exchange.find(" /api/v1/objects/") != std::string::npos;
    const bool is_heartbeat = exchange.ends_with("/heartbeat");
    if (kinds_.empty() || made_ >= limit_) return std::nullopt;
    if ((only_ == "objects" && !is_object) || (only_ == "work" && is_heartbeat)) return std::nullopt;
    const std::uint64_t draw = mix(seed_, exchanges_++);
    if (draw % 100 >= share_) return std::nullopt;
    std::vector<std::string> fitting;
    for (const std::string &kind : kinds_) {
      // Only a transfer has a digest, and only one of its directions has a body.
      const bool fits = kind == "flip-up"     ? is_object && exchange.starts_with("PUT")
                        : kind == "flip-down" ? is_object && exchange.starts_with("GET")
                                              : true;
      if (fits) fitting.push_back(kind);
    }
    if (fitting.empty()) return std::nullopt;
    ++made_;
    return Fault{fitting[(draw >> 8) % fitting.size()], draw >> 16};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> kinds_;
  std::uint64_t share_ = 0;
  std::uint64_t limit_ = 0;
  std::uint64_t seed_ = 0;
  std::string only_;
  std::uint64_t exchanges_ = 0;
  std::uint64_t made_ = 0;
  std::atomic<std::int64_t> idle_ms_{0};
};

/// Thrown to end a connection.
struct Ended {
  bool with_reset = false;
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The head of a message, with its empty line.
struct Head {
  std::string bytes;

  std::string first_line() const { return bytes.substr(0, bytes.find("\r\n")); }
  std::string field(const std::string &name) const {
    const std::string all = lower(bytes);
    const std::size_t at = all.find("\r\n" + name + ":");
    if (at == std::string::npos) return {};
    const std::size_t from = bytes.find_first_not_of(' ', at + name.size() + 3);
    return bytes.substr(from, bytes.find("\r\n", from) - from);
  }
  void remove(const std::string &name) {
    const std::size_t at = lower(bytes).find("\r\n" + name + ":");
    if (at != std::string::npos) bytes.erase(at, bytes.find("\r\n", at + 2) - at);
  }
  /// Nothing: up to the end of the connection, or in pieces; this proxy then passes on without faults.
  std::optional<std::uint64_t> body_bytes(bool is_request) const {
    if (!field("transfer-encoding").empty()) return std::nullopt;
    const std::string length = field("content-length");
    if (!length.empty()) return std::stoull(length);
    return is_request ? std::optional<std::uint64_t>(0) : std::nullopt;
  }
};

/// One connection of a worker, and the proxy's own to the coordinator.
class Passage {
 public:
  Passage(RawConnection client, std::uint16_t port, Plan &plan, std::uint64_t number)
      : client_(std::move(client)), server_(port), plan_(plan), number_(number) {}

  void run() {
    try {
      while (exchange()) {
      }
    } catch (const Ended &ended) {
      if (!ended.with_reset) return;
      client_.reset();
      server_.reset();
    }
  }

 private:
  /// False when the connection ends after it.
  bool exchange() {
    Head request = read_head(client_, from_client_, false);
    const std::string line = request.first_line();
    const std::string method = line.substr(0, line.find(' '));
    // Without the query, where a signed URL has its signature.
    what_ = line.substr(0, std::min(line.find('?'), line.rfind(' ')));
    const std::uint64_t body = request.body_bytes(true).value_or(0);
    // The proxy takes every body itself, so that it may break off anywhere in it.
    if (!request.field("expect").empty()) {
      request.remove("expect");
      put(client_, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    const std::optional<Fault> fault = plan_.next(what_);

    if (fault && fault->is("delay")) {
      const milliseconds delay(fault->draw % kDelayMax + 1);
      say("held back for " + std::to_string(delay.count()) + " ms");
      hold(delay);
    }
    if (fault && fault->is("refuse")) {
      skip(client_, from_client_, body);
      answer_for_the_coordinator(*fault, "it never got there");
      return false;
    }
    pass(client_, from_client_, server_, request, body, fault, "up");
    if (fault && fault->is("half-up")) finish_half(server_, client_);

    Head response = read_head(server_, from_server_, true);
    const std::optional<std::uint64_t> length =
        method == "HEAD" || response.bytes.find(" 204 ") == 8 || response.bytes.find(" 304 ") == 8
            ? std::optional<std::uint64_t>(0)
            : response.body_bytes(false);
    if (!length) {
      put(client_, response.bytes + std::exchange(from_server_, {}));
      for (;;) put(client_, take(server_, client_));
    }
    if (fault && fault->is("swallow")) {
      skip(server_, from_server_, *length);
      answer_for_the_coordinator(*fault, "its answer was lost");
      return false;
    }
    pass(server_, from_server_, client_, response, *length, fault, "down");
    if (fault && fault->is("half-down")) finish_half(client_, client_);
    return lower(request.field("connection")) != "close" && lower(response.field("connection")) != "close";
  }

  /// A head and its body, up to the fault's place in it.
  void pass(RawConnection &from, std::string &buffer, RawConnection &to, const Head &head, std::uint64_t body,
            const std::optional<Fault> &fault, const std::string &way) {
    const std::string way_name = way == "up" ? "request" : "answer";
    const std::uint64_t whole = head.bytes.size() + body;
    std::optional<std::uint64_t> end;   // where the fault breaks off
    std::optional<std::uint64_t> flip;  // the byte of the body
    if (fault && fault->is("flip-" + way) && body > 0) {
      flip = fault->draw % body;
      say("a bit of byte " + std::to_string(*flip) + " of the " + way_name + "'s body is flipped");
    } else if (fault && (fault->is("cut-" + way) || fault->is("stall-" + way) || fault->is("half-" + way))) {
      // Half of them in the head or right behind it, the others anywhere.
      end = fault->draw % (fault->draw >> 40 & 1 ? whole : std::min(whole, kHeadPointMax));
      say(fault->kind + " after " + std::to_string(*end) + " of " + std::to_string(whole) + " bytes of the " +
          way_name);
    }
    std::uint64_t passed = 0;
    const auto pass_on = [&](std::string piece) {
      const std::uint64_t bytes = piece.size();
      if (end) piece.resize(static_cast<std::size_t>(std::min(bytes, *end - std::min(*end, passed))));
      put(to, piece);
      passed += bytes;
      return !end || passed < *end;
    };
    bool goes_on = pass_on(head.bytes);
    for (std::uint64_t at = 0; goes_on && at < body;) {
      std::string piece = take_buffered(from, buffer, body - at);
      if (flip && *flip >= at && *flip < at + piece.size())
        piece[static_cast<std::size_t>(*flip - at)] ^= static_cast<char>(1 << (fault->draw >> 50 & 7));
      at += piece.size();
      goes_on = pass_on(std::move(piece));
    }
    if (!end) return;
    if (fault->is("stall-" + way)) hold(milliseconds(fault->draw % kStallMax + 1));
    if (!fault->is("half-" + way)) throw Ended{.with_reset = true};
  }

  /// One side's end of the stream is passed on, and nothing more in that direction; the other goes on.
  void finish_half(RawConnection &side, RawConnection &client) {
    side.finish_sending();
    if (&side == &client) {
      client.ends(kPatience);
    } else {
      // What the coordinator still has to say of half a request.
      for (std::string piece; !(piece = server_.receive(kPatience)).empty();) put(client, piece);
    }
    throw Ended{};
  }

  void answer_for_the_coordinator(const Fault &fault, const std::string &why) {
    const std::string status = fault.draw & 1 ? "502 Bad Gateway" : "503 Service Unavailable";
    const std::string page = "<!DOCTYPE html>\n<html><head><title>" + status + "</title></head>\n<body><h1>" +
                             status + "</h1><hr>proxy</body></html>\n";
    say("answered with " + status + ": " + why);
    put(client_, "HTTP/1.1 " + status +
                     "\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: " +
                     std::to_string(page.size()) + "\r\n\r\n" + page);
    client_.finish_sending();
    client_.ends(kRawPatience);
  }

  Head read_head(RawConnection &from, std::string &buffer, bool is_response) {
    for (;;) {
      const std::size_t end = buffer.find("\r\n\r\n");
      if (end != std::string::npos) {
        Head head{buffer.substr(0, end + 4)};
        buffer.erase(0, end + 4);
        if (is_response && head.bytes.find(" 100 ") == 8) continue;
        return head;
      }
      if (buffer.size() > kHeadBytesMax) throw Ended{};
      buffer += take(from, is_response ? client_ : from);
    }
  }

  std::string take_buffered(RawConnection &from, std::string &buffer, std::uint64_t bytes_max) {
    if (buffer.empty()) buffer = take(from, from);
    const std::size_t bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, buffer.size()));
    std::string piece = buffer.substr(0, bytes);
    buffer.erase(0, bytes);
    return piece;
  }

  void skip(RawConnection &from, std::string &buffer, std::uint64_t bytes) {
    while (bytes > 0) bytes -= take_buffered(from, buffer, bytes).size();
  }

  /// What comes next. Ends the connection when its other end does, or that of `watched`, or when both are
  /// silent for too long.
  std::string take(RawConnection &from, RawConnection &watched) {
    pollfd polled[] = {{from.descriptor(), POLLIN, 0}, {watched.descriptor(), POLLRDHUP, 0}};
    const nfds_t count = &from == &watched ? 1 : 2;
    const auto since = Clock::now();
    // In steps, as the limit may change meanwhile.
    while (::poll(polled, count, static_cast<int>(kLookInterval.count())) == 0) {
      const milliseconds patience = plan_.patience();
      if (Clock::now() - since < patience) continue;
      plan_.count_one();
      say("reset, as it was silent for " + std::to_string(patience.count()) + " ms");
      throw Ended{.with_reset = true};
    }
    if (polled[0].revents == 0) throw Ended{.with_reset = true};
    std::string piece = from.receive();
    if (piece.empty()) throw Ended{};
    return piece;
  }

  void put(RawConnection &to, std::string_view bytes) {
    if (!to.send(bytes, kPatience)) throw Ended{.with_reset = true};
  }

  /// Waits, but not for longer than the client does.
  void hold(milliseconds duration) {
    pollfd polled{client_.descriptor(), POLLRDHUP, 0};
    if (::poll(&polled, 1, static_cast<int>(duration.count())) != 0) throw Ended{.with_reset = true};
  }

  void say(const std::string &text) const {
    std::fprintf(stderr, "connection %llu %s: %s\n", static_cast<unsigned long long>(number_), what_.c_str(),
                 text.c_str());
  }

  RawConnection client_;
  RawConnection server_;
  Plan &plan_;
  const std::uint64_t number_;
  std::string from_client_;
  std::string from_server_;
  std::string what_ = "(no request)";
};

void serve(RawListener &listener, std::uint16_t port, Plan &plan) {
  for (std::uint64_t number = 1;; ++number) {
    try {
      RawConnection client = listener.accept();
      std::thread([client = std::move(client), port, &plan, number]() mutable {
        try {
          Passage(std::move(client), port, plan, number).run();
        } catch (const std::exception &error) {
          std::fprintf(stderr, "connection %llu: %s\n", static_cast<unsigned long long>(number),
                       error.what());
        }
      }).detach();
    } catch (const std::runtime_error &) {
      // Nobody has connected for a while.
    }
  }
}

void obey(const std::string &line, Plan &plan) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "count") {
    std::cout << plan.made() << std::endl;
    return;
  }
  if (command == "idle") {
    std::int64_t idle = 0;
    words >> idle;
    plan.set_idle(milliseconds(idle));
  } else if (command == "faults") {
    std::string list;
    std::string only;
    std::uint64_t share = 0;
    std::uint64_t limit = 0;
    std::uint64_t seed = 0;
    words >> list >> share >> limit >> seed >> only;
    std::vector<std::string> kinds;
    std::istringstream names(list == "none" ? "" : list);
    for (std::string kind; std::getline(names, kind, ',');) kinds.push_back(kind);
    plan.set(kinds, share, limit, seed, only);
  }
  std::cout << "ok" << std::endl;
}

}  // namespace
}  // namespace parsyn::test

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  const auto port = static_cast<std::uint16_t>(std::strtoul(argv[1], nullptr, 10));
  // Not destroyed: connections are served until the process ends.
  static parsyn::test::Plan plan;
  static parsyn::test::RawListener listener;
  std::cout << listener.port() << std::endl;
  std::thread([port] { parsyn::test::serve(listener, port, plan); }).detach();
  for (std::string line; std::getline(std::cin, line);) parsyn::test::obey(line, plan);
  std::_Exit(0);
}
