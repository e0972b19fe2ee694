#include "coordinator/sessions.hpp"

#include <algorithm>
#include <utility>

#include "parsyn/error.hpp"

namespace parsyn::coordinator {
namespace {

/// Of processes replaced, per worker: more than can be at work with one token by mistake.
constexpr std::size_t kReplacedMax = 16;

void answer_parked(Session &session, std::optional<Task> task, Effects &effects) {
  if (!session.parked) return;
  effects.push_back(
      [answer = std::exchange(session.parked, nullptr), task = std::move(task)] { answer(task); });
}

[[noreturn]] void refuse_lease(std::string code, std::string message) {
  throw Error(ErrorCode::conflict, message, {{"lease", std::move(code), message}});
}

[[noreturn]] void refuse_superseded(Id worker) {
  refuse_lease("lease_superseded", "a newer process has opened a session as worker " +
                                       std::to_string(worker) + ": this one must stop");
}

}  // namespace

Session &Sessions::open(Id worker, const SessionRequest &request, Time expires, Effects &effects) {
  Session session;
  if (Session *older = find(worker)) {
    if (older->instance == request.instance) {
      older->expires = expires;
      return *older;
    }
    // Else a request of the replaced process that comes late, or again, would end the newer one.
    if (std::ranges::find(older->replaced, request.instance) != older->replaced.end())
      refuse_superseded(worker);
    answer_parked(*older, std::nullopt, effects);
    session.replaced = std::move(older->replaced);
    if (session.replaced.size() == kReplacedMax) session.replaced.erase(session.replaced.begin());
    session.replaced.push_back(older->instance);
  }
  session.lease = ++last_lease_;
  session.instance = request.instance;
  session.expires = expires;
  session.capabilities = request.capabilities;
  session.local_datasets = request.local_datasets;
  return sessions_[worker] = std::move(session);
}

void Sessions::restore(Id worker, const wire::StoredSession &stored, Time expires) {
  Session session;
  session.lease = stored.lease;
  session.instance = stored.instance;
  session.replaced = stored.replaced;
  session.expires = expires;
  session.capabilities = stored.capabilities;
  session.local_datasets = stored.local_datasets;
  session.kept_tasks = stored.tasks;
  sessions_[worker] = std::move(session);
}

void Sessions::end(Id worker, Effects &effects) {
  const auto found = sessions_.find(worker);
  if (found == sessions_.end()) return;
  answer_parked(found->second, std::nullopt, effects);
  sessions_.erase(found);
}

Session *Sessions::find(Id worker) {
  const auto found = sessions_.find(worker);
  return found == sessions_.end() ? nullptr : &found->second;
}

const Session *Sessions::find(Id worker) const {
  const auto found = sessions_.find(worker);
  return found == sessions_.end() ? nullptr : &found->second;
}

Session &Sessions::live(Id worker, std::uint64_t lease) {
  Session *session = find(worker);
  if (session == nullptr)
    refuse_lease("lease_expired", "the lease has ended: open a session and ask for a task");
  if (session->lease > lease) refuse_superseded(worker);
  if (session->lease < lease)
    refuse_lease("lease_expired", "the lease is not known: open a session and ask for a task");
  return *session;
}

void Sessions::give(Session &session, Task task, Effects &effects) {
  session.tasks.push_back(std::move(task));
  if (session.tasks.size() == 1) answer_parked(session, session.tasks.front(), effects);
}

void Sessions::park(Session &session, std::function<void(std::optional<Task>)> answer, Time until,
                    Effects &effects) {
  answer_parked(session, std::nullopt, effects);
  session.progress.reset();  // who asks for a task is not at work on one
  session.parked = std::move(answer);
  session.parked_until = until;
  if (!session.tasks.empty()) answer_parked(session, session.tasks.front(), effects);
}

void Sessions::drop(Session &session, const std::function<bool(const Task &)> &drop) {
  std::erase_if(session.tasks, drop);
}

const Task *Sessions::find_task(const Session &session, std::uint64_t task_id) {
  const auto found = std::ranges::find(session.tasks, task_id, &Task::task_id);
  return found == session.tasks.end() ? nullptr : &*found;
}

void Sessions::extend(Time duration) {
  for (auto &[id, session] : sessions_) {
    session.expires += duration;
    session.progressed += duration;
  }
}

std::vector<Id> Sessions::expired(Time now) const {
  std::vector<Id> workers;
  for (const auto &[id, session] : sessions_) {
    if (session.expires <= now) workers.push_back(id);
  }
  return workers;
}

void Sessions::release_polls(Time now, Effects &effects) {
  for (auto &[id, session] : sessions_) {
    if (session.parked && session.parked_until <= now) answer_parked(session, std::nullopt, effects);
  }
}

void Sessions::release_all_polls(Effects &effects) {
  for (auto &[id, session] : sessions_) answer_parked(session, std::nullopt, effects);
}

std::optional<Time> Sessions::next_wake() const {
  std::optional<Time> next;
  for (const auto &[id, session] : sessions_) {
    const Time wake = session.parked ? std::min(session.expires, session.parked_until) : session.expires;
    if (!next || wake < *next) next = wake;
  }
  return next;
}

}  // namespace parsyn::coordinator
