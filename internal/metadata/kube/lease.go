package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/version"
)

// errReplaced means that another process has acquired this broker's Lease. This process must then
// stop, because two processes with the same broker id would both lead.
var errReplaced = errors.New("another incarnation of this broker holds its lease")

const (
	// requestTimeout limits the duration of one request. It is shorter than lease.Duration, so that a
	// renewal without a response can be repeated before the Lease expires.
	requestTimeout = 4 * time.Second
	// leavingAttempts is the maximum number of attempts of announceLeaving to write the Lease while
	// other writers cause conflicts.
	leavingAttempts = 3
)

// keeper acquires, renews and releases this broker's Lease.
type keeper struct {
	client  client.Client // client that reads from the API server without a cache
	key     client.ObjectKey
	cluster string
	self    metadata.Broker
	pod     string // uid of the pod; "" outside a pod
	holder  string // holder identity of this incarnation
	logger  *slog.Logger
	times   times         // times, with defaults filled in
	trust   func() string // function from Options.Trust; never nil
	// volume returns the broker's volume, or the zero value if it is unknown. volume is never nil.
	volume func() v1alpha1.BrokerVolume
	// scrub returns the scrub's last report, as text.
	scrub func() string
	// unreachable returns the value of Registration.Unreachable. It is never nil.
	unreachable func() string
	// recordLosses records self.Losses. It is never nil.
	recordLosses func(ctx context.Context, self metadata.Broker) error

	// The next three fields need no lock: first the method acquire uses them, and after its return
	// only the goroutine that runs the method keep.
	written *coordinationv1.Lease // Lease as last written or read
	leaving bool                  // true if every write announces the controlled shutdown
	// registered is this incarnation's registration, which is written into the Lease. Changes by other
	// writers do not last.
	registered v1alpha1.Registration

	waiting atomic.Pointer[error] // reason why acquire waits for a consent; nil if it does not wait
	renewed atomic.Int64          // time of the last successful write, in Unix nanoseconds
	leave   chan chan<- error     // requests to announce the controlled shutdown
	hurry   <-chan struct{}       // requests to renew the Lease now; may be nil
	ended   chan struct{}         // channel that is closed when keep has returned
}

func newKeeper(c client.Client, opts Options, self metadata.Broker) *keeper {
	trust := opts.Trust
	if trust == nil {
		trust = func() string { return "" }
	}
	return &keeper{
		client: c, cluster: opts.Cluster, self: self, pod: opts.PodUID, holder: uuid.NewString(),
		logger: opts.Logger, times: opts.times.withDefaults(), trust: trust,
		volume:       func() v1alpha1.BrokerVolume { return v1alpha1.BrokerVolume{} },
		scrub:        func() string { return "" },
		recordLosses: func(context.Context, metadata.Broker) error { return nil },
		unreachable:  func() string { return "" }, leave: make(chan chan<- error), ended: make(chan struct{}),
		key: client.ObjectKey{Namespace: opts.Namespace,
			Name: v1alpha1.BrokerLeaseName(opts.Cluster, self.ID)},
	}
}

// acquire makes this process the holder of the Lease and returns its broker epoch. It immediately
// replaces any other holder: a StatefulSet runs at most one pod with a name, so the other holder
// has exited or is about to detect that it was replaced. While the broker has a new volume without
// consent, acquire waits.
func (k *keeper) acquire(ctx context.Context) (epoch int64, err error) {
	for attempts := (outage.State{}); ; {
		if err = k.tryAcquire(ctx); err == nil {
			k.waits(nil)
			return lease.Epoch(k.written), nil
		}
		k.waits(err)
		expected := errors.Is(err, errNewVolume) || apierrors.IsConflict(err) ||
			apierrors.IsAlreadyExists(err)
		if !expected && attempts.Fail(time.Now()) {
			k.logger.Warn("failed to acquire lease", "lease", k.key.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(lease.RenewInterval):
		}
	}
}

// tryAcquire acquires the Lease, unless the broker has a new volume without consent. Before that,
// it records the broker's losses: elections consider the broker once it holds the Lease. A broker
// with a new volume records nothing, because its previous volume may return.
func (k *keeper) tryAcquire(ctx context.Context) error {
	current := &coordinationv1.Lease{}
	err := k.within(ctx, func(ctx context.Context) error {
		err := k.client.Get(ctx, k.key, current)
		if err == nil && v1alpha1.LeaseVolumeLost(current, k.self.Directory) {
			return k.reportFound(ctx, current)
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	if _, err := v1alpha1.ParseRegistration(current); err != nil {
		k.logger.Warn("replacing an invalid registration", "lease", k.key.Name, "error", err)
	}
	if err := k.recordLosses(ctx, k.self); err != nil {
		return err
	}
	k.self.Losses = nil
	return k.within(ctx, func(ctx context.Context) error { return k.writeAcquired(ctx, current) })
}

// within calls f with the timeout of requests.
func (k *keeper) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, k.times.request)
	defer cancel()
	return f(ctx)
}

// writeAcquired writes the Lease with the next number of transitions, by compare-and-swap. If two
// incarnations start at the same time, one of them gets a conflict, so no epoch is used twice. The
// parameter current is the Lease as read, or is empty if the Lease does not exist.
func (k *keeper) writeAcquired(ctx context.Context, current *coordinationv1.Lease) (err error) {
	found, before := current.ResourceVersion != "", int32(0)
	if transitions := current.Spec.LeaseTransitions; transitions != nil {
		before = *transitions
	}
	if !found {
		if before, err = k.latestEpoch(ctx); err != nil {
			return err
		}
	}
	k.fill(current, before+1)
	if found {
		err = k.client.Update(ctx, current)
	} else {
		current.Name, current.Namespace = k.key.Name, k.key.Namespace
		if current.OwnerReferences, err = k.owner(ctx); err != nil {
			return err
		}
		err = k.client.Create(ctx, current)
	}
	return k.recordWrite(current, err)
}

// latestEpoch returns the latest epoch of this broker on its disk or in a PartitionSet, or 0 if
// there is none. It replaces the epoch in the Lease if the Lease was deleted, by a person or with
// its LogCluster. No epoch may be used twice: a broker that returns without its last records would
// be mistaken for its earlier incarnation, which is in the recorded ISR.
//
// latestEpoch also reads the table of directories. If an entry cannot be parsed, the table still
// contains the epochs that the entry names.
func (k *keeper) latestEpoch(ctx context.Context) (int32, error) {
	sets := &v1alpha1.PartitionSetList{}
	err := k.client.List(ctx, sets, client.InNamespace(k.key.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: k.cluster})
	if err != nil {
		return 0, fmt.Errorf("list partition sets: %w", err)
	}
	// Fail if a set was deleted; the operator creates it again.
	if all := sets.Items; len(all) > 0 && len(all) < int(all[0].Spec.Count) {
		return 0, fmt.Errorf("choose the next epoch of broker %d: %d of %d partition sets exist",
			k.self.ID, len(all), all[0].Spec.Count)
	}
	latest := max(0, k.self.CleanEpoch)
	for i := range sets.Items {
		recorded, err := latestRecorded(&sets.Items[i], k.self.ID)
		if err != nil {
			return 0, err
		}
		latest = max(latest, recorded)
	}
	if latest >= math.MaxInt32 {
		return 0, fmt.Errorf("choose the next epoch of broker %d: %d is the largest", k.self.ID,
			latest)
	}
	return int32(latest), nil
}

// latestRecorded returns the latest epoch that a PartitionSet contains for a broker, or 0. If the
// set was deleted and created again, its status is in an annotation until the operator restores it.
func latestRecorded(resource *v1alpha1.PartitionSet, broker int32) (latest int64, err error) {
	if last, err := partitionset.Remembered(resource); err != nil {
		return 0, err
	} else if last != nil {
		resource.Status = *last
	}
	set, _ := partitionset.Decode(resource, nil) // applyImage reports invalid entries
	for _, entry := range set.All() {
		for _, member := range entry.Placed().ISR {
			if member.Broker == broker {
				latest = max(latest, member.Epoch)
			}
		}
	}
	prefix := strconv.Itoa(int(broker)) + ":"
	for pair := range resource.Status.Directories {
		if text, ok := strings.CutPrefix(pair, prefix); ok {
			if epoch, err := strconv.ParseInt(text, 10, 64); err == nil {
				latest = max(latest, epoch)
			}
		}
	}
	return latest, nil
}

// owner returns the Lease's owner reference, by which the garbage collector deletes the Lease with
// its LogCluster. It returns nil if the LogCluster does not exist. The owner is set when the Lease
// is created, and not changed later: an API server that enforces owner permissions allows the
// change only to a client that may delete the Lease.
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

// fill makes this incarnation the holder of a Lease. It keeps the labels and annotations of other
// writers.
func (k *keeper) fill(next *coordinationv1.Lease, transitions int32) {
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	next.Labels[v1alpha1.LabelCluster] = k.cluster
	k.registered = k.registration(v1alpha1.ReadRegistration(next))
	k.registered.Write(next)
	// The mark belongs to an earlier incarnation.
	delete(next.Annotations, v1alpha1.AnnotationIsolated)
	voidConsent(next)
	// If no rack is configured, the operator sets the annotation to the node's rack.
	if k.self.Rack != "" {
		next.Annotations[v1alpha1.AnnotationRack] = k.self.Rack
	}
	now := metav1.NowMicro()
	next.Spec.HolderIdentity = &k.holder
	next.Spec.LeaseTransitions = &transitions
	next.Spec.LeaseDurationSeconds = new(int32(k.times.lease / time.Second))
	next.Spec.AcquireTime, next.Spec.RenewTime = &now, &now
}

// registration returns this incarnation's registration. The parameter before is the previous
// incarnation's registration; its announcements are not repeated.
func (k *keeper) registration(before v1alpha1.Registration) v1alpha1.Registration {
	endpoint, _ := k.self.Endpoints.On(metadata.DefaultListener)
	peer, peerTLS := strings.CutPrefix(k.self.Peer, metadata.PeerTLS)
	return v1alpha1.Registration{
		Endpoint: endpoint.String(), Peer: peer, PeerTLS: peerTLS, Directory: k.self.Directory,
		ProducerIDs: metadata.NextProducerIDs(max(0, before.ProducerIDs), before.Directory, k.self),
		CleanEpoch:  k.self.CleanEpoch, BootEpoch: k.self.BootEpoch, Leaving: -1, Pod: k.pod,
		Version:     version.Version(),
		FormatLevel: version.FormatLevel(), TransactionVersion: k.self.TransactionVersion,
		Trust: k.trust(), Volume: k.volume(), Unreachable: k.unreachable(),
		Scrub: k.scrub(),
	}
}

// recordWrite stores the result and the time of a successful write of the Lease. If err is not nil,
// the write has failed, and recordWrite only returns err.
func (k *keeper) recordWrite(written *coordinationv1.Lease, err error) error {
	if err != nil {
		return err
	}
	k.written = written
	k.renewed.Store(time.Now().UnixNano())
	return nil
}

// keep renews the Lease until ctx ends, and then releases it. Its only error is errReplaced; it
// retries after other failures until the API server is available again.
func (k *keeper) keep(ctx context.Context) error {
	defer close(k.ended)
	ticker := time.NewTicker(lease.RenewInterval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			k.release(context.WithoutCancel(ctx))
			return nil
		case answer := <-k.leave:
			answer <- k.announceLeaving(ctx) // does not block, because the channel has a buffer of one
			continue
		case <-k.hurry:
		case <-ticker.C:
		}
		err := k.renew(ctx)
		if errors.Is(err, errReplaced) {
			return err
		}
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			if failed {
				k.logger.Warn("failed to renew lease; the broker continues to serve",
					"lease", k.key.Name, "error", err)
			} else {
				k.logger.Info("lease renewal resumed", "lease", k.key.Name)
			}
		}
	}
}

// renew writes the Lease as last written, with a new renewTime, and with the present trust, volume,
// scrub and unreachable peers. After a conflict, or if the Lease was deleted, it calls reread.
func (k *keeper) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.times.request)
	defer cancel()
	next := k.written.DeepCopy()
	next.Spec.RenewTime = new(metav1.NowMicro())
	k.registered.Trust, k.registered.Volume = k.trust(), k.volume()
	k.registered.Unreachable, k.registered.Scrub = k.unreachable(), k.scrub()
	if k.leaving {
		k.registered.Leaving = lease.Epoch(next)
	}
	k.registered.Write(next)
	err := k.recordWrite(next, k.client.Update(ctx, next))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return k.reread(ctx)
	}
	return err
}

// announceLeaving immediately writes the announcement of the controlled shutdown. Every later
// renewal repeats it.
func (k *keeper) announceLeaving(ctx context.Context) error {
	k.leaving = true
	for range leavingAttempts {
		if err := k.renew(ctx); err != nil {
			return fmt.Errorf("announce the shutdown in lease %s: %w", k.key.Name, err)
		}
		if lease.Leaving(k.written) {
			return nil
		}
	}
	return fmt.Errorf("announce the shutdown in lease %s: %d attempts ended in conflicts",
		k.key.Name, leavingAttempts)
}

// requestLeaving makes the goroutine of keep announce the controlled shutdown. It waits for the
// result, at most until ctx ends. It is safe for concurrent use.
func (k *keeper) requestLeaving(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case k.leave <- answer:
	case <-k.ended:
		return fmt.Errorf("announce the shutdown in lease %s: the lease is no longer renewed",
			k.key.Name)
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

// reread reads the Lease after another writer has changed or deleted it. The next renewal keeps the
// changes of other writers. If the Lease has another holder, reread returns errReplaced.
//
// A deleted Lease is created again with the same epoch, because this is still the same incarnation.
// The garbage collector may have deleted the Lease with the LogCluster. If the LogCluster was
// created again before this pod stopped, the Lease gets the new owner; with the old owner it would
// be deleted repeatedly. If the LogCluster does not exist, the Lease keeps its old owner, so that
// it is deleted after this broker has stopped.
func (k *keeper) reread(ctx context.Context) error {
	current := &coordinationv1.Lease{}
	err := k.client.Get(ctx, k.key, current)
	if apierrors.IsNotFound(err) {
		current = k.written.DeepCopy()
		current.ResourceVersion, current.UID = "", ""
		owners, err := k.owner(ctx)
		if err != nil {
			return err
		}
		if owners != nil {
			current.OwnerReferences = owners
		}
		return k.recordWrite(current, k.client.Create(ctx, current))
	}
	if err != nil {
		return err
	}
	if holder := current.Spec.HolderIdentity; holder == nil || *holder != k.holder {
		return fmt.Errorf("%w: %s", errReplaced, k.key.Name)
	}
	k.written = current
	return nil
}

// release clears the Lease's holder after a graceful stop, so that observers do not have to wait
// until the Lease expires.
func (k *keeper) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.times.request)
	defer cancel()
	err := k.tryRelease(ctx)
	// A renewal may have been written although it was cancelled with keep's context. It then causes a
	// conflict here.
	if apierrors.IsConflict(err) {
		if err = k.reread(ctx); err == nil {
			err = k.tryRelease(ctx)
		}
	}
	if err != nil {
		k.logger.Warn("failed to release lease; it will expire", "lease", k.key.Name, "error", err)
	}
}

// tryRelease clears the holder. It keeps the number of transitions, from which the next incarnation
// computes its epoch.
func (k *keeper) tryRelease(ctx context.Context) error {
	released := k.written.DeepCopy()
	released.Spec.HolderIdentity = new(string)
	return k.client.Update(ctx, released)
}

// lastRenewed returns the time of the last successful write by this machine's clock. It is safe for
// concurrent use.
func (k *keeper) lastRenewed() time.Time { return time.Unix(0, k.renewed.Load()) }
