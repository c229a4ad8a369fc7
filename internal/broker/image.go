package broker

import (
	"context"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/metadata"
)

// images contains a broker's metadata images. Requests use the image that was applied last, because
// clients must be directed to a broker only for partitions that it already serves. Deleted topics
// are an exception: requests treat a topic as deleted as soon as the metadata store reports the
// deletion, because applying the deletion may take long: the broker waits for the disk, and may
// still be applying an earlier image.
type images struct {
	newest  atomic.Pointer[metadata.Image] // newest image from the metadata store
	current atomic.Pointer[imageState]     // the image that requests use
	// wakeUp has a buffer of one. A token in it makes follow apply the newest image.
	wakeUp chan struct{}
	usable chan struct{} // closed once the first image is applied
	mu     struct {
		sync.Mutex                 // held while current is being replaced
		applied    *metadata.Image // the image that was applied last
	}
}

// imageState contains the metadata image that requests use.
type imageState struct {
	image    *metadata.Image
	replaced chan struct{} // closed when another image replaces this one
}

// start sets the image that requests use until the first image is applied.
func (i *images) start(image *metadata.Image) {
	i.wakeUp, i.usable = make(chan struct{}, 1), make(chan struct{})
	i.mu.applied = image
	i.current.Store(&imageState{image: image, replaced: make(chan struct{})})
}

// offer sets the newest image.
func (i *images) offer(image *metadata.Image) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.newest.Store(image)
	i.replaceLocked()
}

// apply records that an image has been applied. Only the goroutine that applies images calls it, so
// an older image never replaces a newer one.
func (i *images) apply(image *metadata.Image) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mu.applied = image
	i.replaceLocked()
}

// replaceLocked makes requests use the applied image, without the topics that are deleted in the
// newest image.
func (i *images) replaceLocked() {
	image := i.mu.applied.WithoutDeleted(i.newest.Load())
	before := i.current.Load()
	if image == before.image {
		return
	}
	i.current.Store(&imageState{image: image, replaced: make(chan struct{})})
	close(before.replaced)
}

// image returns the metadata image that requests use.
func (b *Broker) image() *metadata.Image { return b.images.current.Load().image }

// await waits until enough returns true for the image that requests use, or until ctx ends.
func (b *Broker) await(ctx context.Context, enough func(*metadata.Image) bool) {
	for {
		now := b.images.current.Load()
		if enough(now.image) {
			return
		}
		select {
		case <-now.replaced:
		case <-ctx.Done():
			return
		}
	}
}
