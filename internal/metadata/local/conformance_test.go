package local

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/metadatatest"
)

// world is a cluster whose metadata are in a file in memory.
type world struct {
	fs    *vfs.Fault
	store *Store
	kill  map[int32]context.CancelFunc
}

func TestConformance(t *testing.T) {
	metadatatest.Run(t, metadatatest.Local, func(t testing.TB) metadatatest.World {
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

// killable is a Session whose Run ends when the test kills the broker.
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

// Decide does nothing, because each change makes the resulting decisions.
func (w *world) Decide(testing.TB) {}

// LeaveAll implements metadatatest.Elects.
func (w *world) LeaveAll() error { return w.store.LeaveAll() }

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
