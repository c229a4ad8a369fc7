package data

import (
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// Handler answers the requests for records and logs.
type Handler struct {
	*api.Access
	Image    func() *metadata.Image // returns the current metadata image; never nil
	Replicas *replica.Set
	DataDir  string // data directory that responses to admin clients contain
	// Volume returns the size and the free space of the disk in bytes, with -1 for an unknown
	// value. If Volume is nil, both values are unknown.
	Volume func() (total, usable int64)
}
