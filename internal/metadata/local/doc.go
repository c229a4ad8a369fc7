// Package local keeps the metadata of a cluster that runs in one process in one file
// (docs/format/local-metadata.md), and hands it to the brokers of that process. It decides as the
// operator does, through internal/placement.
//
// document.go is the file's content and its reading; sync.go, create.go, alter.go and decide.go are
// (mostly) pure changes of it; store.go is the shell, brokers.go its part that brokers talk to,
// isr.go their proposals.
//
// Order of a change: the new document is made, written, and only then shown. So what a broker was
// told, a crash cannot take back: above all a leader epoch, which brokers stamp on records.
//
// Locks: changing, then shown. changing makes changes wait for each other and is held while the
// file is written; nobody who reads takes it. shown guards what readers see, for a few
// instructions. Neither is held while apply runs.
//
// The package has no goroutine of its own: Run runs in its caller's.
package local
