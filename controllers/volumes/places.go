package volumes

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/keyed"
	"heartwood.dev/heartwood/internal/operator/volumes"
)

// placeValid is the time for which a PersistentVolume's place is cached.
const placeValid = 5 * time.Second

// places finds PersistentVolumes and the nodes that can mount them. Its cache is empty after a
// restart of the operator, so the same reads are then made again.
type places struct{ known keyed.Map[map[string]place] } // by LogCluster and PersistentVolume

// place reports whether a PersistentVolume exists, and whether a node exists that can mount it.
type place struct {
	volume, node volumes.Presence
	validUntil   time.Time
}

// find reports whether a LogCluster's PersistentVolume exists, and whether a node exists that can
// mount it.
func (p *places) find(ctx context.Context, live client.Reader, cluster types.NamespacedName,
	name string) (volume, node volumes.Presence) {
	all, _ := p.known.Get(cluster)
	if all == nil {
		all = map[string]place{}
		p.known.Set(cluster, all)
	}
	now := time.Now()
	maps.DeleteFunc(all, func(_ string, known place) bool { return !now.Before(known.validUntil) })
	if known, ok := all[name]; ok {
		return known.volume, known.node
	}
	ctx, cancel := context.WithTimeout(ctx, brokerstate.ReadTimeout)
	defer cancel()
	pv := &corev1.PersistentVolume{}
	err := live.Get(ctx, types.NamespacedName{Name: name}, pv)
	known := place{presence(ctx, err, "PersistentVolume", name), volumes.Unknown,
		now.Add(placeValid)}
	if err == nil {
		known.node = nodeOf(ctx, live, pv)
	}
	all[name] = known
	return known.volume, known.node
}

// forget removes the places of a LogCluster that does not exist.
func (p *places) forget(cluster types.NamespacedName) { p.known.Delete(cluster) }

// presence derives the presence of an object from the error of a read.
func presence(ctx context.Context, err error, kind, name string) volumes.Presence {
	switch {
	case err == nil:
		return volumes.Present
	case apierrors.IsNotFound(err):
		return volumes.Absent
	case !apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).Info("failed to read the place of a volume", "kind", kind, "object",
			name, "error", err.Error())
	}
	return volumes.Unknown
}

// nodeOf reports whether a node exists that can mount a PersistentVolume. A volume on network
// storage names no nodes; at most it names zones.
func nodeOf(ctx context.Context, live client.Reader,
	pv *corev1.PersistentVolume) volumes.Presence {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return volumes.Present
	}
	found := volumes.Absent
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		switch ofTerm(ctx, live, term) {
		case volumes.Present:
			return volumes.Present
		case volumes.Unknown:
			found = volumes.Unknown
		}
	}
	return found
}

// ofTerm reports whether a node exists that has one of the names in a term. A term without names
// can match any node. The hostname label of a node can differ from the node's name.
func ofTerm(ctx context.Context, live client.Reader,
	term corev1.NodeSelectorTerm) volumes.Presence {
	found := volumes.Present
	for _, e := range term.MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn {
			found = anyNode(e.Values, func(value string) volumes.Presence {
				return withHostname(ctx, live, value)
			})
		}
	}
	for _, e := range term.MatchFields {
		if e.Key == "metadata.name" && e.Operator == corev1.NodeSelectorOpIn {
			found = anyNode(e.Values, func(value string) volumes.Presence {
				return presence(ctx, live.Get(ctx, types.NamespacedName{Name: value}, node()), "Node",
					value)
			})
		}
	}
	return found
}

// anyNode returns Present if one of several nodes exists, and Absent if none does.
func anyNode(names []string, find func(string) volumes.Presence) volumes.Presence {
	found := volumes.Absent
	for _, name := range names {
		switch find(name) {
		case volumes.Present:
			return volumes.Present
		case volumes.Unknown:
			found = volumes.Unknown
		}
	}
	return found
}

// withHostname reports whether a node with the given hostname label exists.
func withHostname(ctx context.Context, live client.Reader, name string) volumes.Presence {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	err := live.List(ctx, nodes, client.MatchingLabels{corev1.LabelHostname: name}, client.Limit(1))
	if found := presence(ctx, err, "Node", name); found != volumes.Present {
		return found
	}
	if len(nodes.Items) == 0 {
		return volumes.Absent
	}
	return volumes.Present
}

func node() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return object
}
