package admin

import (
	"context"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
)

// Handler handles the requests that describe and change the cluster, its topics, settings and
// users.
type Handler struct {
	*api.Access
	Image func() *metadata.Image // returns the current metadata image; never nil
	// Await waits until enough returns true for the current metadata image, or until ctx is done.
	Await   func(ctx context.Context, enough func(*metadata.Image) bool)
	Topics  metadata.Admin
	Alterer metadata.Alterer
	Mover   metadata.Mover
	Users   metadata.UserAdmin
	Broker  Broker

	missing logLimit // limits messages about missing topics; uses one key for all
}

// Broker contains the properties of this broker that DescribeConfigs returns.
type Broker struct {
	NodeID  int32
	DataDir string
	Listen  string // host:port of the listener
}
