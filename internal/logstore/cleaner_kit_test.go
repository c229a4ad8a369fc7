package logstore

import (
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// withoutValue is the batch with null values: tombstones.
func (s sent) withoutValue(t testing.TB) []byte {
	t.Helper()
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(record.Identity{LastOffsetDelta: int32(len(s.keys) - 1), LeaderEpoch: -1,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	for i, key := range s.keys {
		b.Add(&record.Record{Offset: int64(i), Timestamp: s.timestamp.UnixMilli(),
			Key: []byte(key)})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// crashRecorder calls take before each change of the filesystem's names and each sync, while it is
// on.
type crashRecorder struct {
	vfs.FS
	on   atomic.Bool
	take func()
}

func (r *crashRecorder) moment() {
	if r.on.Load() {
		r.take()
	}
}

func (r *crashRecorder) Create(name string) (vfs.File, error) {
	r.moment()
	return r.FS.Create(name)
}

func (r *crashRecorder) Rename(oldName, newName string) error {
	r.moment()
	return r.FS.Rename(oldName, newName)
}

func (r *crashRecorder) Remove(name string) error {
	r.moment()
	return r.FS.Remove(name)
}

func (r *crashRecorder) SyncDir(name string) error {
	r.moment()
	return r.FS.SyncDir(name)
}
