package broker

import (
	"context"

	"heartwood.dev/heartwood/internal/metadata"
)

// shown is the image that requests see: the newest one that was applied.
type shown struct {
	image    *metadata.Image
	replaced chan struct{} // closed when the next one is shown
}

// image is what requests see of the cluster.
func (b *Broker) image() *metadata.Image { return b.shown.Load().image }

// show lets requests see an image. It is for the goroutine that applies them: with two writers a
// channel could be closed before its image is replaced.
func (b *Broker) show(image *metadata.Image) {
	before := b.shown.Swap(&shown{image: image, replaced: make(chan struct{})})
	close(before.replaced)
}

// await waits until requests see an image that satisfies enough, or ctx ends.
func (b *Broker) await(ctx context.Context, enough func(*metadata.Image) bool) {
	for {
		now := b.shown.Load()
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
