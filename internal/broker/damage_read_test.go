package broker

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/test/kit/await"
)

// TestDamageIsFoundByReads flips a bit on the disk of a stopped broker. After the broker has
// started, no scrub is due, so the first read of the batch must detect the damage and trigger the
// repair.
func TestDamageIsFoundByReads(t *testing.T) {
	c := newTrio(t, func(topic *v1alpha1.Topic) {
		topic.Spec.Segment = &v1alpha1.Segment{Size: resource.NewQuantity(1024, resource.BinarySI)}
	})
	producing, stop := context.WithCancel(t.Context())
	acknowledged := c.produce(producing)
	c.more(100)
	stop()
	n := acknowledged()
	state := c.scrubAll(0)
	await.Until(t, "a round of the scrub", func() bool { return state().Complete })
	c.stop(0)
	name := c.flipOnDisk(0)
	c.start(0, true)
	c.await("all replicas in sync", c.inSync(3))
	log := c.brokers[0].store.Log(damagedPartition)
	if slice, err := log.Read(0, log.HighWatermark(), 1<<20, true); err == nil {
		slice.Release()
		t.Error("the damaged batch was returned")
	} else if !errors.Is(err, logstore.ErrStorage) {
		t.Errorf("read of the damaged batch: %v", err)
	}
	await.Until(t, "a repair",
		func() bool { return repairedIn(c.brokers[0].scrub.State(), name) })
	slice, err := log.Read(0, log.HighWatermark(), 1<<20, true)
	if err != nil {
		t.Fatalf("read of the repaired batch: %v", err)
	}
	slice.Release()
	c.consume(n)
}
