package local

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
)

// countingFS counts the writes of the metadata file. Each write ends with a rename.
type countingFS struct {
	vfs.FS
	writes atomic.Int32
}

func (c *countingFS) Rename(from, to string) error {
	c.writes.Add(1)
	return c.FS.Rename(from, to)
}

// TestConcurrentChangesShareAWrite checks that forty deletions that wait for another change are
// made in one write, and that a failed change does not affect the others.
func TestConcurrentChangesShareAWrite(t *testing.T) {
	disk := &countingFS{FS: memory(t)}
	s := open(t, disk)
	const topics = 40
	createTopics(t, s, topics)
	before := disk.writes.Load()
	outcomes, unknown := make(chan error, topics), make(chan error, 1)
	s.changing.Lock()
	for i := range topics {
		go func() { outcomes <- s.DeleteTopic(t.Context(), topicName(i)) }()
	}
	go func() { unknown <- s.DeleteTopic(t.Context(), "unknown") }()
	awaitQueued(t, s, topics+1)
	s.changing.Unlock()
	for range topics {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	if err := <-unknown; !errors.Is(err, metadata.ErrTopicNotFound) {
		t.Errorf("deletion of an unknown topic: %v", err)
	}
	if n := disk.writes.Load() - before; n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	if left := s.Image().Topics; len(left) != 0 {
		t.Errorf("%d topics are left", len(left))
	}
}

// TestFailedWriteFailsAllChangesOfAQueue checks that changes that share a write fail together,
// without any effect.
func TestFailedWriteFailsAllChangesOfAQueue(t *testing.T) {
	fault := vfs.NewFault(memory(t))
	s := open(t, fault)
	createTopics(t, s, 3)
	fault.Inject(vfs.Rule{Op: vfs.OpSync})
	s.changing.Lock()
	outcomes := make(chan error, 3)
	for i := range 3 {
		go func() { outcomes <- s.DeleteTopic(t.Context(), topicName(i)) }()
	}
	awaitQueued(t, s, 3)
	s.changing.Unlock()
	for range 3 {
		if err := <-outcomes; !errors.Is(err, ErrNotWritten) {
			t.Errorf("got %v, want ErrNotWritten", err)
		}
	}
	if left := s.Image().Topics; len(left) != 3 {
		t.Errorf("%d topics are left, want 3", len(left))
	}
}

func topicName(i int) string { return fmt.Sprintf("t%d", i) }

func createTopics(t *testing.T, s *Store, n int) {
	t.Helper()
	for i := range n {
		if _, err := s.CreateTopic(t.Context(), metadata.NewTopic{Name: topicName(i),
			Partitions: 1, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitQueued waits until n changes wait for the lock changing. The caller holds this lock.
func awaitQueued(t *testing.T, s *Store, n int) {
	t.Helper()
	queued := func() int {
		s.queue.Lock()
		defer s.queue.Unlock()
		return len(s.queue.changes)
	}
	await.For(t, func() string {
		if got := queued(); got != n {
			return fmt.Sprintf("%d changes wait, want %d", got, n)
		}
		return ""
	})
}
