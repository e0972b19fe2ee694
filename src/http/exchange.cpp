#include "http/exchange.hpp"

#include <utility>

namespace parsyn::http {

void Exchange::send(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::waiting) return;
  phase_ = Phase::answered;
  if (const auto channel = channel_.lock()) channel->queue_answer(shared_from_this(), std::move(response));
}

bool Exchange::start_stream(int status, Headers headers) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::waiting) return false;
  const auto channel = channel_.lock();
  if (!channel) return false;
  phase_ = Phase::streaming;
  channel->queue_stream(shared_from_this(), status, std::move(headers));
  return true;
}

bool Exchange::write(std::string piece) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::streaming) return false;
  const auto channel = channel_.lock();
  if (!channel) return false;
  if (queued_bytes_ + piece.size() > stream_queue_bytes_max_) {
    phase_ = Phase::ended;
    channel->queue_abort(shared_from_this());
    return false;
  }
  queued_bytes_ += piece.size();
  if (!piece.empty()) channel->queue_piece(shared_from_this(), std::move(piece));
  return true;
}

void Exchange::end_stream() {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::streaming) return;
  phase_ = Phase::ended;
  if (const auto channel = channel_.lock()) channel->queue_end(shared_from_this());
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

void Exchange::abandon() {
  const std::lock_guard lock(mutex_);
  const auto channel = channel_.lock();
  if (phase_ == Phase::waiting) {
    phase_ = Phase::answered;
    if (channel) {
      channel->queue_answer(
          shared_from_this(),
          problem_response(500, "internal", "the request's handler ended without an answer"));
    }
  } else if (phase_ == Phase::streaming) {
    phase_ = Phase::ended;
    if (channel) channel->queue_end(shared_from_this());
  }
}

void Exchange::written(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  queued_bytes_ -= bytes;
}

void Exchange::finish() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::finished;
    callbacks.swap(on_done_);
  }
  for (auto &callback : callbacks) run_(std::move(callback));
}

void Responder::send(HttpResponse response) const { state_->exchange->send(std::move(response)); }
bool Responder::start_stream(int status, Headers headers) const {
  return state_->exchange->start_stream(status, std::move(headers));
}
bool Responder::write(std::string piece) const { return state_->exchange->write(std::move(piece)); }
void Responder::end_stream() const { state_->exchange->end_stream(); }
void Responder::on_done(std::function<void()> gone) const { state_->exchange->on_done(std::move(gone)); }

}  // namespace parsyn::http
