package data

import (
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

// Handler handles the requests for records and logs.
type Handler struct {
	*api.Access
	Image    func() *metadata.Image // returns the current metadata image; never nil
	Replicas *replica.Set
	DataDir  string // data directory, for responses to admin clients
	// Volume returns the volume's size and free space in bytes. An unknown value is -1. If Volume is
	// nil, both are unknown.
	Volume func() (total, usable int64)
}
