// Package segmentlist keeps the segments of a log for concurrent readers: the log's segment list at
// one moment (List), the segments with their reference counts (Handle), and the current list
// (Current).
//
// # Invariants
//
//   - A list never changes and is never empty. Its last segment is the active one.
//   - The files of a segment exist as long as a list or a reader refers to the segment's handle.
//     The last release closes the files, and deletes them if the handle is doomed.
//   - A handle or a list whose reference count has fallen to 0 is never acquired again.
//
// The package acquires no lock. The owner of a Current guards its changes with the owner's lock.
// The last release of a handle may wait for the disk.
package segmentlist
