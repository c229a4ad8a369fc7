package remote

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/metadatatest"
)

// world is a local store that serves each broker through a connection.
type world struct {
	fs     *vfs.Fault
	store  *local.Store
	served map[int32]*served
}

// served contains the connection of one broker.
type served struct {
	conn  net.Conn
	ended chan struct{}
}

const file = "/data/metadata.json"

func TestConformance(t *testing.T) {
	metadatatest.Run(t, metadatatest.Remote, func(t testing.TB) metadatatest.World {
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

// Kill closes a broker's connection, as happens when the broker's process exits.
func (w *world) Kill(broker int32) {
	_ = w.served[broker].conn.Close()
	<-w.served[broker].ended
}

// Decide does nothing, because the local store makes its decisions with each change.
func (w *world) Decide(testing.TB) {}

// LeaveAll implements metadatatest.Elects.
func (w *world) LeaveAll() error { return w.store.LeaveAll() }

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

// Apply applies manifests.
func (w *world) Apply(t testing.TB, topics ...*v1alpha1.Topic) {
	if err := w.store.Sync(nil, metadatatest.Brokers, topics); err != nil {
		t.Fatal(err)
	}
}

// GiveUp applies a LogCluster that gives up the partition's records.
func (w *world) GiveUp(t testing.TB, partition metadata.RetainedPartition) {
	cluster := &v1alpha1.LogCluster{}
	cluster.Annotations = map[string]string{
		v1alpha1.AnnotationRemoveRetained: partition.Topic + "=" + partition.Tag}
	if err := w.store.Sync(cluster, metadatatest.Brokers, nil); err != nil {
		t.Fatal(err)
	}
}

// Authenticate applies LogUsers, and a LogCluster whose listener uses passwords.
func (w *world) Authenticate(t testing.TB, users ...*v1alpha1.LogUser) {
	cluster := &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{
		Listeners: v1alpha1.Listeners{{Name: "scram", Port: 9092,
			Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}}}}}
	if err := errors.Join(w.store.Sync(cluster, metadatatest.Brokers, nil),
		w.store.SyncUsers(users, nil)); err != nil {
		t.Fatal(err)
	}
}

// Block blocks the disk.
func (w *world) Block() (waiting func() bool, end func()) {
	until, before := make(chan struct{}), w.fs.Count()
	w.fs.Inject(vfs.Rule{Op: vfs.OpSync, Until: until})
	return func() bool { return w.fs.Count() > before }, func() {
		close(until)
		w.fs.Clear()
	}
}
