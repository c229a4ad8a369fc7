package kube

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// errNewVolume means that this broker's volume is not the one that the broker used last, and that
// there is no consent to its use. This volume lacks the records on the volume that was used last,
// so the broker must not continue as the same replica (ADR 0273).
var errNewVolume = errors.New("the volume is not the one that this broker used last")

// reportFound writes the directory id of this broker's volume into the Lease, which shows the
// operator that the broker is waiting. It does not renew the Lease. It returns errNewVolume.
func (k *keeper) reportFound(ctx context.Context, current *coordinationv1.Lease) error {
	if v1alpha1.ReadRegistration(current).FoundDirectory != k.self.Directory {
		v1alpha1.ChangeRegistration(current, func(r *v1alpha1.Registration) {
			r.FoundDirectory = k.self.Directory
		})
		if err := k.client.Update(ctx, current); err != nil {
			return err
		}
	}
	return errNewVolume
}

// voidConsent removes the consent to a volume other than the one with which the broker has just
// registered, so that the consent cannot apply to a later volume.
func voidConsent(lease *coordinationv1.Lease) {
	registered := v1alpha1.ReadRegistration(lease)
	if v1alpha1.LeaseVolumeConsent(lease).Directory != registered.Directory {
		delete(lease.Annotations, v1alpha1.AnnotationVolumeConsent)
	}
}

// waits records whether acquire is waiting for consent to a new volume. It logs the wait only once.
func (k *keeper) waits(err error) {
	if !errors.Is(err, errNewVolume) {
		k.waiting.Store(nil)
		return
	}
	if k.waiting.Load() != nil {
		return
	}
	waiting := fmt.Errorf("%w: condition %s of LogCluster %s names the command that permits the "+
		"broker to use it", errNewVolume, v1alpha1.ConditionVolumeLost, k.cluster)
	k.waiting.Store(&waiting)
	k.logger.Error("refused to use a new volume; waiting for consent", "lease", k.key.Name,
		"directory", k.self.Directory, "logCluster", k.cluster)
}

// WaitsFor implements metadata.RegistrationWaiter.
func (s *Store) WaitsFor() error {
	if keeper := s.registering.Load(); keeper != nil {
		if waiting := keeper.waiting.Load(); waiting != nil {
			return *waiting
		}
	}
	return nil
}
