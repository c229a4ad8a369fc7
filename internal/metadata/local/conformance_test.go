package local

import (
	"context"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/metadatatest"
)

// world is a cluster whose metadata is in a file in memory.
type world struct {
	fs    *vfs.Fault
	store *Store
	kill  map[int32]context.CancelFunc
}

func TestConformance(t *testing.T) {
	metadatatest.Run(t, func(t testing.TB) metadatatest.World {
		w := &world{fs: vfs.NewFault(vfs.NewMem()), kill: map[int32]context.CancelFunc{}}
		if err := w.fs.MkdirAll(directory); err != nil {
			t.Fatal(err)
		}
		w.Reopen(t)
		if err := w.store.Sync(nil, metadatatest.Brokers, nil); err != nil {
			t.Fatal(err)
		}
		return w
	})
}

// killable is a Session whose Run ends when the broker is killed.
type killable struct {
	Session
	killed context.Context
}

func (k killable) Run(ctx context.Context, self metadata.Broker,
	apply func(*metadata.Image)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.killed, cancel)()
	return k.Session.Run(ctx, self, apply)
}

func (w *world) Open(_ testing.TB, broker int32) metadatatest.Store {
	killed, kill := context.WithCancel(context.Background())
	w.kill[broker] = kill
	return killable{Session{w.store, broker}, killed}
}

func (w *world) Kill(broker int32) { w.kill[broker]() }

// Decide does nothing, because each change makes the decisions.
func (w *world) Decide(testing.TB) {}

func (w *world) Reopen(t testing.TB) {
	var err error
	if w.store, err = Open(w.fs, file); err != nil {
		t.Fatal(err)
	}
}

// FailWrites makes writes of the metadata file fail.
func (w *world) FailWrites(fail bool) {
	w.fs.Clear()
	if fail {
		w.fs.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	}
}
