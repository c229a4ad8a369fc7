// Package vfs is the filesystem interface of the log store. The same code runs on a real disk and
// on filesystems for tests that crash, fill up or fail on demand.
//
//   - OS is the operating system's filesystem. Lock uses flock, Free uses statfs.
//   - Mem is an in-memory filesystem with no more durability than POSIX guarantees: contents are
//     durable only after File.Sync, directory entries only after FS.SyncDir. CrashClone returns
//     what a power cut would leave.
//   - Fault wraps a filesystem and makes selected operations fail, optionally after a short write.
//   - Trace wraps a filesystem and records every operation that matters for durability, one line
//     each, for golden files: each durable change in this project is a documented sequence of
//     create, write, sync and rename.
//
// All of them are safe for concurrent use, and none starts a goroutine. The mutexes of Mem, Fault
// and Trace are leaf locks: no other function is called while one is held. A Handle's mutex is
// acquired before that of its Handles, never after it.
package vfs
