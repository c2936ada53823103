#include "chief/ledgers/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal {

absl::StatusOr<uint64_t> Membership::Register(absl::Time now, const Application& application) {
  Member& member = members_[application.task];
  if ((member.live || member.expired) && member.nonce == application.nonce) {
    Revive(now, &member);
    return member.incarnation;
  }
  if (member.live && member.connected) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "%s is already running: process %d on %s, with its last call %s ago; give every "
        "task its own --task_index",
        application.task.ToString(), member.process_id, member.host,
        absl::FormatDuration(now - member.last_contact)));
  }
  const uint32_t restarts = member.incarnation == 0 ? 0 : member.restarts + 1;
  member = Member();
  member.restarts = restarts;
  member.incarnation = (options_.term << 32) + ++issued_;
  member.nonce = application.nonce;
  member.address = application.address;
  member.host = application.host;
  member.process_id = application.process_id;
  member.registered = now;
  member.last_contact = now;
  member.live = true;
  return member.incarnation;
}

absl::Status Membership::Renew(absl::Time now, TaskId task, uint64_t incarnation) {
  Member* member = FindMutable(task);
  const bool holds =
      member != nullptr && member->incarnation == incarnation && (member->live || member->expired);
  if (!holds) {
    if (member != nullptr && member->incarnation == incarnation && !member->lost_by.empty()) {
      return absl::AbortedError(absl::StrCat("fenced incarnation: ", task.ToString(),
                                             " has lost its place: ", member->lost_by));
    }
    return absl::AbortedError(absl::StrCat("fenced incarnation: another process has the place of ",
                                           task.ToString(), ", or the sender's lease has ended"));
  }
  Revive(now, member);
  return absl::OkStatus();
}

void Membership::Revive(absl::Time now, Member* member) {
  member->last_contact = now;
  member->connected = true;
  member->live = true;
  member->expired = false;
}

void Membership::GrantLeases(absl::Time now) {
  for (auto& [task, member] : members_) {
    if (member.live) member.connected = true;
  }
  granted_ = now;
}

void Membership::Disconnect(absl::Time now, TaskId task, uint64_t incarnation) {
  Member* member = FindMutable(task);
  if (member == nullptr || member->incarnation != incarnation || !member->connected) return;
  if (now < granted_ + options_.lease) return;
  member->connected = false;
  member->last_contact = now;
}

void Membership::Leave(TaskId task, uint64_t incarnation, bool asked_to_leave) {
  Member* member = FindMutable(task);
  if (member == nullptr || member->incarnation != incarnation) return;
  member->live = false;
  member->expired = false;
  member->asked_to_leave = asked_to_leave;
}

void Membership::TakePlace(TaskId task, const std::string& why) {
  Member* member = FindMutable(task);
  if (member == nullptr) return;
  Leave(task, member->incarnation);
  member->lost_by = why;
}

std::vector<TaskId> Membership::Expire(absl::Time now) {
  std::vector<TaskId> ended;
  for (auto& [task, member] : members_) {
    if (!member.live) continue;
    const absl::Duration silence = now - std::max(member.last_contact, granted_);
    if (silence > options_.lease || (!member.connected && silence > options_.grace)) {
      member.live = false;
      member.expired = true;
      ended.push_back(task);
    }
  }
  return ended;
}

bool Membership::IsLive(TaskId task) const {
  const Member* member = Find(task);
  return member != nullptr && member->live;
}

const Member* Membership::Find(TaskId task) const {
  auto it = members_.find(task);
  return it == members_.end() ? nullptr : &it->second;
}

Member* Membership::FindMutable(TaskId task) {
  auto it = members_.find(task);
  return it == members_.end() ? nullptr : &it->second;
}

std::vector<uint32_t> Membership::Live(Job job) const {
  std::vector<uint32_t> indices;
  for (const auto& [task, member] : members_) {
    if (task.job == job && member.live) indices.push_back(task.index);
  }
  return indices;
}

}  // namespace shoal
