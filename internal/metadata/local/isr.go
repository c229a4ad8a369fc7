package local

import (
	"context"
	"errors"

	"heartwood.dev/heartwood/internal/metadata"
)

// errOneReplica is why neither the ISR changes nor leadership moves yet: partitions have one replica.
var errOneReplica = errors.New("partitions have one replica in this version")

// ChangeISR implements metadata.Store.
func (s *Store) ChangeISR(context.Context, metadata.ISRChange) error { return errOneReplica }
