// Package vfs is the filesystem interface of the log store. The same code runs on a real disk and
// on filesystems for tests that crash, fill up or fail on demand.
//
//   - OS is the operating system's filesystem. Lock uses flock, Free uses statfs.
//   - Mem is an in-memory filesystem with exactly the durability that POSIX guarantees: contents
//     are durable only after File.Sync, directory entries only after FS.SyncDir. CrashClone returns
//     the filesystem after a simulated power cut.
//   - Fault wraps a filesystem and makes selected operations fail. A failing write may write a part
//     of its bytes.
//   - Trace wraps a filesystem and writes a line for every operation that matters for durability.
//     The lines are compared with golden files: each durable change in this project is a documented
//     sequence of create, write, sync and rename.
//
// These types and Handles are safe for concurrent use. They start no goroutines. The mutexes of
// Mem, Fault and Trace are leaf locks: no other lock is acquired while one of them is held. Lock
// order: Handle.mu before Handles.mu. Code that holds Handles.mu may only try to lock Handle.mu,
// without blocking.
package vfs
