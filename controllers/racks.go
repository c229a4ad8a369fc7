package controllers

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
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// A broker's rack is a label of its pod's node, which a broker may not read, and the operator may
// where it looks after all namespaces. So the operator writes it into the broker's Lease, from
// where placement and all brokers have it. Where the operator may read no nodes, it changes
// nothing: brokers are in no racks then, or in those that somebody wrote into the Leases.

const (
	// rackAskInterval is how often a node is asked for again; labels of nodes hardly ever change.
	rackAskInterval = 10 * time.Minute
	// rackRetryInterval is the same after an error that will pass.
	rackRetryInterval = 10 * time.Second
)

// racks knows the racks of brokers. It is for the broker controller, of which one worker runs.
type racks struct {
	client.Client
	// the API server itself: a watch of all nodes would bring each of their heartbeats
	nodes client.Reader
	known map[types.NamespacedName]rack
}

// rack is what was found for the broker of a Lease.
type rack struct {
	node, key string // where it was looked for
	name      string // "": the node is in none
	found     bool   // false: the node could not be read
	again     time.Time
}

func newRacks(c client.Client, nodes client.Reader) *racks {
	return &racks{Client: c, nodes: nodes, known: map[types.NamespacedName]rack{}}
}

// write sees to it that a broker's Lease names the rack of the node that its pod is on. A conflict
// is the broker's renewal, and the next one brings us here again.
func (r *racks) write(ctx context.Context, key types.NamespacedName, cluster string) error {
	lease, err := getLease(ctx, r, key)
	if err != nil || lease == nil {
		delete(r.known, key)
		return err
	}
	pod, err := getPod(ctx, r, key)
	if err != nil || pod == nil || pod.Spec.NodeName == "" ||
		string(pod.UID) != lease.Annotations[v1alpha1.AnnotationPod] {
		return err
	}
	owner := &v1alpha1.LogCluster{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: cluster},
		owner); err != nil {
		return client.IgnoreNotFound(err)
	}
	of := r.look(ctx, key, pod.Spec.NodeName, cmp.Or(owner.Spec.RackKey, corev1.LabelTopologyZone))
	if !of.found || lease.Annotations[v1alpha1.AnnotationRack] == of.name {
		return nil
	}
	return r.record(ctx, lease, of.name)
}

// record writes a rack over exactly the Lease that was read: whoever holds it, and until when,
// stays as it is.
func (r *racks) record(ctx context.Context, lease *coordinationv1.Lease, name string) error {
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

// look returns the label of a node, from memory while that is fresh.
func (r *racks) look(ctx context.Context, key types.NamespacedName, node, label string) rack {
	before, now := r.known[key], time.Now()
	if before.node == node && before.key == label && now.Before(before.again) {
		return before
	}
	asking, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	read := &metav1.PartialObjectMetadata{}
	read.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := r.nodes.Get(asking, client.ObjectKey{Name: node}, read)
	found := rack{node: node, key: label, name: read.Labels[label], found: err == nil,
		again: now.Add(rackAskInterval)}
	switch {
	case apierrors.IsForbidden(err):
		if before.node != node { // once a broker and node, not every ten minutes
			ctrl.LoggerFrom(ctx).
				Info("broker counts as in no rack: this operator may not read nodes, which are no namespace's",
					"lease", key.Name, "node", node)
		}
	case err != nil:
		found.again = now.Add(rackRetryInterval)
		ctrl.LoggerFrom(ctx).Info("cannot tell a broker's rack", "lease", key.Name, "node", node,
			"error", err.Error())
	}
	r.known[key] = found
	return found
}
