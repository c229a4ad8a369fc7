package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
)

// errReplaced: another process is this broker now. Two brokers on one id would both lead.
var errReplaced = errors.New("another incarnation of this broker holds its lease")

// requestTimeout bounds one request about the Lease: a late renewal is worse than a failed one.
const requestTimeout = 4 * time.Second

// leavingTries is how often the Lease is written to say that this broker leaves, when others
// (somebody's edit) change it meanwhile.
const leavingTries = 3

// keeper keeps this broker's Lease.
type keeper struct {
	client  client.Client // reads from the API server itself, not from a cache
	key     client.ObjectKey
	cluster string
	self    metadata.Broker
	pod     string // its uid; "" outside of a pod
	holder  string // this incarnation
	logger  *slog.Logger

	lease   *coordinationv1.Lease // as last written; of the keeping goroutine
	leaving bool                  // each write says so; of the keeping goroutine
	renewed atomic.Int64          // when, in Unix nanoseconds

	leave chan chan<- error // asks the keeping goroutine to say that this broker leaves
	ended chan struct{}     // closed when that has returned
}

func newKeeper(c client.Client, opts Options, self metadata.Broker) *keeper {
	return &keeper{
		client: c, cluster: opts.Cluster, self: self, pod: opts.PodUID, holder: uuid.NewString(),
		logger: opts.Logger,
		leave:  make(chan chan<- error), ended: make(chan struct{}),
		key: client.ObjectKey{Namespace: opts.Namespace,
			Name: v1alpha1.BrokerLeaseName(opts.Cluster, self.ID)},
	}
}

// acquire takes the Lease over and returns the epoch of this incarnation. Whoever held it has been
// replaced: a StatefulSet runs at most one pod of a name, so the one before is dead or about to
// find out.
func (k *keeper) acquire(ctx context.Context) (epoch int64, err error) {
	for tries := (outage.State{}); ; {
		if err = k.tryAcquire(ctx); err == nil {
			return int64(*k.lease.Spec.LeaseTransitions), nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && tries.Fail(time.Now()) {
			k.logger.Warn("cannot take lease", "lease", k.key.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(renewInterval):
		}
	}
}

// tryAcquire writes the Lease with the next number of transitions, by compare-and-swap: of two
// incarnations that start at once one has a conflict, and no epoch is given twice.
func (k *keeper) tryAcquire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := k.client.Get(ctx, k.key, lease)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	found := err == nil
	before := int32(0)
	if transitions := lease.Spec.LeaseTransitions; transitions != nil {
		before = *transitions
	}
	if !found {
		if before, err = k.known(ctx); err != nil {
			return err
		}
	}
	k.fill(lease, before+1)
	if found {
		err = k.client.Update(ctx, lease)
	} else {
		lease.Name, lease.Namespace = k.key.Name, k.key.Namespace
		if lease.OwnerReferences, err = k.owner(ctx); err != nil {
			return err
		}
		err = k.client.Create(ctx, lease)
	}
	return k.wrote(lease, err)
}

// known is the latest incarnation of this broker that the disk or a Partition tells of, 0 if none
// does: the Lease that counted them is gone, with its LogCluster or by somebody's hand. Were one
// counted twice, a broker that came back without its last records could pass for itself of before,
// which is in sync on record.
func (k *keeper) known(ctx context.Context) (int32, error) {
	partitions := &v1alpha1.PartitionList{}
	err := k.client.List(ctx, partitions, client.InNamespace(k.key.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: k.cluster})
	if err != nil {
		return 0, fmt.Errorf("list partitions: %w", err)
	}
	latest := max(0, k.self.CleanEpoch)
	for i := range partitions.Items {
		for _, replica := range partitions.Items[i].Status.ISR {
			if replica.Broker == k.self.ID {
				latest = max(latest, replica.BrokerEpoch)
			}
		}
	}
	if latest >= math.MaxInt32 {
		return 0, fmt.Errorf("incarnation %d of broker %d leaves no number for the next", latest,
			k.self.ID)
	}
	return int32(latest), nil
}

// owner is the LogCluster, so that its brokers' Leases go with it; nobody while there is none. It
// is set when the Lease is made and never changed: where API servers guard owners, a change needs
// the right to delete.
func (k *keeper) owner(ctx context.Context) ([]metav1.OwnerReference, error) {
	cluster := &v1alpha1.LogCluster{}
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.key.Namespace, Name: k.cluster}, cluster)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogCluster", Name: cluster.Name,
		UID: cluster.UID,
	}}, nil
}

// fill makes a Lease this incarnation's, whoever held it. What other labels and annotations it has,
// stays.
func (k *keeper) fill(lease *coordinationv1.Lease, transitions int32) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[v1alpha1.LabelCluster] = k.cluster
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	cleanEpoch := ""
	if k.self.CleanEpoch >= 0 {
		cleanEpoch = strconv.FormatInt(k.self.CleanEpoch, 10)
	}
	endpoint, _ := k.self.Endpoints.On(metadata.DefaultListener)
	for name, value := range map[string]string{
		v1alpha1.AnnotationEndpoint:  endpoint.String(),
		v1alpha1.AnnotationPeer:      k.self.Peer,
		v1alpha1.AnnotationDirectory: k.self.Directory,
		v1alpha1.AnnotationProducerIDs: strconv.FormatInt(
			metadata.NextProducerIDs(producerIDs(lease),
				lease.Annotations[v1alpha1.AnnotationDirectory], k.self), 10),
		v1alpha1.AnnotationCleanEpoch: cleanEpoch,
		v1alpha1.AnnotationPod:        k.pod,
		v1alpha1.AnnotationLeaving:    "", // what an earlier incarnation said
	} {
		lease.Annotations[name] = value
		if value == "" {
			delete(lease.Annotations, name)
		}
	}
	if k.self.Rack != "" { // else the operator says it, which knows the node
		lease.Annotations[v1alpha1.AnnotationRack] = k.self.Rack
	}
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity = &k.holder
	lease.Spec.LeaseTransitions = &transitions
	lease.Spec.LeaseDurationSeconds = new(int32(leaseDuration / time.Second))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
}

// wrote notes a write that succeeded, and passes the error of one that did not.
func (k *keeper) wrote(lease *coordinationv1.Lease, err error) error {
	if err != nil {
		return err
	}
	k.lease = lease
	k.renewed.Store(time.Now().UnixNano())
	return nil
}

// keep renews the Lease until ctx ends, then releases it. It fails with errReplaced only: an API
// server that is away comes back.
func (k *keeper) keep(ctx context.Context) error {
	defer close(k.ended)
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			k.release(context.WithoutCancel(ctx))
			return nil
		case answer := <-k.leave:
			answer <- k.sayLeaving(ctx) // it has room for one
			continue
		case <-ticker.C:
		}
		err := k.renew(ctx)
		if errors.Is(err, errReplaced) {
			return err
		}
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			if failed {
				k.logger.Warn("cannot renew lease, the data plane goes on", "lease", k.key.Name,
					"error", err)
			} else {
				k.logger.Info("lease renewed again", "lease", k.key.Name)
			}
		}
	}
}

// renew writes a new renewTime over what was last written. A conflict, or a Lease that is gone, is
// looked into; see reread.
func (k *keeper) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease := k.lease.DeepCopy()
	lease.Spec.RenewTime = new(metav1.NowMicro())
	if k.leaving && lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	if k.leaving {
		lease.Annotations[v1alpha1.AnnotationLeaving] = strconv.FormatInt(leaseEpoch(lease), 10)
	}
	err := k.wrote(lease, k.client.Update(ctx, lease))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return k.reread(ctx)
	}
	return err
}

// sayLeaving writes at once what each renewal says from then on.
func (k *keeper) sayLeaving(ctx context.Context) error {
	k.leaving = true
	for range leavingTries {
		if err := k.renew(ctx); err != nil {
			return fmt.Errorf("say in lease %s that this broker leaves: %w", k.key.Name, err)
		}
		if leaves(k.lease) {
			return nil
		}
	}
	return fmt.Errorf("say in lease %s that this broker leaves: it is changed too often",
		k.key.Name)
}

// askLeave has the keeping goroutine say that this broker leaves, and waits for the answer until
// ctx ends. Any goroutine may call it.
func (k *keeper) askLeave(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case k.leave <- answer:
	case <-k.ended:
		return fmt.Errorf("lease %s is kept no more", k.key.Name)
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reread finds out who changed the Lease: somebody's edit is taken over with the next renewal,
// another holder is the end. If somebody deleted it, it is made again: we are the same incarnation
// still, and the number must not begin anew. The garbage collector may be who deleted it, as the
// LogCluster went. If that was made again before our pod went, the Lease gets the new owner, or it
// would be collected over and over; if not, it keeps the old one, to be collected once we are gone.
func (k *keeper) reread(ctx context.Context) error {
	lease := &coordinationv1.Lease{}
	err := k.client.Get(ctx, k.key, lease)
	if apierrors.IsNotFound(err) {
		lease = k.lease.DeepCopy()
		lease.ResourceVersion, lease.UID = "", ""
		owners, err := k.owner(ctx)
		if err != nil {
			return err
		}
		if owners != nil {
			lease.OwnerReferences = owners
		}
		return k.wrote(lease, k.client.Create(ctx, lease))
	}
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != k.holder {
		return fmt.Errorf("%w: %s", errReplaced, k.key.Name)
	}
	k.lease = lease
	return nil
}

// release says that the broker stopped in order, so that nobody waits for the Lease to run out.
func (k *keeper) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := k.tryRelease(ctx)
	if apierrors.IsConflict(err) { // a renewal that ctx cut off may have been written all the same
		if err = k.reread(ctx); err == nil {
			err = k.tryRelease(ctx)
		}
	}
	if err != nil {
		k.logger.Warn("cannot release lease, it will run out", "lease", k.key.Name, "error", err)
	}
}

// tryRelease takes the holder's name off. The number of transitions stays: the next incarnation
// counts on from it.
func (k *keeper) tryRelease(ctx context.Context) error {
	lease := k.lease.DeepCopy()
	lease.Spec.HolderIdentity = new(string)
	return k.client.Update(ctx, lease)
}

// lastRenewed is by this machine's clock, of the last write that is known to have succeeded. Any
// goroutine may ask.
func (k *keeper) lastRenewed() time.Time { return time.Unix(0, k.renewed.Load()) }
