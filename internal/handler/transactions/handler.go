package transactions

import (
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// Handler handles the requests for producers and transactions, including requests from other
// brokers.
type Handler struct {
	*api.Access
	Image        func() *metadata.Image // returns the current metadata image; never nil
	Transactions *coordinator.Transactions
	Groups       *coordinator.Groups
	Replicas     *replica.Set
	ProducerID   func() (int64, error) // returns an unused producer id

	markers markerSenders
}
