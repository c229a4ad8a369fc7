// Package vfs is the filesystem as the log store uses it, so that the same code runs on a real disk
// and on one that crashes, fills up or fails at will.
//
//   - OS is the real one. Lock is flock, Free is statfs.
//   - Mem is one in memory that is as strict as POSIX allows: content is durable after File.Sync
//     only, directory entries after FS.SyncDir only. CrashClone returns what a power cut would
//     leave.
//   - Fault wraps another and makes chosen operations fail, also after half a write.
//   - Trace wraps another and notes every operation that matters to durability, one line each, for
//     golden files: each durable change in this project is a written order of create, write, sync
//     and rename.
//
// All are safe for concurrent use. None has a goroutine. The mutexes of Mem, Fault and Trace are
// leaves: nothing is called while one is held.
package vfs
