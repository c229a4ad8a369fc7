package remote

import (
	"context"
	"net"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/metadatatest"
)

// world is a local store that serves each broker over a connection.
type world struct {
	fs     *vfs.Fault
	store  *local.Store
	served map[int32]*served
}

// served is the connection of one broker.
type served struct {
	conn  net.Conn
	ended chan struct{}
}

const file = "/data/metadata.json"

func TestConformance(t *testing.T) {
	metadatatest.Run(t, func(t testing.TB) metadatatest.World {
		w := &world{fs: vfs.NewFault(vfs.NewMem()), served: map[int32]*served{}}
		if err := w.fs.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		w.Reopen(t)
		if err := w.store.Sync(nil, metadatatest.Brokers, nil); err != nil {
			t.Fatal(err)
		}
		return w
	})
}

func (w *world) Open(_ testing.TB, broker int32) metadatatest.Store {
	near, far := net.Pipe()
	s := &served{near, make(chan struct{})}
	w.served[broker] = s
	go func() {
		defer close(s.ended)
		_ = Serve(context.Background(), far, broker, local.Session{Store: w.store, Broker: broker})
	}()
	return NewClient(near)
}

// Kill closes the connection of a broker, as the end of its process does.
func (w *world) Kill(broker int32) {
	_ = w.served[broker].conn.Close()
	<-w.served[broker].ended
}

// Decide does nothing, because the local store makes the decisions with each change.
func (w *world) Decide(testing.TB) {}

func (w *world) Reopen(t testing.TB) {
	var err error
	if w.store, err = local.Open(w.fs, file); err != nil {
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
