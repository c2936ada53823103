"""Writes a source of the program with promises that can be broken at run time.

    break.py SOURCE OUTPUT

The output is the source with the changes below. Linked into a test in place of the original, it shows that
the simulation notices a program that breaks the promise; the program itself has no seam for that. A line
that is not found once has changed: change it here as well.
"""

import sys

# Text and what takes its place, by source.
CHANGES = {
    "runtime/variables/slice_store_sync.cc": [
        (
            "if (arrival == SyncSlice::Arrival::kDuplicate)",
            """if (arrival == SyncSlice::Arrival::kDuplicate && state.sync.num_added() > 0 &&
      IsBroken("repeated contributions count again") && PayloadFits(payload, state.shape)) {
    FoldPayload(payload, state.shape, static_cast<float>(push.examples), false,
                state.values.sum());
  }
  if (arrival == SyncSlice::Arrival::kDuplicate && state.sync.num_added() > 0 &&
      IsBroken("a row counts twice") && state.bucket != nullptr) {
    state.bucket->Add(payload, static_cast<float>(push.examples), false);
  }
  if (arrival == SyncSlice::Arrival::kDuplicate)""",
        ),
        (
            "decisions_.IsSkipped(push.batch)",
            '!IsBroken("withheld batches are taken") && decisions_.IsSkipped(push.batch)',
        ),
        (
            "decisions_.IsRefused(push.batch)",
            '!IsBroken("withheld batches are taken") && decisions_.IsRefused(push.batch)',
        ),
    ],
    "runtime/variables/slice_store_async.cc": [
        (
            "if (HasBatch(state, push.batch)",
            """if (!IsBroken("repeated contributions count again") &&
      !(IsBroken("a row counts twice") && state.bucket != nullptr) && HasBatch(state, push.batch)""",
        ),
        (
            "  ++state.updates;",
            """  const bool is_lost = payload.kind == ContributionKind::kRows && payload.bytes == 0 &&
                       IsBroken("an empty contribution is lost");
  if (!is_lost) ++state.updates;""",
        ),
    ],
    "runtime/variables/slice_store.cc": [
        (
            "case SyncSlice::Value::kPrevious:",
            """case SyncSlice::Value::kPrevious:
      if (IsBroken("the previous version is not kept")) break;""",
        ),
    ],
    "runtime/variables/step_contributions.cc": [
        (
            "  sync_.AddNext(examples);",
            """  const bool is_lost = payload.kind == ContributionKind::kRows && payload.bytes == 0 &&
                       IsBroken("an empty contribution is lost");
  sync_.AddNext(is_lost ? 0 : examples);""",
        ),
    ],
    "runtime/variables/bucket.cc": [
        (
            "IsIdle(stored->stamp, version)",
            """IsIdle(stored->stamp,
                         version > 0 && IsBroken("a row expires a version late") ? version - 1
                                                                                 : version)""",
        ),
        (
            "if (place.has_value()) row = ReadUndo",
            'if (place.has_value() && !IsBroken("an undo is forgotten")) row = ReadUndo',
        ),
        (
            "count >= updater_.options().min_count;",
            'count + (IsBroken("a key is admitted a step early") ? 1 : 0) >= updater_.options().min_count;',
        ),
        (
            "IsIdle(entry->stamp, version)) {",
            'IsIdle(entry->stamp, version) || IsBroken("an expired row continues")) {',
        ),
        (
            "  RETURN_IF_ERROR(CheckBucketRows(rows, version, updater_.row_floats()));",
            """  RETURN_IF_ERROR(CheckBucketRows(rows, version, updater_.row_floats()));
  for (size_t i = 0; i < rows.keys.size() && IsBroken("slots are not restored"); ++i) {
    float* const row =
        const_cast<BucketRows&>(rows).rows.data() + i * updater_.row_floats();
    const std::vector<float> value(row, row + dim_);
    updater_.FillInitialRow(rows.keys[i], row);
    std::copy(value.begin(), value.end(), row);
  }""",
        ),
        (
            "rows.touched[i])",
            """IsBroken("a restored row counts as touched") ? static_cast<uint32_t>(version)
                                                                  : rows.touched[i])""",
        ),
        (
            "return SumOfSquares(sums_.gradients);",
            'return IsBroken("rows are left out of the norm") ? 0 : SumOfSquares(sums_.gradients);',
        ),
        (
            "i < rows.counted_keys.size(); ++i) {",
            'i < rows.counted_keys.size() && !IsBroken("counts are not restored"); ++i) {',
        ),
    ],
    "runtime/checkpoint/bucket_delta.cc": [
        (
            "IsExpired(newest->touched(), version, idle_updates);",
            'IsExpired(newest->touched(), version, idle_updates) &&\n'
            '        !IsBroken("a delta keeps removed rows");',
        ),
        (
            "if (!has_row()) {",
            'if (!has_row() && IsBroken("a delta has no counts")) return;\n    if (!has_row()) {',
        ),
        (
            "  size_t num_rows = 0, num_floats = 0;\n",
            """  if (IsBroken("a bucket is restored at the version of its base")) return layers.front();
  size_t num_rows = 0, num_floats = 0;
""",
        ),
    ],
    "ps/rows_base.cc": [
        (
            "changes.since = versions.at(part.slice);",
            """changes.since =
        versions.at(part.slice) + (IsBroken("a delta misses the rows of a step") ? 1 : 0);""",
        ),
    ],
    "worker/replica/asked_rows.cc": [
        (
            "has_ahead_ = rows_.IsPreparedFor(row_set, epoch_, index_);",
            'has_ahead_ = rows_.IsPreparedFor(row_set, epoch_, index_) ||\n'
            '               IsBroken("rows of an older version are used");',
        ),
    ],
    "worker/replica/row_sets.cc": [
        (
            "if (known == end || *known != wanted.keys[i]) return false;",
            """if (known == end || (*known != wanted.keys[i] &&
                             !IsBroken("a key that was not named gets another row"))) {
          return false;
        }""",
        ),
        (
            "  return sets_[set].is_of_batch && ",
            """  bool has_room = sets_[set].is_of_batch;
  for (size_t t = 0; t < keys.tables().size(); ++t) {
    has_room = has_room &&
               sets_[set].capacity[t] >= static_cast<int64_t>(keys.tables()[t].keys.size());
  }
  if (has_room && IsBroken("the rows of another batch are used")) return true;
  return sets_[set].is_of_batch && """,
        ),
    ],
    "runtime/rpc/receiver_rules.cc": [
        (
            "if (receiver_incarnation != incarnation_ || sender.lineage() != lineage_) {",
            """if (receiver_incarnation != incarnation_ ||
      (sender.lineage() != lineage_ && !IsBroken("lineages are not checked"))) {""",
        ),
        (
            "if (sender.term() > term_) {",
            """if (sender.term() > term_ && IsBroken("a worker's term is believed")) {
    const_cast<ReceiverRules*>(this)->term_ = sender.term();
  }
  if (sender.term() > term_) {""",
        ),
    ],
    "runtime/transport/call_status.cc": [
        (
            "if (answer.ok() || IsOutcomeUnknown(answer)",
            'if (IsBroken("an error from in between is believed")) return answer;\n  '
            "if (answer.ok() || IsOutcomeUnknown(answer)",
        ),
    ],
    "runtime/rpc/chief_session.cc": [
        (
            "    renewed_ = sent;",
            '    renewed_ = IsBroken("a lease counts from its answer") ? clock_->Now() : sent;',
        ),
    ],
    "chief/ledgers/bad_batch_decisions.cc": [
        (
            "const Failures failures = failures_[batch];",
            """if (IsBroken("batches are skipped that some slices have")) anyone = false;
    const Failures failures = failures_[batch];""",
        ),
        (
            "if (anyone && !everyone && hopeless",
            """if (!IsBroken("a batch that cannot be delivered is not undone") && anyone && !everyone &&
        hopeless""",
        ),
        (
            "if (pending.skip",
            'if (!IsBroken("skips are forgotten") && pending.skip',
        ),
        (
            "delivered_.insert(batch);",
            'IsBroken("delivered batches are forgotten") ? void() : void(delivered_.insert(batch));',
        ),
    ],
    "chief/chief_logic.cc": [
        (
            "    stood_still_ += gap;",
            '    if (!IsBroken("a chief that stood still grants no leases")) stood_still_ += gap;',
        ),
    ],
    "chief/ledgers/data_ledger.cc": [
        (
            "if (knows_its_loss && ",
            'if ((knows_its_loss || IsBroken("a worker that comes back finishes its former leases")) &&\n'
            "        ",
        ),
        (
            "i < range.end; ++i) Reissue({number, i}, ps);",
            """i < range.end; ++i) {
        if (!IsBroken("what a ps lost is not issued again")) Reissue({number, i}, ps);
      }""",
        ),
    ],
    "chief/session/roster.cc": [
        (
            "  context_.membership.GrantLeases(now);",
            """  if (!IsBroken("a chief that stood still grants no leases")) {
    context_.membership.GrantLeases(now);
  }""",
        ),
    ],
    "chief/session/sync_mode.cc": [
        (
            "evaluations.num_blocks() > 0) {",
            'evaluations.num_blocks() > 0 &&\n        !IsBroken("lines do not wait for their evaluations")) {',
        ),
        (
            "if (report.step() != newest_step_ + 1) {",
            'if (report.step() != newest_step_ + 1 && !IsBroken("a gap is believed")) {',
        ),
    ],
    "ps/chief_report_logic.cc": [
        (
            "if (!status.ok()) return Failed(now, status, &steps_attempts_);",
            """if ((IsBroken("a refused report is dropped") || IsBroken("a gap is believed")) &&
      status.message().find("no answer of the task itself") != absl::string_view::npos) {
    steps_.erase(steps_.begin(),
                 steps_.begin() + std::min<size_t>(steps_.size(), request.steps_size()));
    return;
  }
  if (!status.ok()) return Failed(now, status, &steps_attempts_);""",
        ),
        (
            "  if (scale.lineage != lineage_) return;\n  if (!status.ok())",
            """  if (scale.lineage != lineage_) return;
  if (!status.ok() && !IsBroken("a scale that could not be applied is forgotten"))""",
        ),
    ],
    "ps/parameter_shard.cc": [
        (
            "std::make_shared<const std::function<bool()>>(std::move(may_act));",
            """std::make_shared<const std::function<bool()>>([may_act = std::move(may_act)] {
    return IsBroken("a ps acts without a lease") || may_act();
  });""",
        ),
        (
            "if (phase_ == Phase::kServing && rules_->lineage() == sender.lineage()) return false;",
            """if (phase_ == Phase::kServing && rules_->lineage() == sender.lineage()) return false;
    if (phase_ == Phase::kServing && IsBroken("only the lost ps goes back")) {
      rules_->set_lineage(sender.lineage());
      return false;
    }""",
        ),
    ],
    "ps/snapshot.cc": [
        (
            "const SavedSliceState state{part.version, part.value_version, part.applied};",
            """const SavedSliceState state{part.version, part.value_version,
                                IsBroken("shards do not know their batches")
                                    ? decltype(part.applied)()
                                    : part.applied};""",
        ),
    ],
    "ps/exchange_service.cc": [
        (
            "return with_checksums_ && Crc32c(data, bytes) != push.crc32c()",
            """if (IsBroken("damaged contributions are taken")) return data;
  return with_checksums_ && Crc32c(data, bytes) != push.crc32c()""",
        ),
        (
            "return with_checksums_ && bytes > 0 && crc32c != push.crc32c()",
            """if (IsBroken("damaged contributions are taken")) return to;
  return with_checksums_ && bytes > 0 && crc32c != push.crc32c()""",
        ),
    ],
}


def main():
    source, output = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    for old, new in CHANGES[source]:
        if text.count(old) != 1:
            sys.exit(f"break.py: {source} has this {text.count(old)} times, not once:\n{old}")
        text = text.replace(old, new)
    with open(output, "w", encoding="utf-8") as file:
        file.write('#include "tests/simulation/broken.h"\n' + text)


main()
