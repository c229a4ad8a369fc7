package broker

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
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
	// rackReadInterval is the time for which a node's label is cached. Labels of nodes rarely change.
	rackReadInterval = 10 * time.Minute
	// rackRetryInterval is the delay before a failed read of a node is repeated.
	rackRetryInterval = 10 * time.Second
)

// racks writes each broker's rack into the broker's Lease. Placement and all brokers read the rack
// from the Lease.
//
// A broker's rack is the value of a label of its pod's node. Since Kubernetes 1.35 the API server
// copies the node's region and zone to the labels of the pod (KEP-4742). Otherwise the operator
// reads the node. A broker has no permission to read nodes. The operator has this permission if it
// watches all namespaces. Without this permission it does not change the Leases, so brokers have no
// racks unless a user wrote racks into the Leases.
type racks struct {
	client.Client
	// nodes reads from the API server itself. A cache would need a watch on nodes, which would deliver
	// every node's heartbeats.
	nodes client.Reader
	// known caches the results of reads, by the broker's Lease. It is empty after a restart of the
	// operator, which costs one read per broker.
	known keyed.Map[rack]
	// forbidden is true while the API server does not permit the operator to read nodes.
	forbidden atomic.Bool
}

// rack is the result of reading the node of a broker.
type rack struct {
	node, label string // node and label that were read
	// name is the broker's rack: the label's value, or "" if the node does not have the label.
	name       string
	found      bool      // false if the node could not be read
	validUntil time.Time // time of the next read of the node
}

func newRacks(c client.Client,
	nodes client.Reader) *racks {
	return &racks{Client: c, nodes: nodes}
}

// of returns a broker's rack, read from a label of the broker's node. known is false until the node
// was read. If the operator may not read nodes, the rack will never be known, so of returns "" and
// true.
func (r *racks) of(key types.NamespacedName) (name string, known bool) {
	read, _ := r.known.Get(key)
	return read.name, read.found || r.forbidden.Load()
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
		string(pod.UID) != v1alpha1.ReadRegistration(lease).Pod {
		return err
	}
	owner := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: cluster},
		owner); err != nil {
		return client.IgnoreNotFound(err)
	}
	label := cmp.Or(owner.Spec.RackKey, corev1.LabelTopologyZone)
	found := rack{node: pod.Spec.NodeName, label: label, name: pod.Labels[label], found: true}
	if found.name == "" {
		found = r.read(ctx, key, pod.Spec.NodeName, label)
	} else {
		r.known.Set(key, found)
	}
	if !found.found || lease.Annotations[v1alpha1.AnnotationRack] == found.name {
		return nil
	}
	_, err = setAnnotation(ctx, r.Client, lease, v1alpha1.AnnotationRack, found.name)
	return err
}

// setAnnotation sets an annotation of a Lease that was read before, or removes it if the value is
// empty. It uses compare-and-swap to avoid overwriting a later holder or renewTime. written is
// false after a conflict, or if the Lease no longer exists.
func setAnnotation(ctx context.Context, c client.Client, lease *coordinationv1.Lease, name,
	value string) (written bool, err error) {
	changed := lease.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	if changed.Annotations[name] = value; value == "" {
		delete(changed.Annotations, name)
	}
	switch err := c.Update(ctx, changed); {
	case err == nil:
		return true, nil
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("write annotation %s of lease %s: %w", name, lease.Name, err)
	}
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
	r.forbidden.Store(apierrors.IsForbidden(err))
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
