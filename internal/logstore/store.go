package logstore

import (
	"fmt"
	"log/slog"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// PartitionID names a partition; its directory is <Topic>-<Index>.
type PartitionID struct {
	Topic string
	Index int32
}

// String returns the directory's name.
func (p PartitionID) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

// TopicID is a topic's id, kept in partition.metadata.
type TopicID [16]byte

// Options of a Store.
type Options struct {
	FS            vfs.FS
	Dir           string
	Logger        *slog.Logger
	FlushInterval time.Duration // how often unsynced data is synced and checkpoints are written; default 1s
	// Failed is called, from a goroutine of the store, when a log stops because its disk failed. May be nil.
	Failed func(PartitionID, error)
}

// Store is one data directory: a log a partition. It holds the directory's lock.
type Store struct{}

// Open locks the directory, brings every log in it back (a scan from the recovery point after an unclean stop), and starts the
// background flush and retention. vfs.ErrLocked is wrapped when another process holds the directory.
func Open(opts Options) (*Store, error) { panic("unwritten") }

// DirectoryID identifies the disk: made once, kept in meta.properties.
func (s *Store) DirectoryID() TopicID { panic("unwritten") }

// Log returns a partition's log, nil if there is none. Logs returns all, sorted.
func (s *Store) Log(id PartitionID) *Log { panic("unwritten") }
func (s *Store) Logs() []*Log            { panic("unwritten") }

// Create makes a partition's log, or returns the one that is there for the same topic id. A log retained by Release under the
// same name is taken up again under the new topic id; one of another topic id that was not retained is an error.
func (s *Store) Create(id PartitionID, topic TopicID, settings topicconfig.Settings, retain bool) (*Log, error) {
	panic("unwritten")
}

// Release ends a partition here: its data is deleted, or, with retain, moved aside for a later Create.
func (s *Store) Release(id PartitionID, retain bool) error { panic("unwritten") }

// Close syncs everything, writes checkpoints and the clean-shutdown marker, and unlocks the directory.
func (s *Store) Close() error { panic("unwritten") }
