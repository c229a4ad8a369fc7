package metadatatest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// cluster is a World with its running brokers.
type cluster struct {
	testing.TB
	kind    Kind
	world   World
	running []*broker
	epochs  map[int32]int64 // highest broker epoch of each broker so far
}

// broker is a running broker with its received images.
type broker struct {
	Store
	c        *cluster
	id       int32
	cancel   context.CancelFunc
	ended    chan struct{}
	err      error
	applying atomic.Bool
	received struct {
		sync.Mutex
		images []received
	}
}

// received is an image together with its content as text when it was applied.
type received struct {
	image   *metadata.Image
	content string
}

// start starts a broker and waits until an image contains it in a new broker epoch.
func (c *cluster) start(id int32) *broker {
	c.Helper()
	return c.startAs(metadata.Broker{ID: id, CleanEpoch: -1, Directory: fmt.Sprintf("disk-%d", id),
		Endpoints: metadata.Endpoints(fmt.Sprintf("kafka://127.0.0.1:%d", 9092+id))})
}

// launch starts a broker. The broker does not have to register.
func (c *cluster) launch(self metadata.Broker) *broker {
	ctx, cancel := context.WithCancel(context.Background())
	b := &broker{Store: c.world.Open(c.TB, self.ID), c: c, id: self.ID, cancel: cancel,
		ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		b.err = b.Run(ctx, self, b.apply)
	}()
	c.running = append(c.running, b)
	return b
}

func (c *cluster) startAs(self metadata.Broker) *broker {
	c.Helper()
	b := c.launch(self)
	image := b.until("the broker is in its image", func(*metadata.Image) bool { return true })
	registered, up := image.Broker(self.ID)
	if !up || registered.Epoch <= c.epochs[self.ID] {
		c.Errorf("broker %d: the first image contains %+v (up: %t), want an epoch above %d", self.ID,
			registered, up, c.epochs[self.ID])
	}
	c.epochs[self.ID] = registered.Epoch
	return b
}

// startAll starts all brokers, and waits until the first broker has an image with all of them.
func (c *cluster) startAll() (all []*broker) {
	c.Helper()
	for id := range int32(Brokers) {
		all = append(all, c.start(id))
	}
	for _, b := range all {
		b.until("all brokers up",
			func(i *metadata.Image) bool { return len(i.Brokers) == Brokers })
	}
	return all
}

// apply records an image and checks it.
func (b *broker) apply(image *metadata.Image) {
	if b.applying.Swap(true) {
		b.c.Errorf("broker %d: apply is called concurrently", b.id)
	}
	defer b.applying.Store(false)
	for _, fault := range invalid(image) {
		b.c.Errorf("broker %d: image: %s", b.id, fault)
	}
	if _, up := image.Broker(b.id); !up {
		b.c.Errorf("broker %d: its image does not contain it", b.id)
	}
	b.received.Lock()
	defer b.received.Unlock()
	b.received.images = append(b.received.images, received{image, contentOf(image)})
}

// contentOf returns the content of an image as text.
func contentOf(image *metadata.Image) string {
	content, err := json.Marshal(image)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// invalid returns the image's violations of the invariants of package metadata.
func invalid(image *metadata.Image) (faults []string) {
	if !slices.IsSortedFunc(image.Brokers,
		func(a, b metadata.Broker) int { return int(a.ID - b.ID) }) {
		faults = append(faults, "the brokers are not sorted")
	}
	if !slices.IsSortedFunc(image.Topics,
		func(a, b *metadata.Topic) int { return strings.Compare(a.Name, b.Name) }) {
		faults = append(faults, "the topics are not sorted")
	}
	for _, topic := range image.Topics {
		for i, p := range topic.Partitions {
			where := fmt.Sprintf("%s-%d: ", topic.Name, i)
			if p.Index != int32(i) {
				faults = append(faults, where+"wrong index")
			}
			if p.Leader != metadata.NoBroker && !slices.Contains(p.ISR, p.Leader) {
				faults = append(faults, where+"the leader is not in the ISR")
			}
			for _, id := range p.ISR {
				if !slices.Contains(p.Replicas, id) {
					faults = append(faults, where+"the ISR is not part of the replicas")
				}
			}
		}
	}
	return faults
}

// last returns the last image, or nil.
func (b *broker) last() *metadata.Image {
	b.received.Lock()
	defer b.received.Unlock()
	if len(b.received.images) == 0 {
		return nil
	}
	return b.received.images[len(b.received.images)-1].image
}

// until waits for an image that satisfies a condition. Meanwhile it makes the decisions that are
// due.
func (b *broker) until(what string, satisfied func(*metadata.Image) bool) *metadata.Image {
	b.c.Helper()
	var found *metadata.Image
	await.For(b.c.TB, func() string {
		select {
		case <-b.ended:
			b.c.Fatalf("broker %d: Run returned %v before: %s", b.id, b.err, what)
		default:
		}
		b.c.world.Decide(b.c.TB)
		if image := b.last(); image != nil && satisfied(image) {
			found = image
			return ""
		}
		return fmt.Sprintf("broker %d: %s", b.id, what)
	})
	return found
}

// untilPartition waits for a partition that satisfies a condition.
func (b *broker) untilPartition(topic string, index int32, what string,
	satisfied func(*metadata.Partition) bool) *metadata.Partition {
	b.c.Helper()
	image := b.until(what, func(i *metadata.Image) bool {
		found := i.Topic(topic)
		return found != nil && int(index) < len(found.Partitions) &&
			satisfied(found.Partitions[index])
	})
	return image.Topic(topic).Partitions[index]
}

// create creates a topic with the given number of partitions and with all brokers as replicas,
// broker 0 first. It waits until broker 0 leads all partitions.
func (b *broker) create(name string, partitions int32) *metadata.Topic {
	b.c.Helper()
	assignment := make([][]int32, partitions)
	for i := range assignment {
		assignment[i] = []int32{0, 1, 2}
	}
	if _, err := b.CreateTopic(b.c.Context(), metadata.NewTopic{Name: name,
		Partitions: partitions, Replicas: Brokers, Assignment: assignment}); err != nil {
		b.c.Fatalf("create topic %s: %v", name, err)
	}
	image := b.until("broker 0 leads "+name, func(i *metadata.Image) bool {
		found := i.Topic(name)
		return found != nil && !slices.ContainsFunc(found.Partitions,
			func(p *metadata.Partition) bool { return p.Leader != 0 })
	})
	return image.Topic(name)
}

// end waits until Run returns, and checks that no image was changed.
func (b *broker) end() {
	<-b.ended
	b.received.Lock()
	defer b.received.Unlock()
	for _, r := range b.received.images {
		if now := contentOf(r.image); now != r.content {
			b.c.Errorf("broker %d: an image was changed:\n%s\n%s", b.id, r.content, now)
		}
	}
	b.c.running = slices.DeleteFunc(b.c.running, func(other *broker) bool { return other == b })
}

// stop stops a broker gracefully.
func (b *broker) stop() {
	b.c.Helper()
	b.cancel()
	b.end()
	if b.err != nil {
		b.c.Errorf("broker %d: Run returned %v after the end of its context", b.id, b.err)
	}
}

// kill ends a broker without a graceful stop.
func (b *broker) kill() {
	b.c.world.Kill(b.id)
	b.cancel()
	b.end()
}

func (c *cluster) stop() {
	for _, b := range slices.Clone(c.running) {
		b.stop()
	}
}
