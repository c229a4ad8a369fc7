package broker

import (
	"context"

	"heartwood.dev/heartwood/internal/metadata"
)

// imageState is the metadata image that requests see: the newest one that was applied.
type imageState struct {
	image    *metadata.Image
	replaced chan struct{} // closed when the next one is set
}

// image returns the metadata image of requests.
func (b *Broker) image() *metadata.Image { return b.current.Load().image }

// setImage makes an image visible to requests. Only the goroutine that applies images calls it:
// with two writers a channel could be closed before its image is replaced.
func (b *Broker) setImage(image *metadata.Image) {
	before := b.current.Swap(&imageState{image: image, replaced: make(chan struct{})})
	close(before.replaced)
}

// await waits until the image of requests satisfies enough, or ctx ends.
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
