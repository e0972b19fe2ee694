#include "http/exchange.hpp"

#include <new>
#include <utility>

namespace parsyn::http {

void Exchange::send(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::waiting) return;
  if (const auto channel = channel_.lock()) channel->queue_answer(shared_from_this(), std::move(response));
  phase_ = Phase::answered;
}

bool Exchange::start_stream(int status, Headers headers) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::waiting) return false;
  const auto channel = channel_.lock();
  if (!channel) return false;
  channel->queue_stream(shared_from_this(), status, std::move(headers));
  phase_ = Phase::streaming;
  return true;
}

bool Exchange::write(std::string piece) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::streaming) return false;
  const auto channel = channel_.lock();
  if (!channel) return false;
  const std::uint64_t bytes = piece.size();
  if (queued_bytes_ + bytes > stream_queue_bytes_max_) {
    channel->queue_abort(shared_from_this());
    phase_ = Phase::ended;
    return false;
  }
  if (bytes > 0) channel->queue_piece(shared_from_this(), std::move(piece));
  queued_bytes_ += bytes;
  return true;
}

bool Exchange::is_full() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::streaming && queued_bytes_ >= full_bytes();
}

void Exchange::on_room(std::function<void()> room) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::streaming && queued_bytes_ >= full_bytes()) {
      on_room_ = std::move(room);
      return;
    }
  }
  run_(std::move(room));
}

void Exchange::end_stream() {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::streaming) return;
  if (const auto channel = channel_.lock()) channel->queue_end(shared_from_this());
  phase_ = Phase::ended;
}

bool Exchange::is_gone() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::finished || channel_.expired();
}

void Exchange::on_done(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ != Phase::finished) {
      on_done_.push_back(std::move(gone));
      return;
    }
  }
  run_(std::move(gone));
}

void Exchange::abandon() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const auto channel = channel_.lock();
    if (phase_ == Phase::waiting) {
      if (channel) {
        channel->queue_answer(
            shared_from_this(),
            problem_response(500, "internal", "the request's handler ended without an answer"));
      }
      phase_ = Phase::answered;
    } else if (phase_ == Phase::streaming) {
      if (channel) channel->queue_end(shared_from_this());
      phase_ = Phase::ended;
    }
  } catch (const std::bad_alloc &) {
    // Not even that can be said now: the peer's own patience ends it.
  }
}

void Exchange::written(std::uint64_t bytes) {
  std::function<void()> room;
  {
    const std::lock_guard lock(mutex_);
    queued_bytes_ -= bytes;
    if (queued_bytes_ < full_bytes()) room = std::exchange(on_room_, nullptr);
  }
  if (room) run_(std::move(room));
}

void Exchange::finish() {
  std::vector<std::function<void()>> callbacks;
  std::function<void()> room;
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::finished;
    callbacks.swap(on_done_);
    room = std::exchange(on_room_, nullptr);
  }
  for (auto &callback : callbacks) run_(std::move(callback));
  if (room) run_(std::move(room));
}

void Responder::send(HttpResponse response) const { state_->exchange->send(std::move(response)); }
bool Responder::start_stream(int status, Headers headers) const {
  return state_->exchange->start_stream(status, std::move(headers));
}
bool Responder::write(std::string piece) const { return state_->exchange->write(std::move(piece)); }
bool Responder::is_full() const { return state_->exchange->is_full(); }
void Responder::on_room(std::function<void()> room) const { state_->exchange->on_room(std::move(room)); }
bool Responder::is_gone() const { return state_->exchange->is_gone(); }
void Responder::end_stream() const { state_->exchange->end_stream(); }
void Responder::on_done(std::function<void()> gone) const { state_->exchange->on_done(std::move(gone)); }

}  // namespace parsyn::http
