package httpport

import (
	"errors"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/events"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// Errors of CleanNow, in addition to cleaner.ErrNotCompacted and cleaner.ErrDisabled.
var (
	ErrUnknownTopic     = errors.New("unknown topic")
	ErrUnknownPartition = errors.New("unknown partition")
	ErrStarting         = errors.New("broker is starting")
	// ErrScrubOff means that ScrubNow was called while the scrub is off.
	ErrScrubOff = errors.New("the scrub is off: set spec.scrub.interval of the LogCluster")
)

// Broker contains the parts of a broker that the HTTP port uses.
type Broker struct {
	ID       int32
	Image    func() *metadata.Image // returns the image that requests use; never nil
	Store    *logstore.Store
	Cleaner  *cleaner.Cleaner
	Replicas *replica.Set
	Observe  func(*events.Hub) // makes the broker send its passes and their steps to the hub
	// Volume returns the last measurement of the volume. known is false if the volume's size is
	// unknown.
	Volume func() (v report.Volume, known bool)
	// Scrub returns the scrub's state.
	Scrub func() report.Scrub
	// FailingClients returns the clients that fail to authenticate. Within each listener, blocked
	// clients come first.
	FailingClients func() []report.FailingClient
}

// Brokers contains the brokers of one process. It is empty while they open their logs.
type Brokers []*Broker

// Image returns the metadata image of the first broker that has applied one, or nil while all
// brokers are starting. Other brokers may have applied newer or older images.
func (all Brokers) Image() *metadata.Image {
	for _, b := range all {
		if image := b.Image(); image.ClusterID != "" {
			return image
		}
	}
	return nil
}
