package broker

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/keyed"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

const (
	// rackReadInterval is the time for which a node's label is cached; labels of nodes rarely
	// change.
	rackReadInterval = 10 * time.Minute
	// rackRetryInterval is the time after which a failed read of a node is repeated.
	rackRetryInterval = 10 * time.Second
)

// racks writes each broker's rack into the broker's Lease. Placement and all brokers read it there.
//
// A broker's rack is the value of a label of its pod's node. A broker has no permission to read
// nodes; the operator has this permission if it watches all namespaces. An operator without this
// permission does not change the Leases: brokers then have no racks, unless a user wrote racks into
// the Leases.
type racks struct {
	client.Client
	// nodes reads from the API server itself. A cache would need a watch of nodes, which would
	// deliver the heartbeats of all nodes.
	nodes client.Reader
	// known caches the results of reads, by the broker's Lease. After a restart of the operator it
	// is empty, which costs one read per broker.
	known keyed.Map[rack]
}

// rack is the result of reading the node of a broker.
type rack struct {
	node, label string // the node and the label that were read
	// the broker's rack: the label's value, "" if the node does not have the label
	name       string
	found      bool      // false if the node could not be read
	validUntil time.Time // when the node is read again
}

func newRacks(c client.Client,
	nodes client.Reader) *racks {
	return &racks{Client: c, nodes: nodes}
}

// write ensures that a broker's Lease contains the rack of its pod's node. If the update conflicts
// with a renewal by the broker, the event of that renewal triggers another reconciliation.
func (r *racks) write(ctx context.Context, key types.NamespacedName, cluster string) error {
	lease, err := brokerstate.GetLease(ctx, r, key)
	if err != nil || lease == nil {
		r.known.Delete(key)
		return err
	}
	pod, err := brokerstate.GetPod(ctx, r, key)
	if err != nil || pod == nil || pod.Spec.NodeName == "" ||
		string(pod.UID) != lease.Annotations[v1alpha1.AnnotationPod] {
		return err
	}
	owner := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: cluster},
		owner); err != nil {
		return client.IgnoreNotFound(err)
	}
	of := r.read(ctx, key, pod.Spec.NodeName, cmp.Or(owner.Spec.RackKey, corev1.LabelTopologyZone))
	if !of.found || lease.Annotations[v1alpha1.AnnotationRack] == of.name {
		return nil
	}
	return r.update(ctx, lease, of.name)
}

// update writes a rack into lease, which was read before. It uses compare-and-swap, so that it
// cannot overwrite a later holder or renewTime of the Lease.
func (r *racks) update(ctx context.Context, lease *coordinationv1.Lease, name string) error {
	changed := lease.DeepCopy()
	changed.Annotations[v1alpha1.AnnotationRack] = name
	if name == "" {
		delete(changed.Annotations, v1alpha1.AnnotationRack)
	}
	if err := r.Update(ctx, changed); err != nil && !apierrors.IsConflict(err) &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("write the rack into lease %s: %w", lease.Name, err)
	}
	return nil
}

// read returns the rack of a node. It reads the node only if the cached result is no longer valid.
func (r *racks) read(ctx context.Context, key types.NamespacedName, node, label string) rack {
	before, _ := r.known.Get(key)
	now := time.Now()
	if before.node == node && before.label == label && now.Before(before.validUntil) {
		return before
	}
	timed, cancel := context.WithTimeout(ctx, brokerstate.ReadTimeout)
	defer cancel()
	read := &metav1.PartialObjectMetadata{}
	read.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := r.nodes.Get(timed, client.ObjectKey{Name: node}, read)
	found := rack{node: node, label: label, name: read.Labels[label], found: err == nil,
		validUntil: now.Add(rackReadInterval)}
	switch {
	case apierrors.IsForbidden(err):
		if before.node != node { // log once per broker and node
			ctrl.LoggerFrom(ctx).Info("broker has no rack: the operator has no permission to read nodes",
				"lease", key.Name, "node", node)
		}
	case err != nil:
		found.validUntil = now.Add(rackRetryInterval)
		ctrl.LoggerFrom(ctx).Info("failed to read the rack of a broker", "lease", key.Name, "node",
			node, "error", err.Error())
	}
	r.known.Set(key, found)
	return found
}
