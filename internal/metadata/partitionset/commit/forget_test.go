package commit

import (
	"testing"
	"testing/synctest"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// TestSetThatDoesNotExistIsForgotten checks that the writer keeps no state about a set that no
// longer exists. A change that is being written at that time must still be settled. If the set is
// created again, a later change must be made as usual.
func TestSetThatDoesNotExistIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &blocked{&client{server: newServer(9)}, make(chan string, 10), make(chan struct{})}
		writer := New(api, Options{})
		var decided int32
		settled := make(chan error, 2)
		for _, key := range []partitionset.Key{key, {Topic: "orders", Index: 1}} {
			go func() { settled <- writer.ChangeStatus(t.Context(), "demo-0", raise(key, &decided)) }()
			synctest.Wait() // until the first change is being written, and the second one waits
		}
		writer.Forget("demo-0")
		close(api.release)
		for range 2 {
			if err := <-settled; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if len(writer.mu.queues) > 0 {
			t.Error("the writer stores the set whose change was being written")
		}
		if err := writer.ChangeStatus(t.Context(), "demo-0", raise(key, &decided)); err != nil ||
			decided != 2 {
			t.Errorf("got %v, epoch %d, want epoch 2", err, decided)
		}
		synctest.Wait()
		writer.Forget("demo-0")
		writer.Forget("demo-1")
		if len(writer.mu.queues) > 0 {
			t.Error("the writer stores a set of which no change is pending")
		}
	})
}
