// Server-Sent Events (WHATWG HTML, section 9.2), piece by piece as they arrive.
//
// Thread-safety: of one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace parsyn::programs {

struct StreamEvent {
  std::string id;    ///< Of this event, or of the last one that had one.
  std::string type;  ///< "message" when the stream says none.
  std::string data;  ///< Lines joined by line feeds.
};

class EventParser {
 public:
  explicit EventParser(std::function<void(const StreamEvent &)> on_event) : on_event_(std::move(on_event)) {}

  /// Events that `piece` completes are handed on before it returns.
  void feed(std::string_view piece);
  /// Forgets an event that a broken connection left half; the last id stays.
  void reset();
  /// What a new connection sends as Last-Event-ID; empty: none yet.
  const std::string &last_id() const { return last_id_; }

 private:
  void take_line(std::string_view line);
  void dispatch();

  std::function<void(const StreamEvent &)> on_event_;
  std::string rest_;  // of a line that has not ended
  bool after_carriage_return_ = false;
  std::string type_;
  std::string data_;
  bool has_data_ = false;
  std::string id_;       // seen, not yet dispatched
  std::string last_id_;  // of the last dispatched event
};

}  // namespace parsyn::programs
