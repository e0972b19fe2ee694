// The workers' sessions: leases, the tasks that each worker holds, and its parked question for one.
//
// A task is handed out again at each poll until it is reported or dropped, so that a lost answer loses
// nothing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parsyn/round.hpp"
#include "parsyn/transport.hpp"
#include "wire/journal_documents.hpp"

namespace parsyn::coordinator {

struct Session {
  std::uint64_t lease = 0;
  std::string instance;
  std::vector<std::string> replaced;  // instances whose place this one took, the latest last
  Time expires{0};
  TrainerCapabilities capabilities;
  std::vector<LocalDataset> local_datasets;
  std::vector<Task> tasks;                   // outstanding, oldest first
  std::vector<wire::StoredTask> kept_tasks;  // what the journal is to know of them
  std::optional<TaskProgress> progress;
  std::uint64_t watched_task = 0;  // the outstanding one that it is, or should be, at work on
  Time progressed{0};              // since when that is so, in the same phase and step
  bool stalled = false;            // and that was told to be too long ago
  std::function<void(std::optional<Task>)> parked;  // a poll that waits for a task
  Time parked_until{0};
};

/// Work for after the lock: answers to parked polls.
using Effects = std::vector<std::function<void()>>;

/// Not thread-safe: the coordinator's lock guards it.
class Sessions {
 public:
  /// Replaces an older session of this worker, whose poll is answered empty. Leases only rise. Asked again by
  /// the same process, while its session is live, nothing changes but when it expires: the first answer was
  /// lost, or the network repeats a request. Throws Error(conflict) with a fault "lease_superseded" for a
  /// process whose place a newer one has taken.
  Session &open(Id worker, const SessionRequest &request, Time expires, Effects &effects);
  void end(Id worker, Effects &effects);
  /// After a restart: leases go on after `last`, and these sessions are live again.
  void restore_leases(std::uint64_t last) { last_lease_ = last; }
  void restore(Id worker, const wire::StoredSession &stored, Time expires);
  std::uint64_t last_lease() const { return last_lease_; }

  Session *find(Id worker);
  const Session *find(Id worker) const;
  /// Throws Error(conflict) with a fault "lease_superseded" or "lease_expired" when `lease` is not the live
  /// one.
  Session &live(Id worker, std::uint64_t lease);

  /// Hands the task to a parked poll, or keeps it for the next one.
  void give(Session &session, Task task, Effects &effects);
  void park(Session &session, std::function<void(std::optional<Task>)> answer, Time until, Effects &effects);
  /// Drops the outstanding tasks that `drop` names.
  static void drop(Session &session, const std::function<bool(const Task &)> &drop);
  static const Task *find_task(const Session &session, std::uint64_t task_id);

  /// For so long nobody could be heard: all leases end so much later.
  void extend(Time duration);
  /// Workers whose lease has ended by now.
  std::vector<Id> expired(Time now) const;
  /// Answers the polls that have waited long enough.
  void release_polls(Time now, Effects &effects);
  void release_all_polls(Effects &effects);
  /// When the next lease or poll ends.
  std::optional<Time> next_wake() const;
  const std::map<Id, Session> &all() const { return sessions_; }

 private:
  std::uint64_t last_lease_ = 0;
  std::map<Id, Session> sessions_;
};

}  // namespace parsyn::coordinator
