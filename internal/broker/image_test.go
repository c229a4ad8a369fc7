package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"heartwood.dev/heartwood/internal/metadata"
)

func TestAwaitEndsWithTheImageOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Broker{}
		b.images.start(metadata.NewImage("0", metadata.CleanerBudget{}, nil, nil))
		is := func(id string) func(*metadata.Image) bool {
			return func(img *metadata.Image) bool { return img.ClusterID == id }
		}
		b.await(t.Context(), is("0")) // returns at once
		go func() {
			for _, id := range []string{"1", "2"} {
				time.Sleep(time.Second)
				b.images.apply(metadata.NewImage(id, metadata.CleanerBudget{}, nil, nil))
			}
		}()
		begin := time.Now()
		b.await(t.Context(), is("2"))
		if waited := time.Since(begin); waited != 2*time.Second {
			t.Errorf("waited %s for the second image, want 2s", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.await(ctx, is("never"))
		if waited := time.Since(begin); waited != 62*time.Second {
			t.Errorf("await returned after %s, want 62s", waited)
		}
	})
}

// TestTopicExistsOnceItIsCreated checks that a topic can be described immediately after its
// creation without retries.
func TestTopicExistsOnceItIsCreated(t *testing.T) {
	c := newCluster(t)
	c.start()
	admin := kadm.NewClient(c.client())
	for range 20 {
		if _, err := admin.CreateTopic(t.Context(), 2, 1, nil, "made"); err != nil {
			t.Fatal(err)
		}
		configs, err := admin.DescribeTopicConfigs(t.Context(), "made")
		if err != nil || configs[0].Err != nil {
			t.Fatalf("describe the created topic: error %v, configs %+v", err, configs)
		}
		if _, err := admin.DeleteTopic(t.Context(), "made"); err != nil {
			t.Fatal(err)
		}
	}
}
