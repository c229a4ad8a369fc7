// Package segmentlist holds the segments of a log for concurrent readers: the list of a log at one
// moment (List), its segments with their reference counts (Handle), and the current list (Current).
//
// # Invariants
//
//   - A list never changes and is never empty. Its last segment is the active one.
//   - The files of a segment exist as long as something refers to its handle: a list, or a reader.
//     The last release closes the files, and deletes them if the handle is doomed.
//   - Nothing acquires a handle or a list whose count has fallen to 0.
//
// The package acquires no lock. The owner of a Current guards its changes by its own lock. The last
// release of a handle may wait for the disk.
package segmentlist
