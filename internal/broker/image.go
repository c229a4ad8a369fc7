package broker

import (
	"context"

	"heartwood.dev/heartwood/internal/metadata"
)

// imageState is the metadata image that requests use: the newest image that was applied.
type imageState struct {
	image    *metadata.Image
	replaced chan struct{} // closed when the next image is set
}

// image returns the metadata image that requests use.
func (b *Broker) image() *metadata.Image { return b.current.Load().image }

// setImage makes requests use an image. Only the goroutine that applies images calls it, so that an
// older image never replaces a newer one.
func (b *Broker) setImage(image *metadata.Image) {
	before := b.current.Swap(&imageState{image: image, replaced: make(chan struct{})})
	close(before.replaced)
}

// await waits until the image that requests use satisfies enough, or until ctx ends.
func (b *Broker) await(ctx context.Context, enough func(*metadata.Image) bool) {
	for {
		now := b.current.Load()
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
