package kube

import (
	"context"
	"errors"

	"heartwood.dev/heartwood/internal/metadata"
)

// errOneReplica is why neither the ISR changes nor leadership moves yet: partitions have one replica here.
var errOneReplica = errors.New("partitions have one replica on Kubernetes in this version")

// ChangeISR implements metadata.Store.
func (s *Store) ChangeISR(context.Context, metadata.ISRChange) error { return errOneReplica }

// Leave implements metadata.Leaver.
func (s *Store) Leave(context.Context) error { return errOneReplica }
