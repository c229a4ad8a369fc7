package groups

import (
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
)

// Handler handles the requests for groups, and finds coordinators.
type Handler struct {
	*api.Access
	Image        func() *metadata.Image // returns the current metadata image; never nil
	Groups       *coordinator.Groups
	Transactions *coordinator.Transactions
}
