// Package passlog keeps the last passes of a broker's cleaner with their steps, for reports and for
// a console that replays them. A pass over a small log takes a tenth of a second, so its steps can
// only be shown afterwards.
//
// Log is the list of passes, in memory and in the files cleaner-history and cleaner-history.1
// (docs/internals/format/cleaner-history.md). A Running is a pass that has begun. Recorder, which
// is pure, decides which steps of a pass are kept.
//
// Totals are the sums of all passes over one log, including passes that are no longer in the list.
// The totals are in memory and in the file cleaner-totals
// (docs/internals/format/cleaner-totals.md), by topic id and partition.
//
// # Invariants
//
//   - A Log has at most report.PassesMax passes. Each pass has at most report.PassStepsMax steps,
//     and all passes together have at most stepsMax steps. If there are more, the oldest passes
//     lose their steps first.
//   - The ids of passes ascend, even across restarts and if the clock is set back.
//   - The files are only for information. If they are lost or damaged, reports lack the passes in
//     them. So lines are never synced, and a failed write is logged and otherwise ignored.
//   - The file of the totals has at most two lines for each log and 128 more.
//
// # Locks
//
// Log.writing is acquired before Log.mu, and held while a file is written. Log.mu is held only
// briefly. The functions of Observer are called without a lock. One goroutine uses a Running,
// except for the part of the Running that Log.mu guards.
package passlog
